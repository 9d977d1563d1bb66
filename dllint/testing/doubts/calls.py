"""Doubts about whether code runs: its function is called in a way that cannot bind, or by nobody."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from dllint.findings import Edit
from dllint.interp.source.trials import is_main_guard
from dllint.testing.doubts.subject import Subject, Twin
from dllint.testing.variations.scopes import main_code, movable, wrapped
from dllint.testing.variations.source import Code, first_line, last_line

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_UNKNOWN = "no_such_parameter"

Breaking = Callable[[Code, ast.Call | None, ast.arguments, bool], "str | None"]
"""The arguments with which a call, which is given if there is one, cannot bind; nothing if there are none."""


def with_an_extra_argument(subject: Subject) -> Iterator[Twin]:
    """Each call of the function (or class) has one positional argument too many."""
    return _twins(subject, _extra)


def with_an_unknown_keyword(subject: Subject) -> Iterator[Twin]:
    """Each call of the function (or class) has a keyword that is no parameter."""
    return _twins(subject, _unknown)


def without_an_argument(subject: Subject) -> Iterator[Twin]:
    """Each call of the function (or class) lacks the arguments that it needs."""
    return _twins(subject, _missing)


def by_nobody(subject: Subject) -> Iterator[Twin]:
    """What the script does is a function that nobody calls, in a file that nobody imports."""
    files = unstarted(subject.files)
    if files is not None:
        (main, *_) = files
        sure = (claim for claim in subject.claims if not claim.finding.assumptions)
        yield Twin(files, frozenset(claim.mark for claim in sure if claim.place.file == main))


def unstarted(files: Mapping[str, str], name: str = "run") -> dict[str, str] | None:
    """The files with the statements of the main one in a function that is not called."""
    main, code = main_code(files)
    if code is None:
        return None
    guards = [node for node in code.tree.body if is_main_guard(node)]
    rest = movable(code)
    lines = list(code.lines)
    for node in guards:
        span = slice(first_line(node) - 1, last_line(node))
        lines[span] = [""] * len(lines[span])
    if rest:
        return {**files, main: wrapped(Code("\n".join(lines)), rest, [f"def {code.fresh(name)}():"], 1)}
    others = [node for node in code.tree.body if node not in guards]
    is_idle = all(isinstance(node, ast.Import | ast.ImportFrom | _Function | ast.ClassDef) for node in others)
    return {**files, main: "\n".join(lines)} if guards and is_idle else None


def _twins(subject: Subject, breaking: Breaking) -> Iterator[Twin]:
    for file in subject.files:
        code = subject.code(file)
        for node in code.tree.body:
            if isinstance(node, _Function | ast.ClassDef) and (marks := subject.marks_in(file, node)):
                text = _broken(subject, file, node, breaking)
                if text is not None:
                    yield Twin({**subject.files, file: text}, marks, total=True)


def _broken(subject: Subject, file: str, node: _Function | ast.ClassDef, breaking: Breaking) -> str | None:
    """The file with calls of a function or class that do not bind."""
    signature = _signature(node)
    others = (text for name, text in subject.files.items() if name != file)
    if signature is None or any(node.name in text for text in others):
        return None
    code = subject.code(file)
    calls = _calls(code, node)
    if calls is None:
        return None
    is_class = isinstance(node, ast.ClassDef)
    if not calls:
        given = breaking(code, None, signature, is_class)
        return None if given is None else f"{code.text.rstrip()}\n\n\n{node.name}({given})\n"
    edits = []
    for call in calls:
        given = breaking(code, call, signature, is_class)
        if given is None:
            return None
        end = code.span(call)[1]
        edits.append(Edit(code.span(call.func)[1], end, f"({given})"))
    return code.edited(edits)


def _signature(node: _Function | ast.ClassDef) -> ast.arguments | None:
    """What a function takes or the constructor of a class, if nothing else decides it."""
    if node.decorator_list:
        return None
    if not isinstance(node, ast.ClassDef):
        return node.args
    own = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
    return own[0].args if len(own) == 1 and not own[0].decorator_list else None


def _calls(code: Code, node: _Function | ast.ClassDef) -> list[ast.Call] | None:
    """The calls of a function from elsewhere, or nothing if it is used or bound in another way, too."""
    own = set(ast.walk(node))
    names = [each for each in code.nodes if isinstance(each, ast.Name) and each.id == node.name]
    calls = []
    for name in names:
        call = code.parents[name]
        if name in own and isinstance(node, ast.ClassDef):
            continue  # `super(Net, self)`
        if not isinstance(call, ast.Call) or call.func is not name or name in own:
            return None
        calls.append(call)
    inside = {inner for call in calls for inner in ast.walk(call) if inner is not call}
    is_defined_once = sum(getattr(each, "name", "") == node.name for each in code.nodes) == 1
    is_spread = any(isinstance(arg, ast.Starred) for call in calls for arg in call.args)
    is_spread |= any(keyword.arg is None for call in calls for keyword in call.keywords)
    has_comments = any("#" in code.segment(call) for call in calls)
    is_plain = is_defined_once and not is_spread and not has_comments
    return calls if is_plain and inside.isdisjoint(calls) else None


def _extra(code: Code, call: ast.Call | None, signature: ast.arguments, is_class: bool) -> str | None:
    if signature.vararg:
        return None
    count = len(signature.posonlyargs) + len(signature.args) - is_class
    given = [code.segment(arg) for arg in call.args] if call else []
    keywords = [_keyword(code, each) for each in call.keywords] if call else []
    return ", ".join([*given, *["None"] * (count + 1 - len(given)), *keywords])


def _unknown(code: Code, call: ast.Call | None, signature: ast.arguments, is_class: bool) -> str | None:
    if signature.kwarg:
        return None
    given = [code.segment(arg) for arg in call.args] if call else []
    keywords = [_keyword(code, each) for each in call.keywords] if call else []
    if call is None:
        names = [arg.arg for arg in (*signature.posonlyargs, *signature.args)][is_class:]
        given = ["None"] * len(names)
    return ", ".join([*given, *keywords, f"{_UNKNOWN}=None"])


def _missing(code: Code, call: ast.Call | None, signature: ast.arguments, is_class: bool) -> str | None:
    count = len(signature.posonlyargs) + len(signature.args) - is_class - len(signature.defaults)
    needs_keyword = any(default is None for default in signature.kw_defaults)
    return "" if count > 0 or needs_keyword else None


def _keyword(code: Code, keyword: ast.keyword) -> str:
    return f"{keyword.arg}={code.segment(keyword.value)}"
