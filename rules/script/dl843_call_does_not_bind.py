"""A call of the project's own function whose arguments do not fit its parameters.

An option was added to a function and not to all of its callers, a keyword is misspelled, an argument was forgotten.
Python finds out when it comes there: in `evaluate`, that is after the first epoch, and in what saves the results, at
the end of the run.

Measured on Python 3.11 (a script of three epochs whose `save(model)` lacks the path): all three are trained, then comes
`TypeError: save() missing 1 required positional argument: 'path'`, and no file is written.

## Bad
    def evaluate(model, loader, device):
        model.eval()
        with torch.no_grad():
            return sum(criterion(model(x.to(device)), y.to(device)).item() for x, y in loader)

    print(evaluate(model, loader))

## Good
    def evaluate(model, loader, device):
        model.eval()
        with torch.no_grad():
            return sum(criterion(model(x.to(device)), y.to(device)).item() for x, y in loader)

    print(evaluate(model, loader, device))

## Not reported
Calls that a script does not come to; arguments that are expanded (`f(*args)`, `f(**options)`); functions with
decorators of their own, or that are replaced somewhere; calls in `try`, or where what is raised by another call of the
same function is caught; functions of a file that is found by a changed `sys.path`; functions that are not written yet
(`pass`); scripts that end before, at an import of a name that is not there; a method that one arm of a branch calls as
it should be, and the other one as that of another class has it. In a notebook, or in a script of cells (`# %%`), which
may have been run in another order, it is a question, and so it is in a script that nobody imports and that the commands
in the project's notes leave out, while they run others, and in one with relative imports, which only `python -m` can
run, and no command does.

## On real code
276 public repositories: 28 findings in the scripts of 24 of them, all true: the last evaluation of a training, a model
that is built without a size, a script that nobody has run since. In notebooks there were 8 more, of which two were of
cells that had run, with another version of the file; these are questions now. In 44 others 6, 2 of them true: 3 scripts
fail at their imports, and a function is a stub; 3 of these 4 are silent now. In 276 more 31: 16 true, 1 false and 14
doubtful, of trials and of scripts that nobody runs any more; 13 of these, and 3 of the true ones, are silent or
questions now. Of the 241 in unread ones that were judged last 203 were true, 8 false and 30 doubtful: most of these in
scripts that end before for a reason that is not seen. Of 5 in scripts with relative imports 1 was true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    CallRefused,
    Context,
    Finding,
    Function,
    Rule,
    Site,
    is_placeholder,
    misspelled,
    nodes_of,
)

# ------------------------------------------------------------------------------------------------- excuses


def is_tried(event: CallRefused, ctx: Context) -> bool:
    """it is tried, and what Python says is caught"""
    return ctx.is_caught(event.site, "TypeError")


def is_another_try(event: CallRefused, ctx: Context) -> bool:
    """it stands where what Python says of another call of the same function is caught"""
    call, called = event.site.node, _function_called(event.site.node)
    for attempt in ctx.ancestors(event.site, ast.Try):
        if any(call in nodes_of(handler).all for handler in attempt.handlers):
            return any(_function_called(each) == called for each in nodes_of(attempt).of(ast.Call) if each is not call)
    return False


def is_from_elsewhere(event: CallRefused, ctx: Context) -> bool:
    """the file of the function is found along a path that code changes, so that it may be another one"""
    changes = (site for name in ("insert", "append", "extend") for site in ctx.method_calls(name, of="path"))
    return event.function.module is not event.site.module and any(changes)


def is_called_of_a_stub(event: CallRefused, ctx: Context) -> bool:
    """the function is not written yet (`def fitness(): pass`), or raises whatever it is given"""
    function = event.function
    body = function.node.body if isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef) else []
    is_method = "." in function.qualified_name
    return not is_method and bool(body) and all(is_placeholder(each) or isinstance(each, ast.Raise) for each in body)


def is_of_another_class(event: CallRefused, ctx: Context) -> bool:
    """it fits the method of another class, and the other arm of a branch calls this one as it should be"""
    return ctx.goes_with_branch(event)


class CallDoesNotBind(Rule):
    code = "DL843"
    name = "call-does-not-bind"
    category = "correctness"
    severity = "error"
    triggers = (("torch", "transformers", "lightning", "pytorch_lightning"),)
    of_files = True
    references = ("https://docs.python.org/3/reference/expressions.html#calls",)
    excuses = (is_tried, is_another_try, is_called_of_a_stub, is_from_elsewhere, is_of_another_class)

    def on_call_refused(self, event: CallRefused, ctx: Context) -> Iterator[Finding]:
        if not ctx.excused(self, event):
            yield self._report(event, ctx)

    def _report(self, event: CallRefused, ctx: Context) -> Finding:
        function, names = event.function, _listed(event.names)
        called = f"`{function.qualified_name.removesuffix('.__init__')}`"
        message, help = {
            "missing": (f"{called} is called without {names}", f"pass {names}, or give a default"),
            "unknown": (f"{called} has no parameter {names}", _how_to_call(function, event.names[:1])),
            "twice": (f"{called} gets {names} twice", f"pass {names} once: by position or by name"),
            "surplus": (f"{called} gets more arguments than it has parameters", "pass what it takes"),
        }[event.misfit]
        return ctx.finding(
            self,
            event,
            message,
            assuming=ctx.assumed_to_get_to(event.site),
            effect="Python raises a TypeError here, and the run ends",
            help=help,
            trace=[*ctx.calls_to(event), *_definition(function), (event.site, "is called here")],
        )


def _function_called(node: ast.AST) -> str:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def _definition(function: Function) -> Iterator[tuple[Site, str]]:
    if function.site is not None:
        yield function.site, "is defined here"


def _listed(names: tuple[str, ...]) -> str:
    shown = [f"`{name}`" for name in names[:2]]
    return " and ".join(shown) if len(names) < 3 else f"{', '.join(shown)} and {len(names) - 2} more"


def _how_to_call(function: Function, unknown: tuple[str, ...]) -> str:
    arguments = function.node.args
    known = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    meant = next((right for name in unknown if (right := misspelled(name, known))), "")
    return f"write `{meant}`" if meant else "add the parameter, or leave the argument out"
