"""A run that goes on from its checkpoint only if it is told to.

A job that is preempted, or killed at its time limit, is started again with the same command. Where the checkpoint is
read under `if args.resume:` alone, and the option is off by default, that run begins with new weights and overwrites
what was there.

Measured on torch 2.13 (6 epochs, killed after the 4th): the same command makes 6 epochs more, and its first checkpoint
is one of epoch 1 in the place of that of epoch 4; with `--resume` it makes the 2 that are left.

## Bad
    parser = argparse.ArgumentParser()
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()
    if args.resume:
        checkpoint = torch.load("last.pt")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    for epoch in range(epochs):
        train(model, loader, optimizer)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, "last.pt")

## Good
    if os.path.exists("last.pt"):
        checkpoint = torch.load("last.pt")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    for epoch in range(epochs):
        train(model, loader, optimizer)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, "last.pt")

So is one that is read where the program finds a word in its command line: `if "--resume" in sys.argv`.

## Not reported
Off by default: whether jobs are started again by a machine or by hand is not in the code. Not reported at all are
programs that also look for a checkpoint by themselves; options that code sets, that are on by default, or that must be
given; weights that are loaded for a run of their own.

## On real code
656 public repositories: 26 notes in 26 of them, each of a program that goes on from its checkpoint only if it is told
to. One that was false is silent now: what starts the jobs of DETR again sets the option. Whether it is a fault depends
on how jobs are run, so the rule is off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dllint.api import Context, Finding, Guard, Program, Rule, StateRead, path_texts

_LOOKING = r"auto_?resume|(latest|last|newest|find|recent)_?(ckpt|checkpoint|snapshot)\w*\("


def looks_for_the_last(name: str, ctx: Context) -> bool:
    """code looks for the last checkpoint by itself"""
    return ctx.project_mentions(_LOOKING, where="related")


def set_by_code(name: str, ctx: Context) -> bool:
    """code sets the option, as one that starts jobs again does, and not from what the command line has"""
    pattern = rf"\b{re.escape(name)}\s*=(?!=)(?!.*\bargv\b)"
    return not name.startswith("self.") and ctx.project_mentions(pattern, where="related")


class ResumeBehindFlag(Rule):
    code = "DL703"
    name = "resume-behind-flag"
    category = "suspicious"
    severity = "info"
    default = False
    triggers = (("load_state_dict",), ("load",), ("save",))
    confirmable = True
    references = ("https://docs.pytorch.org/tutorials/beginner/ddp_series_fault_tolerance.html",)

    excuses = (set_by_code, looks_for_the_last)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        found = ctx.continuation if ctx.all_of(StateRead) else None
        kept = [saved for saved in found.saved if ctx.is_saved_again_and_again(saved)] if found is not None else []
        if found is None or not kept:
            return
        resuming = [each for each in found.restored if ctx.guessed_role(each.event.target) == "optimizer"]
        restored = (resuming or found.restored)[0]
        reads = dict.fromkeys(each.read for each in resuming or found.restored)
        flags = [next((guard for guard in read.guards if _is_off(guard, read, ctx)), None) for read in reads]
        read, flag = restored.read, flags[0]
        name = flag.subject.rpartition(":")[2] if flag is not None and None not in flags else ""
        if not name or ctx.excused(self, name):
            return
        yield ctx.finding(
            self,
            read.site,
            f"the checkpoint is read only where `{name}` is given, which is off by default",
            on=[kept[0].event, restored.unsure],
            assuming=found.assumptions,
            effect="the same command, started again after an interruption, begins with new weights",
            help="read the last checkpoint wherever there is one, and start over only on demand",
            trace=[(kept[0].event.site, "a checkpoint is saved"), (read.site, f"and read where `{name}`")],
        )


def _is_off(guard: Guard, read: StateRead, ctx: Context) -> bool:
    """Whether a condition asks for an option that speaks of resuming, or names the file, and is off by default."""
    name = guard.subject.rpartition(":")[2]
    if guard.by_default is not False:
        return False
    is_path = f"<{name.rpartition('.')[2]}>" in path_texts(read.path)
    return is_path or ctx.speaks_of("resuming", name) or ctx.speaks_of("checkpoint", name)
