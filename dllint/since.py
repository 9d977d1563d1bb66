"""``--since REV``: what has changed since a revision of git, and which findings are about that.

The comparison is with the point where the present branch left the revision, as a pull request is shown. It includes
what is not committed yet, and files git does not know.
"""

from __future__ import annotations

import os
import re
import subprocess
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import field
from difflib import SequenceMatcher
from pathlib import Path

from dllint.dataclass import dataclass
from dllint.errors import UserError
from dllint.files.discovery import SUFFIXES
from dllint.files.source import SourceError, SourceFile, read_source, source_from_bytes
from dllint.findings import Finding, Location
from dllint.syntax.statements import Layout, read_layout, split_lines

Ranges = list[tuple[int, int]]  # first and last lines from 1, in order

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_NAMED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")  # they would point git elsewhere
_EVERYTHING: Ranges = [(1, 1 << 62)]


class SinceError(UserError):
    """The changes cannot be had: git is missing, this is no repository, or it has no such revision."""


@dataclass(frozen=True, slots=True)
class Before:
    """The changed files of a repository as they were.

    ``texts`` has the text of each one; of one that did not exist it is empty. ``names`` says what files that have been
    renamed since were called.
    """

    texts: dict[Path, str] = field(default_factory=dict)
    names: dict[Path, Path] = field(default_factory=dict)


