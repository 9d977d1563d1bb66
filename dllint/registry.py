"""Finding and loading rules.

Rule files are loaded *by path*, never by dotted name: the built-in ones from ``dllint/rules`` in a wheel or from
``rules/`` beside the package in a checkout, a project's own from ``rule-paths``, and a plug-in package's from the
``dllint.rules`` entry points that the configuration names. All of them go through the same loader.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from dllint.dataclass import dataclass
from dllint.engine_rules import ENGINE_RULES
from dllint.errors import RegistryError
from dllint.rule import Rule
from dllint.rule_table import Described, RuleTable, loaded, state_of

RULE_FILE = re.compile(r"[a-z]{2,8}\d{2,4}_\w+\.py")
_HERE = Path(__file__).resolve().parent


def builtin_directory() -> Path:
    """``dllint/rules`` inside a wheel, else the ``rules/`` folder of a checkout."""
    packaged = _HERE / "rules"
    return packaged if packaged.is_dir() else _HERE.parent / "rules"


def rule_files(directory: Path) -> list[Path]:
    """The rule files below a directory, ``dl101_some_name.py`` in it and in its family folders; with any prefix."""
    found = ((folder, name) for folder, _, names in os.walk(directory) for name in names if RULE_FILE.fullmatch(name))
    return sorted(path for path in (Path(folder, name) for folder, name in found) if path.is_file())


@dataclass(frozen=True, slots=True)
class Registry:
    """All rules, by code, and what is wrong with rule files that could not be used and are not built in.

    ``state`` tells the built-in rules, dllint itself and its facts from what they are at another time; ``added`` are
    the files of all other rules.
    """

    listed: tuple[Described, ...]
    faults: tuple[str, ...]
    state: str
    added: tuple[Path, ...]

    @property
    def rules(self) -> tuple[type[Rule], ...]:
        """The rules themselves, whose files are imported now. Raises RegistryError."""
        return tuple(map(loaded, self.listed))


def load_rules(extra: tuple[Path, ...] = (), plugins: tuple[str, ...] = ()) -> tuple[type[Rule], ...]:
    """All rules, by code: the engine's own, the built-in ones, and those of ``extra`` paths and ``plugins``.

    Raises:
        RegistryError: as :func:`load_registry`.
    """
    return load_registry(extra, plugins).rules


def list_rules(extra: tuple[Path, ...] = (), plugins: tuple[str, ...] = ()) -> tuple[Described, ...]:
    """As :func:`load_rules`, for who does not run them: the files of built-in rules need not be imported."""
    return load_registry(extra, plugins).listed


@lru_cache(maxsize=8)
def load_registry(extra: tuple[Path, ...], plugins: tuple[str, ...]) -> Registry:
    """Find all rules. A file of ``extra`` or ``plugins`` that fails costs its own rules only.

    Raises:
        RegistryError: a built-in file fails to load, or there is none (a broken installation must not look like clean
            code).
    """
    builtin = _builtin_files()
    state = state_of((*_files_below(str(_HERE)), *map(str, builtin)))
    rules = _without_clash(_built_in(builtin, state), ENGINE_RULES)
    files, faults = _added_files(extra, plugins)
    for path in files:
        from dllint.rule_files import load_file  # which knows all events

        try:
            rules = _without_clash(load_file(path), rules)
        except RegistryError as error:
            faults.append(str(error))
    by_code = sorted(rules, key=lambda rule: rule.code)
    return Registry(tuple(by_code), tuple(faults), state, tuple(files))


def _built_in(files: Sequence[Path], state: str) -> Sequence[Described]:
    """The built-in rules: as the table tells that is kept of them, or else imported, and the table is made."""
    table = RuleTable(builtin_directory(), state)
    known = table.read()
    if known is not None:
        return known
    from dllint.rule_files import load_file

    sources = [(path, rule) for path in files for rule in load_file(path)]
    rules = [rule for _, rule in sources]
    _without_clash(rules, ENGINE_RULES)  # else they would be listed
    table.write(sources)
    return rules


def _files_below(package: str) -> Iterator[str]:
    """dllint's own code and facts, in order; in a checkout they change without a new version."""
    for folder, subfolders, names in os.walk(package):
        subfolders[:] = sorted(name for name in subfolders if name != "__pycache__")
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith((".py", ".toml")))


def _builtin_files() -> list[Path]:
    builtin = rule_files(builtin_directory())
    if not builtin:
        raise RegistryError(f"no rules found in {builtin_directory()}: the installation is broken")
    return builtin


def _added_files(extra: Iterable[Path], plugins: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The rule files that the configuration adds, and what is wrong with places where there are none."""
    files: list[Path] = []
    faults: list[str] = []
    for path in extra:
        if path.is_dir():
            files += rule_files(path)
        elif path.is_file():
            files.append(path)
        else:
            faults.append(f"{path}: no such rule file or folder")
    for name, place in _plugin_places(plugins):
        if isinstance(place, Path):
            files += rule_files(place)
        else:
            faults.append(f"plug-in {name!r}: {place}")
    return files, faults


def _plugin_places(names: Sequence[str]) -> Iterator[tuple[str, Path | str]]:
    """The folder of each plug-in, or what is wrong with it."""
    if not names:
        return
    from importlib.metadata import entry_points  # costs 30 ms, so only when a plug-in is configured

    known = {point.name: point for point in entry_points(group="dllint.rules")}
    for name in names:
        if name not in known:
            yield name, "not installed (no entry point of that name in dllint.rules)"
            continue
        try:
            target = known[name].load()
            yield name, Path(target if isinstance(target, (str, Path)) else target.__path__[0])
        except Exception as error:
            yield name, f"{type(error).__name__}: {error}"


def _without_clash(added: Sequence[Described], rules: Sequence[Described]) -> list[Described]:
    """Rules with some more, if no code or name of these is taken. Raises RegistryError."""
    taken = {key: rule for rule in rules for key in (rule.code, rule.name)}
    for rule in added:
        for key in (rule.code, rule.name):
            if key in taken:
                both = f"{loaded(taken[key]).__name__} and {loaded(rule).__name__}"
                raise RegistryError(f"{key} is claimed by both {both}")
            taken[key] = rule
    return [*rules, *added]
