"""The imports in a text, read without parsing it: what a file may depend on, too much rather than too little."""

from __future__ import annotations

import re
from typing import NamedTuple

_WORD = re.compile(r"import\b")  # begins with a literal: that is what makes the search fast
_MODULES = re.compile(r"[ \t]*([\w., \t]*)")
_NAMES = re.compile(r"[ \t]*(\([^)]*|(?:[^\n\\;]|\\\r?\n)*)")
_FROM = re.compile(r"(?:.*[;:])?[ \t]*from\b[ \t]*([.\w \t]+)", re.DOTALL)
_DEFINITION = re.compile(r"^[ \t]*(?:async[ \t]+def|def|class)\b", re.MULTILINE)
_NAME = re.compile(r"[^\W\d]\w*|\*")


class Import(NamedTuple):
    """One import. ``level`` counts the leading dots, ``names`` is None for ``import module``.

    ``names`` may be more than are imported: new names are among them, and words of comments.
    """

    level: int
    module: str
    names: tuple[str, ...] | None = None

    @property
    def is_everything(self) -> bool:
        """Whether all that the module has can be used by whoever has this import."""
        return self.names is None or "*" in self.names


def imports_of(text: str) -> list[Import]:
    """The imports in a text, each once, wherever they stand in it."""
    found: dict[Import, None] = {}
    for match in _WORD.finditer(text):
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        start = _FROM.fullmatch(before)
        if start is not None:
            origin = "".join(start[1].split())
            module = origin.lstrip(".")
            names = _NAMES.match(text, match.end())
            words = _NAME.findall(names[1]) if names is not None else ()
            found[Import(len(origin) - len(module), module, tuple(dict.fromkeys(words)))] = None
        elif not before.strip() or before.rstrip().endswith((";", ":")):
            modules = _MODULES.match(text, match.end())
            for part in modules[1].split(",") if modules is not None else ():
                if words := part.split():
                    found[Import(0, words[0])] = None
    return list(found)


def has_definitions(text: str) -> bool:
    """Whether a text defines functions or classes, rather than just passing on what others define."""
    return _DEFINITION.search(text) is not None