class Changes:
    """The lines changed since a revision, in all files of a repository.

    Args:
        revision: whatever git takes for a commit.
        directory: a folder in the repository.

    Raises:
        SinceError: see there.
    """

    def __init__(self, revision: str, directory: Path) -> None:
        top = _git(directory, "rev-parse", "--show-toplevel").rstrip(b"\r\n")
        self._top = os.path.realpath(os.fsdecode(top))
        self._base = _merge_base(Path(self._top), revision)
        self._ranges = dict(_changed_ranges(_diff(Path(self._top), self._base)))
        untracked = _git(Path(self._top), "ls-files", "--others", "--exclude-standard", "-z")
        self._untracked = [os.fsdecode(path) for path in untracked.split(b"\0") if path]
        self._ranges.update((name, _EVERYTHING) for name in self._untracked)
        self._files: dict[str, tuple[SourceFile, Layout, Ranges] | None] = {}

    def keep(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that are about a statement of which a line has changed, or whose trace leads through one.

        Raises:
            SinceError: a finding is in a file outside the repository.
        """
        kept = []
        for finding in findings:
            if self._name(finding.location.path) is None:
                raise SinceError(f"{finding.location.path} is outside the git repository {self._top}")
            places = (finding.location, *(hop.location for hop in finding.trace))
            if any(self._is_changed(place) for place in places):
                kept.append(finding)
        return kept

    def before(self, working_directory: Path) -> Before:
        """What the changed modules and notebooks were at the revision, as files below a working directory see them."""
        top = _as_seen(self._top, working_directory)
        before = Before()
        ids: dict[Path, bytes] = {}
        for status, old_id, old, new in _changed_files(_raw_diff(Path(self._top), self._base)):
            if new.endswith(SUFFIXES):
                before.texts[top / new] = ""
            if old.endswith(SUFFIXES) and status != b"A":
                ids[top / old] = old_id
            if status == b"R":
                before.names[top / new] = top / old
        before.texts.update((top / name, "") for name in self._untracked if name.endswith(SUFFIXES))
        for path, raw in zip(ids, _blobs(Path(self._top), ids.values()), strict=True):
            try:
                before.texts[path] = source_from_bytes(raw, path).file_text
            except SourceError:
                before.texts[path] = ""  # nothing was found in it
        return before

    def _name(self, path: str) -> str | None:
        """How git calls a file, or None if it is not in the repository."""
        relative = os.path.relpath(os.path.realpath(path), self._top).replace(os.sep, "/")
        return None if relative.startswith("../") else relative

    def _is_changed(self, place: Location) -> bool:
        name = self._name(place.path)
        if name not in self._ranges:
            return False
        if name not in self._files:
            self._files[name] = self._read(name)
        if (file := self._files[name]) is None:
            return True  # it has gone since it was linted: rather too much than too little
        source, layout, ranges = file
        line = source.position(source.span(place)[0])[0]
        statement = layout.statement_at(line)
        return _overlaps(ranges, statement.first if statement else line, statement.last if statement else line)

    def _read(self, name: str) -> tuple[SourceFile, Layout, Ranges] | None:
        try:
            source = read_source(Path(self._top, name))
        except SourceError:
            return None
        ranges = self._ranges[name]
        if source.notebook is not None and ranges != _EVERYTHING:
            ranges = self._notebook_ranges(name, source)
        return source, read_layout(source), ranges

    def _notebook_ranges(self, name: str, source: SourceFile) -> Ranges:
        """The changed lines of a notebook as a module: git compares its JSON, outputs and all."""
        try:
            before = source_from_bytes(_git(Path(self._top), "show", f"{self._base}:{name}"), Path(name))
        except (SinceError, SourceError):  # it had another name, or was no notebook
            return _EVERYTHING
        matcher = SequenceMatcher(None, split_lines(before.text), split_lines(source.text), autojunk=False)
        return [_hunk(first + 1, last - first) for kind, _, _, first, last in matcher.get_opcodes() if kind != "equal"]


def _overlaps(ranges: Ranges, first: int, last: int) -> bool:
    index = bisect_left(ranges, first, key=lambda item: item[1])
    return index < len(ranges) and ranges[index][0] <= last


def _hunk(first: int, count: int) -> tuple[int, int]:
    """The lines a change touches; where it only deletes (``first`` follows the gap), those on both sides of the gap."""
    return (first, first + count - 1) if count else (first - 1, first)


def _merge_base(top: Path, revision: str) -> str:
    if revision.startswith("-"):
        raise SinceError(f"{revision!r} is not a revision")
    try:
        commit = _git(top, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except SinceError as error:
        raise SinceError(f"git knows no revision {revision!r}; fetch it first if it is on a server") from error
    try:
        return _git(top, "merge-base", commit.decode().strip(), "HEAD").decode().strip()
    except SinceError as error:
        reason = (
            f"{revision} and the present commit have no common ancestor here (a shallow clone has too little history)"
        )
        raise SinceError(reason) from error


def _diff(top: Path, base: str) -> bytes:
    options = ["-U0", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--ignore-submodules"]
    return _git(top, "diff", *options, "--src-prefix=a/", "--dst-prefix=b/", base, "--")


def _raw_diff(top: Path, base: str) -> bytes:
    return _git(top, "diff", "--raw", "-z", "--no-abbrev", "--find-renames", "--ignore-submodules", base, "--")


def _changed_files(raw: bytes) -> Iterator[tuple[bytes, bytes, str, str]]:
    """The regular files that were or are in a raw diff: its status, former blob, former name and present name."""
    words = iter(raw.split(b"\0"))
    for word in words:
        if word.startswith(b":"):
            old_mode, _, old_id, _, status = word[1:].split(b" ")
            old = new = os.fsdecode(next(words))
            if status[:1] in (b"R", b"C"):
                new = os.fsdecode(next(words))
            is_file = old_mode.startswith(b"100")
            yield status[:1] if is_file else b"A", old_id, old, new


def _blobs(top: Path, ids: Iterable[bytes]) -> Iterator[bytes]:
    """The contents of some objects."""
    asked = b"".join(each + b"\n" for each in ids)
    told = _git(top, "cat-file", "--batch", given=asked) if asked else b""
    at = 0
    while at < len(told):
        end = told.index(b"\n", at)
        size = int(told[at:end].split(b" ")[2])
        yield told[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


def _as_seen(top: str, working_directory: Path) -> Path:
    """The top of a repository by the name that the working directory has, which a symbolic link may lead to."""
    inside = os.path.relpath(os.path.realpath(working_directory), top)
    above = working_directory if inside == "." else Path(str(working_directory).removesuffix(f"{os.sep}{inside}"))
    return above if os.path.realpath(above) == top else Path(top)


def _git(directory: Path, *arguments: str, given: bytes = b"") -> bytes:
    """What a git command prints. Raises SinceError with what it says when it fails."""
    command = ["git", "-C", str(directory), "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false", *arguments]
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK} | {"LC_ALL": "C"}
    try:
        done = subprocess.run(command, input=given, capture_output=True, env=environment, check=False)
    except OSError as error:
        raise SinceError(f"git cannot be run: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise SinceError(said[-1] if said else f"git {arguments[0]} failed")
    return done.stdout


def _changed_ranges(diff: bytes) -> Iterator[tuple[str, Ranges]]:
    """The name of each file in a diff without context, and the lines of its new version that the diff touches."""
    lines = diff.split(b"\n")
    ranges: Ranges = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith(b"+++ "):
            ranges = []
            name = _unquote(line[4:])
            if name.startswith(b"b/"):  # else it is /dev/null
                yield os.fsdecode(name[2:]), ranges
        elif match := _HUNK.match(line):
            removed, first, added = (1 if group is None else int(group) for group in match.groups())
            ranges.append(_hunk(first if added else first + 1, added))
            left = removed + added  # lines to pass over, as they may themselves look like a diff
            while left and at < len(lines):
                left -= not lines[at].startswith(b"\\")  # "\ No newline at end of file" is not counted
                at += 1


def _unquote(name: bytes) -> bytes:
    """A path in a diff: names with a space end in a tab, and those with stranger characters are quoted as in C."""
    name = name.rstrip(b"\t")
    if not name.startswith(b'"'):
        return name

    def unescape(match: re.Match[bytes]) -> bytes:
        escape = match.group(1)
        return bytes((int(escape, 8),)) if len(escape) == 3 else _NAMED.get(escape, escape)

    return _ESCAPE.sub(unescape, name[1:-1])
