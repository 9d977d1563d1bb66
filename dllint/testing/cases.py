"""Fixture files: independent cases in one file, each a small project with marks.

The lines before the first ``# case: title`` are a prelude that stands before every file of every case. In a case,
``# file: models.py`` begins another file; what stands before it is ``main.py``. Every line keeps its number, so that a
failure names the line of the fixture. A file that is no module (``# file: README.md``) is written as comments.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any

from dllint.dataclass import dataclass
from dllint.testing.doubts import NAMES as DOUBTS
from dllint.testing.marks import FixtureError, read_marks
from dllint.testing.variations import NAMES as VARIATIONS

MAIN = "main.py"

_HEADER = re.compile(r"# (case|file):\s*(.*?)\s*")
_DIRECTIVE = re.compile(r"# ([a-z-]+):\s*(.*?)(?:\s+--\s+(\S.*?))?\s*")
_VERSION = re.compile(r"([\w.-]+)=(\d[\w.]*)")
_FILES = (".py", ".md", ".sh", ".txt")
_NOT_SHOWN = "triggers-not-shown"


@dataclass(frozen=True, slots=True)
class Case:
    """One case: a small project, linted as a whole.

    ``files`` maps relative paths to texts with marks, ``notes`` those of files that are no modules. ``versions`` are
    those of the libraries it is for, ``right_with`` those with which it is no bug. ``explicit`` asks for the pedantic
    variants of the rule, too. ``unvaried`` are the variations and ``undoubted`` the doubts that do not apply to it,
    each with the reason. ``fix`` is ``stays`` where a fix rightly does not remove its finding, and ``todo`` where it is
    known to be wrong.
    """

    title: str
    files: Mapping[str, str]
    line: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    explicit: bool = False
    unvaried: Mapping[str, str] = field(default_factory=dict)
    undoubted: Mapping[str, str] = field(default_factory=dict)
    right_with: Mapping[str, str] = field(default_factory=dict)
    fix: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """The title as one word, for the identifiers of tests."""
        return "-".join(re.findall(r"[a-z0-9_]+", self.title.lower()))

    def is_marked(self) -> bool:
        """Whether it shows a bug that is found."""
        return any(mark.kind == "bug" for text in self.files.values() for mark in read_marks(text))

    def is_lookalike(self) -> bool:
        """Whether it shows code that is right."""
        return not any(read_marks(text) for text in self.files.values())

    def content(self) -> tuple[object, ...]:
        """What makes it the same as another case: its code without comments and layout, and what it is linted with."""
        code = tuple((name, ast.dump(ast.parse(text))) for name, text in self.files.items())
        return (code, tuple(self.notes.items()), tuple(sorted(self.versions.items())), self.explicit)


@dataclass(frozen=True, slots=True)
class Fixture:
    """A file of cases. ``not_shown`` are trigger words that no marked case has in it, each with the reason."""

    path: Path
    text: str
    cases: tuple[Case, ...]
    not_shown: Mapping[str, str]

    @property
    def code(self) -> str:
        """The code of the rule it belongs to."""
        return self.path.name.partition("_")[0].upper()

    def faults(self) -> list[str]:
        """What is wrong with its form: too few cases, one given twice, a mark of another rule."""
        marked = sum(case.is_marked() for case in self.cases)
        lookalikes = sum(case.is_lookalike() for case in self.cases)
        faults = []
        if marked < 1:
            faults.append("no case is marked: show at least one bug that the rule finds")
        if lookalikes < 2:
            faults.append(f"{lookalikes} cases without a mark: show at least 2 that look like the bug and are right")
        return faults + list(self._repeated()) + list(self._foreign_marks())

    def _repeated(self) -> Iterator[str]:
        titles = Counter(case.slug for case in self.cases)
        yield from (f"{times} cases are called {title!r}" for title, times in titles.items() if times > 1)
        seen: dict[object, Case] = {}
        for case in self.cases:
            first = seen.setdefault(case.content(), case)
            if first is not case:
                yield f"line {case.line}: {case.title!r} is the same as {first.title!r} (line {first.line})"

    def _foreign_marks(self) -> Iterator[str]:
        for case in self.cases:
            for mark in (mark for text in case.files.values() for mark in read_marks(text)):
                if mark.code != self.code:
                    yield f"line {mark.line}: a mark of {mark.code}, but only {self.code} is run on this fixture"


def read_fixture(path: Path) -> Fixture:
    """Read a fixture file.

    Raises:
        FixtureError: it is not valid Python or not of the form of a fixture.
    """
    return parse_fixture(path.read_text("utf-8"), path)


def parse_fixture(text: str, path: Path) -> Fixture:
    """The fixture that ``text`` would be at ``path``. Raises FixtureError."""
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise FixtureError(f"{path.name}:{error.lineno}: {error.msg}") from error
    lines = text.split("\n")
    headers = [(number, match[1], match[2]) for number, line in enumerate(lines) if (match := _HEADER.fullmatch(line))]
    starts = [number for number, kind, _ in headers if kind == "case"]
    first = starts[0] if starts else len(lines)
    if any(number < first for number, _, _ in headers):
        raise FixtureError(f"{path.name}: `# file:` before the first `# case:`")
    if not starts:
        raise FixtureError(f"{path.name}: no `# case: title` in it")
    cases = tuple(
        _read_case(lines, lines[:first], [header for header in headers if start <= header[0] < end], end, path.name)
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    )
    return Fixture(path, text, cases, _not_shown(lines[:first], path.name))


def _read_case(
    lines: Sequence[str], prelude: Sequence[str], headers: Sequence[tuple[int, str, str]], end: int, name: str
) -> Case:
    """The case whose header, and those of its files, are given; it reaches to ``end``."""
    start, _, title = headers[0]
    if not title:
        raise FixtureError(f"{name}:{start + 1}: a case without a title")
    directives = list(takewhile(_is_directive, lines[start + 1 : end]))
    files: dict[str, str] = {}
    notes: dict[str, str] = {}
    begins = [start + len(directives), *(number for number, _, _ in headers[1:])]
    for (number, kind, title_or_path), begin, stop in zip(headers, begins, [*begins[1:], end], strict=True):
        body = [*lines[begin + 1 : stop]]
        if kind == "case" and len(headers) > 1 and not any(line.strip() for line in body):
            continue  # there is nothing before the first `# file:`
        file = MAIN if kind == "case" else _relative(title_or_path, f"{name}:{number + 1}")
        if file in files or file in notes:
            raise FixtureError(f"{name}:{number + 1}: {file} is given twice")
        if not file.endswith(".py"):
            notes[file] = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body).rstrip() + "\n"
            continue
        padding = [""] * (begin + 1 - len(prelude))
        files[file] = "\n".join([*prelude, *padding, *body]).rstrip() + "\n"
    given = _Options(f"{name}:{start + 1}")
    for line in [*filter(_is_about_doubts, prelude), *directives]:
        given.read(line)
    return Case(title, files, start + 1, notes=notes, **given.options)


def _is_about_doubts(line: str) -> bool:
    """Whether a line of the prelude is a directive that holds for every case."""
    match = _DIRECTIVE.fullmatch(line)
    return match is not None and match[1] in ("doubt", "right-with")


def _is_directive(line: str) -> bool:
    return _DIRECTIVE.fullmatch(line) is not None and _HEADER.fullmatch(line) is None


def _relative(path: str, place: str) -> str:
    parts = PurePosixPath(path).parts
    if not path.endswith(_FILES) or ".." in parts or parts[0] == "/":
        raise FixtureError(f"{place}: {path!r} is not the relative path of a file: {', '.join(_FILES)}")
    return "/".join(parts)


@dataclass(slots=True)
class _Options:
    """What the directives below the header of a case say; ``place`` is where it stands."""

    place: str
    options: dict[str, Any] = field(default_factory=dict)

    def read(self, line: str) -> None:
        """Take in one directive. Raises FixtureError."""
        match = _DIRECTIVE.fullmatch(line)
        assert match is not None
        key, value, reason = match[1], match[2], match[3] or ""
        if key == "versions":
            self._note("versions", self._versions(value))
        elif key == "right-with" and reason:
            self._note("right_with", self._versions(value))
        elif key == "select" and value == "explicit":
            self.options["explicit"] = True
        elif key == "vary":
            self._note("unvaried", self._left_out(key, value, reason, VARIATIONS))
        elif key == "doubt":
            self._note("undoubted", self._left_out(key, value, reason, DOUBTS))
        elif key == "fix" and value in ("stays", "todo") and reason:
            self.options["fix"] = value
        else:
            known = (
                "`versions: torch=2.1`, `right-with: torch=1.0 -- reason`, `select: explicit`, "
                "`vary: no-method -- reason`, `doubt: no-uncalled -- reason`, `fix: todo -- reason`"
            )
            raise FixtureError(f"{self.place}: `{line}` is none of the directives {known}")

    def _note(self, option: str, values: Mapping[str, str]) -> None:
        self.options[option] = {**self.options.get(option, {}), **values}

    def _versions(self, value: str) -> dict[str, str]:
        found = {}
        for part in value.split(","):
            match = _VERSION.fullmatch(part.strip())
            if match is None:
                raise FixtureError(f"{self.place}: {part.strip()!r} is not of the form torch=2.1")
            found[match[1]] = match[2]
        return found

    def _left_out(self, key: str, value: str, reason: str, names: Sequence[str]) -> dict[str, str]:
        """The variations or doubts that are left out. Raises FixtureError."""
        found = {}
        for part in value.split(","):
            name = part.strip().removeprefix("no-")
            if name not in names or name == part.strip() or not reason:
                known = ", ".join(f"no-{name}" for name in names)
                example = f"`# {key}: no-{names[0]} -- reason`"
                raise FixtureError(f"{self.place}: write {example} (there are {known})")
            found[name] = reason
        return found


def _not_shown(prelude: Sequence[str], name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in prelude:
        match = _DIRECTIVE.fullmatch(line)
        if match and match[1] == _NOT_SHOWN:
            if not match[3]:
                raise FixtureError(f"{name}: `{line}` needs a reason: `# {_NOT_SHOWN}: word -- reason`")
            found.update((word.strip(), match[3]) for word in match[2].split(","))
    return found
