"""Ids of words, characters or classes in the order of a set, which is another one in each process.

Python draws a new seed for the hashes of texts in each process, so that a set of texts has another order in each. A
vocabulary that is made of `set(text)` fits the weights as long as the process lives that trained them. A script that
makes it again and loads the weights looks up other embeddings for the same words, and takes one class for another; the
sizes are the same, so that nothing fails.

Measured on Python 3.11 and torch 2.13 (a GRU that predicts the next of 60,000 characters, three seeds): an accuracy of
.41, .41 and .40 in the process that trained, and of .02, .03 and .01 in the next one, which loads the weights. With
`sorted(set(text))` it is .41, .42 and .42 in both.

## Bad
    text = open("book.txt").read()
    ids = {char: i for i, char in enumerate(set(text))}
    model.load_state_dict(torch.load("model.pt"))
    model.eval()
    print(model(torch.tensor([ids[char] for char in text[:100]])))
    torch.save(model.state_dict(), "copy.pt")

## Good
    text = open("book.txt").read()
    ids = {char: i for i, char in enumerate(sorted(set(text)))}
    model.load_state_dict(torch.load("model.pt"))
    model.eval()
    print(model(torch.tensor([ids[char] for char in text[:100]])))
    torch.save(model.state_dict(), "copy.pt")

## Not reported
Sets that are sorted, there or later; sets of which nothing says that they hold texts, as small numbers are their own
hashes; ids that are written to a file (`pickle`, `json`, with the checkpoint), or read from one; programs that load no
weights, and projects that save none; identities of persons, which only a head knows that is thrown away afterwards; a
fixed `PYTHONHASHSEED` in the project. Where a script trains and loads, it is reported if the loading hangs on a file
that is there, or on an option to resume, or if a run that loads does not train; else it is a question, as it may load
what it has just saved. So is what neither the script that loads names nor a function that it names.

## Fix (unsafe)
Sorts the set. Unsafe because weights that were saved before go with ids that nobody knows any more.

## On real code
390 public repositories: 5 findings in 2 of them, all true, and 4 questions: 2 true and 2 about the colors of a plot.
Before anything was mended three more were doubtful, identities of persons.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Context,
    Finding,
    Program,
    Rule,
    SetIds,
    Site,
    ids_in_set_order,
    nodes_of,
    replace_range,
)

_LOADS = ("load_state_dict", "load_from_checkpoint")
_WRITES = ("dump", "dumps", "save", "to_json", "savez", "save_hyperparameters", "to_csv", "write")
_WRITERS = ("torch.save", "json.dump", "pickle.dump", "joblib.dump", "numpy.save")
_OF_TEXTS = frozenset(("join", "split", "read", "strip", "lower", "upper", "readlines", "splitlines", "read_text"))
_LATER = re.compile(r"exists|is_?file|resum|restor|continue", re.IGNORECASE)

# ------------------------------------------------------------------------------------------------- excuses


def are_not_texts(ids: SetIds, where: Site, ctx: Context) -> bool:
    """nothing says that the set holds texts: numbers have the same order in each process"""
    made_of = [ids.made, *ctx.made_of(where, ids.made)]
    nodes = [node for each in made_of for node in ast.walk(each)]
    names = {ids.element, *(name for node in nodes if (name := getattr(node, "id", getattr(node, "attr", ""))))}
    return not names & _OF_TEXTS and not ctx.speaks_of("texts", *sorted(names))


def are_of_persons(ids: SetIds, where: Site, ctx: Context) -> bool:
    """they are identities of persons, which only a head knows that is thrown away after the training"""
    return ctx.speaks_of("identities", ids.element, *ids.names)


def are_kept(ids: SetIds, where: Site, ctx: Context) -> bool:
    """the ids are written to a file, or read from one"""
    names = set(ids.names) | _names_of_results(ids.scope, where, ctx)
    aliased = {id(site.node) for site, _ in ctx.uses_of(_WRITERS)}
    for _, tree in ctx.trees("import"):
        for call in nodes_of(tree).of(ast.Call):
            if (_callee(call) in _WRITES or id(call) in aliased) and names & _all_names(call):
                return True
    return False


def has_fixed_hashes(ids: SetIds, where: Site, ctx: Context) -> bool:
    """the project sets `PYTHONHASHSEED`"""
    return ctx.mentions("PYTHONHASHSEED")


def are_for_nobody(ids: SetIds, where: Site, ctx: Context) -> bool:
    """no code of the project saves weights"""
    return not ctx.project_mentions(r"\bsave\b|ModelCheckpoint|save_[a-z]+")


class IdsInSetOrder(Rule):
    code = "DL424"
    name = "ids-in-set-order"
    category = "correctness"
    severity = "warning"
    triggers = (("set",), (*_LOADS, "load"))
    fix_safety = "unsafe"
    of_files = True
    references = ("https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHASHSEED",)
    excuses = (are_not_texts, are_of_persons, has_fixed_hashes, are_for_nobody, are_kept)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        load = next(_weights_loaded(program.module.tree), None)
        if load is None:
            return
        reported = set[int]()
        for module, tree in ctx.trees("set"):
            for ids in ids_in_set_order(tree):
                where = Site(module, ids.made)
                if id(ids.made) not in reported and not ctx.excused(self, ids, where):
                    reported.add(id(ids.made))
                    yield self._report(ids, where, Site(program.module, load), ctx)

    def _report(self, ids: SetIds, where: Site, load: Site, ctx: Context) -> Finding:
        named = f"`{min(ids.names)}`" if ids.names else "the ids"
        text = ast.get_source_segment(where.module.source.text, ids.made)
        return ctx.finding(
            self,
            where,
            f"{named} has the order of a set of texts, which is another one in each process",
            assuming=[*_assumed_later(load, ctx), *_assumed_ids(ids, where, load, ctx)],
            effect="who loads the weights looks up other ids for the same texts",
            help="sort the set, or save the ids with the weights",
            trace=[
                (where, "the order is that of random hashes"),
                (Site(where.module, ids.place), "ids are given out in this order"),
                (load, "weights that another process has trained are loaded"),
            ],
            fix=("Sort the set", replace_range(where, f"sorted({text})")),
        )


def _weights_loaded(tree: ast.Module) -> Iterator[ast.Call]:
    """Where a file loads weights into a model, or a model as a whole."""
    for node in nodes_of(tree).of(ast.Call, ast.Assign):
        if isinstance(node, ast.Call) and _callee(node) in _LOADS:
            if "state_dict()" not in ast.unparse(node):  # the weights of another model, which is here
                yield node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            target = ast.unparse(node.targets[0])
            if _callee(node.value) == "load" and re.fullmatch(r"(?:\w+\.)?(?:model|net)\w*", target):
                yield node.value


def _assumed_later(load: Site, ctx: Context) -> list[Assumption]:
    """That a script which trains loads what an earlier run has saved."""
    calls = nodes_of(load.module.tree).of(ast.Call)
    training = [
        call
        for call in calls
        if _callee(call) in ("backward", "fit") or (call.args and re.match("train", _callee(call)))
    ]
    tests = _tests_around(load, ctx)
    if any(_LATER.search(test) for test, _ in tests):
        return []
    if all(_exclude(tests, _tests_around(Site(load.module, call), ctx)) for call in training):
        return []  # a run that loads does not train
    return [Assumption("effect", "another process loads the weights than the one that has trained them")]


def _tests_around(place: Site, ctx: Context) -> set[tuple[str, bool]]:
    """The tests of the `if` around a place, each with its outcome there."""
    inner, found = place.node, set[tuple[str, bool]]()
    for each in ctx.ancestors(place, ast.AST):
        if isinstance(each, ast.If) and inner is not each.test:
            is_negated = isinstance(each.test, ast.UnaryOp) and isinstance(each.test.op, ast.Not)
            test = each.test.operand if isinstance(each.test, ast.UnaryOp) and is_negated else each.test
            found.add((ast.unparse(test), (inner in each.body) is not is_negated))
        inner = each
    return found


def _exclude(tests: set[tuple[str, bool]], others: set[tuple[str, bool]]) -> bool:
    """Whether two sets of tests with their outcomes do not go together."""
    return any((test, not outcome) in others for test, outcome in tests)


def _assumed_ids(ids: SetIds, where: Site, load: Site, ctx: Context) -> list[Assumption]:
    """That what gives out the ids has to do with the weights, where the script that loads them neither names it nor a
    function that does."""
    name, named = getattr(ids.scope, "name", ""), load.module.words
    if (not name and where.module is load.module) or name in named:
        return []
    for _, tree in ctx.trees(name) if name else ():
        for function in nodes_of(tree).of(ast.FunctionDef):
            if function.name in named and name in _all_names(function):
                return []
    return [Assumption("effect", "the ids are those that the weights were trained with")]


def _names_of_results(scope: ast.AST, where: Site, ctx: Context) -> set[str]:
    """What the results of the function, or objects of the class, are called that gives out ids."""
    name = getattr(scope, "name", "")
    found = set()
    for _, tree in ctx.trees(name) if name else ():
        aliases = (each for node in nodes_of(tree).of(ast.ImportFrom) for each in node.names if each.name == name)
        called = {name, *(each.asname for each in aliases if each.asname)}
        for node in nodes_of(tree).of(ast.Assign):
            if isinstance(node.value, ast.Call) and _callee(node.value) in called:
                parts = [each for target in node.targets for each in ast.walk(target)]
                found |= {getattr(each, "id", getattr(each, "attr", "")) for each in parts}
    return found - {"", "self"}


def _all_names(node: ast.AST) -> set[str]:
    """The variables, attributes and texts in an expression."""
    found = (getattr(each, "id", getattr(each, "attr", getattr(each, "value", None))) for each in ast.walk(node))
    return {each for each in found if isinstance(each, str)}


def _callee(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))
