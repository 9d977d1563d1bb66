"""The text of a file of rules about summed losses: a right one, and others that are each wrong in one way."""

from __future__ import annotations

RULES = '''
"""Losses that are summed."""

from dllint.api import Const, Context, Edit, Fix, Rule


class SummedLoss(Rule):
    code = "DL190"
    name = "summed-loss"
    category = "suspicious"
    triggers = (("cross_entropy", "mse_loss"),)
    fix_safety = "unsafe"

    def fixes(self, value, ctx):
        return [Fix("Take the mean", (ctx.replace(value.site, '"mean"'),), "unsafe")]

    def on_loss_call(self, event, ctx: Context):
        reduction = event.options.get("reduction")
        if isinstance(reduction, Const) and reduction.value == "sum":
            yield ctx.finding(self, event.site, "summed", fixes=self.fixes(reduction, ctx))
        if isinstance(reduction, Const) and reduction.value == "none":
            yield ctx.finding(self, event.site, "not reduced", pedantic=True)


class BreaksTheFile(SummedLoss):
    code, name = "DL191", "breaks-the-file"

    def fixes(self, value, ctx):
        return [Fix("Break it", (ctx.replace(value.site, "(("),), "suggestion")]


class MendsNothing(SummedLoss):
    code, name = "DL192", "mends-nothing"

    def fixes(self, value, ctx):
        return [Fix("Keep it", (ctx.replace(value.site, "'sum'"),), "safe")]


class LeavesModule(SummedLoss):
    code, name = "DL193", "leaves-module"

    def fixes(self, value, ctx):
        return [Fix("Garble it", (ctx.replace(value.site, "F"),), "unsafe")]


class OutsideTheFile(SummedLoss):
    code, name = "DL194", "outside-the-file"

    def fixes(self, value, ctx):
        return [Fix("Miss it", (Edit(10_000, 10_001, ""),), "unsafe")]


class Crashes(SummedLoss):
    code, name = "DL195", "crashes"

    def fixes(self, value, ctx):
        return [][0]


class Twice(SummedLoss):
    code, name = "DL196", "twice"

    def on_loss_call(self, event, ctx: Context):
        yield ctx.finding(self, event.site, "once")
        if event.input is not None and event.input.site is not None:
            yield ctx.finding(self, event.input.site, "and again")


class ByTheText(SummedLoss):
    code, name = "DL188", "by-the-text"

    def on_loss_call(self, event, ctx: Context):
        if '"sum"' in ctx.text(event.site):
            yield ctx.finding(self, event.site, "the word is there")


class OnlyFullNames(SummedLoss):
    code, name = "DL197", "only-the-name-f"

    def on_loss_call(self, event, ctx: Context):
        if "F.cross_entropy" in ctx.text(event.site):
            yield ctx.finding(self, event.site, "called by this very name")


class OldTorch(SummedLoss):
    code, name = "DL198", "old-torch"

    def on_loss_call(self, event, ctx: Context):
        if ctx.versions.get("torch") == "1.8":
            yield ctx.finding(self, event.site, "torch 1.8")
'''
