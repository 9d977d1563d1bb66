"""What is known of the built-in rules without importing their files.

To select rules, and to know which of them a file can make fire, takes their codes, names and triggers. A table of these
is kept where Python keeps the byte code of the rules, and under the same condition: that no file of theirs, or of
dllint, is another than when it was made. A run whose results are all kept imports no rule, and any other imports those
that may fire.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dllint import __version__
from dllint.dataclass import dataclass
from dllint.files.atomic import write_atomic
from dllint.rule import Rule, Triggers

if TYPE_CHECKING:
    from dllint.findings import Category

_NAME = "rules.py"  # of no file: of the place that its byte code would have


class RuleSource:
    """A file of rules, imported when one of them is asked for."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @cached_property
    def rules(self) -> dict[str, type[Rule]]:
        """The rules that it defines, by code. Raises RegistryError."""
        from dllint.rule_files import load_file

        return {rule.code: rule for rule in load_file(self.file)}


@dataclass(frozen=True, slots=True, eq=False)
class ListedRule:
    """A rule whose file need not have been imported. ``listens`` says that it looks at programs at all."""

    source: RuleSource
    code: str
    name: str
    category: Category
    default: bool
    preview: bool
    triggers: Triggers
    of_files: bool
    listens: bool


Described: TypeAlias = type[Rule] | ListedRule
"""A rule, or what the table says of it."""


def loaded(rule: Described) -> type[Rule]:
    """The rule itself; its file is imported now if it was not yet. Raises RegistryError."""
    return rule.source.rules[rule.code] if isinstance(rule, ListedRule) else rule


def listens(rule: Described) -> bool:
    """Whether a rule looks at programs; those of the engine itself do not."""
    if isinstance(rule, ListedRule):
        return rule.listens
    from dllint.hooks import hooks_of

    return bool(hooks_of(rule)) or hasattr(rule, "on_program")


def state_of(files: Iterable[str], before: str = "") -> str:
    """A digest of which files there are, of the time and size of each, and of the version of dllint."""
    digest = blake2b(f"{__version__} {before}".encode(), digest_size=12)
    for path in files:
        with suppress(OSError):
            status = os.stat(path)
            digest.update(f"{path} {status.st_mtime_ns} {status.st_size}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


class RuleTable:
    """The table of the rules in a folder, as they are in a ``state``."""

    def __init__(self, directory: Path, state: str) -> None:
        self._directory = directory
        self._state = state

    def read(self) -> list[ListedRule] | None:
        """The rules, in the order in which they were loaded; ``None`` if no table is kept of this state."""
        try:
            kept = json.loads(self._place().read_bytes())
            if kept["state"] != self._state:
                return None
            sources = {name: RuleSource(self._directory / name) for name, *_ in kept["rules"]}
            return [_listed(sources[name], *described) for name, *described in kept["rules"]]
        except (OSError, ValueError, KeyError, TypeError, NotImplementedError):
            return None  # not there, or damaged

    def write(self, rules: Sequence[tuple[Path, type[Rule]]]) -> None:
        """Keep what there is to say of rules, given with their files. Where nothing can be written, nothing is kept."""
        import sys

        if sys.dont_write_bytecode:
            return
        described = [[file.relative_to(self._directory).as_posix(), *_description(rule)] for file, rule in rules]
        with suppress(OSError, NotImplementedError):
            place = self._place()
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(place, json.dumps({"state": self._state, "rules": described}).encode())

    def _place(self) -> Path:
        """Where the table is kept. Raises NotImplementedError where Python keeps no byte code."""
        return Path(importlib.util.cache_from_source(str(self._directory / _NAME))).with_suffix(".json")


def _description(rule: type[Rule]) -> tuple[Any, ...]:
    known = (rule.code, rule.name, rule.category, rule.default, rule.preview)
    return *known, rule.triggers, rule.of_files, listens(rule)


def _listed(
    source: RuleSource,
    code: str,
    name: str,
    category: Category,
    default: bool,
    preview: bool,
    triggers: Iterable[Iterable[str]],
    of_files: bool,
    is_listening: bool,
) -> ListedRule:
    words = tuple(map(tuple, triggers))
    return ListedRule(source, code, name, category, default, preview, words, of_files, is_listening)
