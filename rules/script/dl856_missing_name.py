"""A name that is read and that is nowhere: an import that was forgotten, a variable or a method that was renamed.

`losses` became `history`, a class moved to another file, a method is called as the class of a colleague calls it, and
one of the readers was left as it was. Python finds out when it comes there: after the data have been read, behind an
option that is seldom given, or after the last epoch, where the results are written. Of what linters of Python look for,
they know names that no line of a file binds; which names the other files of a project have, and which attributes its
classes, takes knowledge of all of them. A name that only one arm of a branch imports or assigns is not there in the
other one, nor what is tried last in what is done when that fails.

Measured on Python 3.11 (a script of three epochs that ends with `print(min(history))`, where the list is `losses`,
before it saves the weights): all three are trained, then comes `NameError: name 'history' is not defined`, and nothing
is saved.

The examples have a README, as only of a project that is there as a whole it is certain what it lacks.

## Bad
    class Digits(torch.utils.data.Dataset):
        def get_weights(self):
            return torch.ones(10)

    digits = Digits()
    for epoch in range(3):
        criterion = nn.CrossEntropyLoss(weight=digits.class_weights())
    # file: README.md
    # Digits

## Good
    class Digits(torch.utils.data.Dataset):
        def get_weights(self):
            return torch.ones(10)

    digits = Digits()
    for epoch in range(3):
        criterion = nn.CrossEntropyLoss(weight=digits.get_weights())
    # file: README.md
    # Digits

## Not reported
Lines that no script or function comes to; what one arm of a branch binds and code after the branch reads; names that
anything may bind: a star import of what is not in the project, `globals()`, `exec`, `setattr`, another file
(`module.name = ...`), a text with the name; attributes of classes that derive from those of libraries other than torch,
of objects that are wrapped, or that have `__getattr__`, and where a condition may tell the objects of a class below,
which has them, from the others; files that another one of the same name may stand for; what is caught; names of which a
comment above says that they are yet to be bound (`# TODO: load your model`); notebooks, and files that stand alone,
which may be pieces; texts from an editor or standard input, which may be unfinished. In a script that nobody imports
and that the commands in the project's notes leave out, while they run others, it is a question.

## On real code
552 public repositories: 85 findings, 61 true, 4 false and 20 doubtful. The false ones took a file for another of its
name: Python's `logging` for one beside the script, a package for the file that it has the name of; such names are
passed over since, and so is what files of another folder import, or what lies in a package, where another file of the
name may be meant (one more false finding, which later changes had brought). Most doubtful ones are in drafts and
copies, or in scripts that end before. With that, and with names of one file and attributes of one class as one
finding, the same repositories show 53 of the true findings, 14 of the doubtful ones and 3 new ones, which are true.
Names that files lack which a program imports: six more in 480 repositories, all true. What is read of lists, of
functions with the name of their module, of what returns nothing, of files in folders and of plain classes that have no
`zero_grad`: six in 480 repositories, four true and two false, which are silent now (a class with a `__new__`, and the
index of a table, which was taken for the list that it was made of).
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from itertools import takewhile

from dllint.api import Context, Finding, NameMissing, Rule, nodes_of

_ERRORS = {
    "unbound": "NameError", "main": "NameError", "early": "UnboundLocalError", "import": "ImportError",
    "module": "AttributeError", "object": "AttributeError", "nothing": "AttributeError",
    "library": "AttributeError",
}  # fmt: skip

_ASKING = ("isinstance", "hasattr", "type", "issubclass")
_OF_CLASSES = ("__class__", "__module__")

# ------------------------------------------------------------------------------------------------- excuses


def is_expected(event: NameMissing, ctx: Context) -> bool:
    """that the name is missing is caught"""
    return ctx.is_caught(event.site, _ERRORS[event.absence]) or ctx.is_caught(event.site, "NameError")


def is_told_apart(event: NameMissing, ctx: Context) -> bool:
    """a condition around asks what the object is, or has: `if isinstance(agent, Learner): agent.step()`"""
    owner = event.site.node.value if isinstance(event.site.node, ast.Attribute) else None
    around = (*ctx.ancestors(event.site, ast.If), *ctx.ancestors(event.site, ast.IfExp))
    tests = [each.test for each in around if isinstance(each, ast.If | ast.IfExp)]
    parts = [part for test in tests for made in ctx.made_of(event.site, test) for part in ast.walk(made)]
    calls = (each for each in parts if isinstance(each, ast.Call) and each.args)
    asked = [each.args[0] for each in calls if isinstance(each.func, ast.Name) and each.func.id in _ASKING]
    asked += [each.value for each in parts if isinstance(each, ast.Attribute) and each.attr in _OF_CLASSES]
    return any(ast.dump(each) == ast.dump(owner) for each in asked if owner is not None)


def is_of_one_kind(event: NameMissing, ctx: Context) -> bool:
    """a class that derives from the one of the method sets it, and a condition around may tell its objects from the
    others, by what they have: `if self.kind == "planned": return self.plan[0]`"""
    owner = event.site.node.value if isinstance(event.site.node, ast.Attribute) else None
    if event.absence != "object" or not isinstance(owner, ast.Name) or owner.id != "self":
        return False
    around = (*ctx.ancestors(event.site, ast.If), *ctx.ancestors(event.site, ast.IfExp))
    tests = [each.test for each in around if isinstance(each, ast.If | ast.IfExp)]
    reads = [part for test in tests for part in ast.walk(test) if isinstance(part, ast.Attribute)]
    if not any(ast.dump(each.value) == ast.dump(owner) for each in reads if each is not event.site.node):
        return False
    own = next((each.name for each in ctx.ancestors(event.site, ast.ClassDef) if isinstance(each, ast.ClassDef)), "")
    classes = (each for _, tree in ctx.trees(event.name) for each in nodes_of(tree).of(ast.ClassDef))
    return any(
        own in {ast.unparse(base).rpartition(".")[2] for base in each.bases} and _sets(each, event.name)
        for each in classes
    )


def _sets(cls: ast.ClassDef, name: str) -> bool:
    """Whether a class gives its own objects an attribute."""
    return any(
        isinstance(each.ctx, ast.Store) and ast.unparse(each.value) == "self"
        for each in ast.walk(cls)
        if isinstance(each, ast.Attribute) and each.attr == name
    )


def is_yet_to_be_bound(event: NameMissing, ctx: Context) -> bool:
    """a comment above says that what binds it is yet to be written: `# TODO: load your model`"""
    statement = next(ctx.ancestors(event.site, ast.stmt), None)
    if event.absence not in ("unbound", "early") or statement is None:
        return False
    lines = event.site.module.source.text.split("\n")[: statement.lineno - 1]
    above = list(takewhile(lambda line: not line.strip() or line.lstrip().startswith("#"), reversed(lines)))
    return event.name in re.findall(r"\w+", " ".join(above)) and ctx.speaks_of("to-do", *above)


class MissingName(Rule):
    code = "DL856"
    name = "missing-name"
    category = "correctness"
    severity = "error"
    triggers = (("torch", "transformers", "lightning", "pytorch_lightning"),)
    of_files = True
    references = ("https://docs.python.org/3/library/exceptions.html#NameError",)
    excuses = (is_expected, is_told_apart, is_of_one_kind, is_yet_to_be_bound)

    def on_name_missing(self, event: NameMissing, ctx: Context) -> Iterator[Finding]:
        if ctx.excused(self, event):
            return
        name, owner = f"`{event.name}`", f"`{event.owner}`"
        message, known = {
            "unbound": (f"{name} is read, and nothing in {owner} binds it", "this file binds no such name"),
            "main": (f"{name} is bound only where {owner} is run itself", "this file is imported, too"),
            "early": (f"{name} is read where {owner} has not bound it", "this function binds it elsewhere"),
            "module": (f"{name} is read from {owner}, which has no such name", "this file binds no such name"),
            "import": (f"{name} is imported from {owner}, which has no such name", "this file binds no such name"),
            "nothing": (
                f"{name} is read of what {owner} gives, which returns nothing",
                "this function returns nothing",
            ),
            "library": (f"{owner} has no attribute {name}", f"the name stands for {owner} from here on"),
            "object": (f"{owner} has no attribute {name}, and nothing sets it", "this class has no such attribute"),
        }[event.absence]
        yield ctx.finding(
            self,
            event,
            message,
            assuming=ctx.assumed_to_get_to(event.site),
            effect=f"Python raises {_with_article(_ERRORS[event.absence])} here, and the run ends",
            help=_remedy(event),
            trace=[(event.lacking, known), *ctx.calls_to(event), (event.site, f"{name} is read here")],
        )


def _with_article(error: str) -> str:
    return f"{'a' if error == 'NameError' else 'an'} {error}"


def _remedy(event: NameMissing) -> str:
    if event.absence == "unbound" and event.name in sys.stdlib_module_names:
        return f"write `import {event.name}` at the top of `{event.owner}`"
    if event.absence == "nothing":
        return f"return from `{event.owner}` what is to have `{event.name}`"
    if event.absence == "library":
        return f"write what is meant in place of `{event.name}`"
    if event.absence in ("early", "main"):
        return f"assign `{event.name}` before, or pass it as a parameter"
    return f"add `{event.name}` to `{event.owner}`, or write the name that is meant"
