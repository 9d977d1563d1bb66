"""Checking marked code: what is found must be what is marked, as written, after fixes, and in every variation."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dllint.errors import RegistryError
from dllint.registry import load_registry
from dllint.rule import Rule
from dllint.testing.cases import MAIN, Case
from dllint.testing.doubts import doubt_faults
from dllint.testing.fixing import fix_faults
from dllint.testing.linting import LintError, Setup, lint, mismatches
from dllint.testing.marks import FixtureError, read_marks
from dllint.testing.variations import MIXES, VARIATIONS


def check(
    code: str | Sequence[str],
    source: str,
    *,
    files: Mapping[str, str] | None = None,
    versions: Mapping[str, str] | None = None,
    explicit: bool = False,
    knowledge: Mapping[str, Any] | None = None,
    rule_paths: Sequence[Path] = (),
    vary: Iterable[str] = tuple(VARIATIONS),
    doubt: Iterable[str] = (),
) -> None:
    """Lint marked code and compare what is found with the marks, both ways.

    The code is linted as written, after each of its fixes, in every variation that applies, and with the doubts.

    Args:
        code: the code of the rule to run, or several.
        source: the main file, ``main.py``; it may be indented as a whole.
        files: other files of the project, by relative path.
        versions: the versions of libraries that the project runs with, such as ``{"torch": "1.8"}``.
        explicit: whether the pedantic variants of the rules are wanted, as when a user selects them by name.
        knowledge: what a user's ``[tool.dllint.knowledge]`` would add.
        rule_paths: files or folders with rules besides the built-in ones.
        vary: the names of the variations to check, all by default.
        doubt: the names of the doubts to cast on what is marked, none by default; a fixture is tested with all.

    Raises:
        AssertionError: findings and marks differ, a fix does not mend its finding, or dllint failed on the code.
        FixtureError: a mark has no proper form, is of a rule that is not run, or a code is of no rule.
    """
    codes = [code] if isinstance(code, str) else list(code)
    registry = load_registry(tuple(rule_paths), ())
    if registry.faults:
        raise RegistryError("\n".join(registry.faults))
    setup = Setup(find_rules(codes, registry.rules), versions or {}, explicit, knowledge or {})
    texts = {name: _dedented(text) for name, text in {MAIN: source, **(files or {})}.items()}
    for mark in (mark for text in texts.values() for mark in read_marks(text)):
        if mark.code not in codes:
            raise FixtureError(f"line {mark.line}: a mark of {mark.code}, which is not run here")
    case = Case("", texts)
    faults = [*as_written_faults(case, setup), *variation_faults(case, vary, setup), *doubt_faults(case, doubt, setup)]
    if faults:
        raise AssertionError("\n" + "\n".join(faults))


def find_rules(codes: Iterable[str], rules: Iterable[type[Rule]]) -> tuple[type[Rule], ...]:
    """The rules with these codes. Raises FixtureError."""
    by_code = {rule.code: rule for rule in rules}
    if unknown := [code for code in codes if code not in by_code]:
        raise FixtureError(f"there is no rule {unknown[0]} (see `rule-paths` in the configuration)")
    return tuple(by_code[code] for code in codes)


def _dedented(text: str) -> str:
    return textwrap.dedent(text).strip("\n") + "\n"


def as_written_faults(case: Case, setup: Setup) -> Iterator[str]:
    """What is wrong with a case as it stands: findings, known misses that are found, and fixes."""
    try:
        linted = lint(case.files, setup)
    except LintError as error:
        yield str(error)
        return
    yield from mismatches(linted)
    faults = list(fix_faults(case.files, linted, setup, stays=case.fix == "stays"))
    if case.fix != "todo":
        yield from faults
    elif not faults:
        yield "the fix is wrong no more: remove `# fix: todo`"


def variation_faults(case: Case, names: Iterable[str], setup: Setup) -> Iterator[str]:
    """What is wrong with the variations of a case that apply to it, each with the varied code.

    A case that is wrong as it is written says so there, and nothing here.
    """
    chosen = frozenset(names) - frozenset(case.unvaried)
    for mix in MIXES:
        apart = [name for name in mix if name in chosen]
        if not _is_right_at_once(case, apart, setup):
            for name in apart:
                yield from _faults_of(case, name, setup)


def _is_right_at_once(case: Case, names: Sequence[str], setup: Setup) -> bool:
    """Whether nothing is wrong with a case in several variations, one put on the other."""
    files: Mapping[str, str] = case.files
    try:
        for name in names:
            files = vary_files(files, name) or files
    except (AssertionError, SyntaxError):
        return False  # two variations that do not go together say nothing about either
    return not _mismatches(files, setup)


def _faults_of(case: Case, name: str, setup: Setup) -> Iterator[str]:
    varied = vary_files(case.files, name)
    faults = _mismatches(varied, setup) if varied is not None else []
    if varied is not None and faults and not _mismatches(case.files, setup):
        shown = [f"# {file}\n{_numbered(text)}" for file, text in varied.items()]
        yield "\n".join([f"in the variation {name!r}:", *faults, "the varied code:", *shown])


def _mismatches(files: Mapping[str, str], setup: Setup) -> list[str]:
    try:
        return mismatches(lint(files, setup), known=False)
    except LintError as error:
        return [str(error)]


def _numbered(text: str) -> str:
    """The lines of a text that are not blank, with their numbers."""
    return "\n".join(f"{number:4}  {line}" for number, line in enumerate(text.splitlines(), 1) if line.strip())


def vary_files(files: Mapping[str, str], name: str) -> dict[str, str] | None:
    """The files of a case in a variation, or ``None`` if that does not apply to it.

    Raises:
        AssertionError: the variation is at fault, because it breaks the code or loses a mark.
    """
    varied = VARIATIONS[name](files)
    if varied is None or any(file.endswith(".ipynb") for file in varied):
        return varied  # the marks of a notebook are in the JSON, and what is broken in a cell is found by linting it
    for file, text in varied.items():
        ast.parse(text, file)
    before, after = _codes(files), _codes(varied)
    if before != after:
        raise AssertionError(f"the variation {name!r} loses marks: {before} became {after}")
    return varied


def _codes(files: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted((mark.code, mark.kind) for text in files.values() for mark in read_marks(text))
