"""Files that say, or whose names say, that nobody runs them as they are: kept from earlier, copied, or a draft."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.interp.source.known_settings import last_name
from dllint.interp.source.topics import speaks_of
from dllint.interp.source.trees import walk
from dllint.interp.source.trials import is_main_guard

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule

_OUT_OF_DATE = re.compile(
    r"\bout of date\b|\bobsolete\b|\bdeprecated\b|\bno longer (?:used|maintained)\b|^\W*not used\W*$", re.IGNORECASE
)
_REMOTE = re.compile(r"\w[\w.-]*@\w[\w.-]*")  # `scp` makes it where the colon of an address is forgotten
_FROM_SCRATCH = re.compile(r"from[ _-]?scratch", re.IGNORECASE)
_COPIES = (
    re.compile(r"(.+?)(?: ?- ?|[ _-])[Cc]opy(?:[ _]?\(?\d+\)?)?"),
    re.compile(r"(.+?) ?\((?:\d+|copy|another copy)\)"),
    re.compile(r"[Cc]opy[ _]of[ _](.+)"),
)
_PLACEHOLDER = re.compile(
    r"(?:^|[/\\])path/(?:to|of)/|^[/\\.]*path[_ -]to[_ -]\S*[/\\]|[/\\]your[/\\_-]|^your[_-]\w*/", re.IGNORECASE
)
_ASKED_FOR = frozenset(("add_argument", "add_option", "option", "Option", "Argument", "get", "getenv", "field"))


def folder_set_aside(file: Path, root: Path) -> str:
    """The folder of a project that says by its name that what is in it is kept from earlier; or nothing."""
    folders = file.relative_to(root).parts[:-1] if file.is_relative_to(root) else ()
    return next((each for each in folders if _says_so(each) or _REMOTE.fullmatch(each)), "")


def is_set_aside(module: SourceModule) -> bool:
    """Whether a file says itself that it is kept from earlier, in its name or its first words.

    `train_old` and `playground` do, and `old_mac` does not.
    """
    *before, last = module.file.stem.split("_")
    if _says_so(module.file.stem) and speaks_of("set-aside", last) and (bool(before) or last.lower() != "old"):
        return True
    said = ast.get_docstring(module.tree) or module.comments.get(1, "")
    return _OUT_OF_DATE.search(said) is not None


def _says_so(name: str) -> bool:
    """Whether a name speaks of what is set aside, and not of something that is made from scratch."""
    return speaks_of("set-aside", _FROM_SCRATCH.sub("", name))


def original_of(file: Path, names: Collection[str]) -> str:
    """The file beside another one of which that is a copy, as its name says: `train.py` of `train copy.py`."""
    copies = (each.fullmatch(file.stem) for each in _COPIES)
    originals = (f"{copy[1]}{file.suffix}" for copy in copies if copy is not None)
    return next((each for each in originals if each in names), "")


def placeholder_in(module: SourceModule) -> str:
    """The path that stands for one that a reader has, `/path/to/data`, where a script goes on with it; or nothing.

    What a command line or a constant in capitals offers is there to be set.
    """
    for statement in _at_the_top(module):
        for text in _texts_in(statement):
            if _PLACEHOLDER.search(text) and "\n" not in text:
                return text
    return ""


def _at_the_top(module: SourceModule) -> Iterator[ast.stmt]:
    for statement in module.tree.body:
        if is_main_guard(statement) and isinstance(statement, ast.If):
            yield from statement.body
        else:
            yield statement


def _texts_in(statement: ast.stmt) -> Iterator[str]:
    """The texts that a simple statement binds to a variable, or hands to a function."""
    if not isinstance(statement, ast.Assign | ast.Expr):
        return
    values = []
    if isinstance(statement, ast.Assign) and not any(last_name(each).isupper() for each in statement.targets):
        values.append(statement.value)
    calls = [node for node in walk(statement) if isinstance(node, ast.Call)]
    if not any(last_name(call.func) in _ASKED_FOR for call in calls):
        values += (argument for call in calls for argument in (*call.args, *(each.value for each in call.keywords)))
    yield from (each.value for each in values if isinstance(each, ast.Constant) and isinstance(each.value, str))
