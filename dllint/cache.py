"""Results kept between runs, in ``.dllint_cache`` of the project.

An entry is valid while the file, the other files and the folders that had a bearing on it, the folder in which its
project starts, the settings, the rules and dllint itself are what they were. It is stored as JSON: nothing in a
repository's cache can run code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dllint.assumptions import Assumption
from dllint.config.settings import Settings
from dllint.files.atomic import write_atomic
from dllint.findings import Edit, Finding, Fix, Hop, Location
from dllint.interp.source.listings import digest_of
from dllint.interp.source.search_path import project_root
from dllint.outcomes import Analysis, Outcome
from dllint.registry import load_registry
from dllint.rule_table import state_of

if TYPE_CHECKING:
    from dllint.interp.run.machine import Place

_FORMAT = 5
_CONFIGURATIONS = 12  # of so many configurations, those used last, results are kept

State = tuple[str, str]  # a file or folder, and its digest


class _Held(dict[int, bool]):
    """Which of some numbered states of files and folders are those of this moment, each looked up once."""

    def __init__(self, states: Sequence[State], digest: Callable[[str], str]) -> None:
        super().__init__()
        self._states = states
        self._digest = digest

    def __missing__(self, number: int) -> bool:
        path, digest = self._states[number]
        self[number] = holds = self._digest(path) == digest
        return holds


class Cache:
    """The kept results of one configuration.

    Args:
        file: where they are kept.
        project: the folder of the project.
        entries: what is kept, by path of the file analyzed. What an entry depends on is given as numbers of ``states``.
        states: the files and folders that entries depend on, as they were.
        overlay: unsaved text of some files. What is kept is used as far as it holds with it, and nothing is added.
    """

    def __init__(
        self,
        file: Path,
        project: Path,
        entries: Mapping[str, dict[str, Any]],
        states: Sequence[State],
        overlay: Mapping[Path, str],
    ) -> None:
        self._file = file
        self._project = project
        self._overlay = overlay
        self._entries = dict(entries)
        self._states = list(states)
        self._numbers: dict[State, int] = {}
        self._digests: dict[str, str] = {}
        self._holds = _Held(self._states, self._digest)
        self._roots: dict[Path, str] = {}
        self._working_directory = Path.cwd()
        self._changed = False

    @classmethod
    def open(cls, settings: Settings, overlay: Mapping[Path, str] | None = None) -> Cache:
        """The cache for runs with some settings from this working directory; empty if it cannot be read."""
        file = settings.cache_directory / f"{_key(settings)}.json"
        try:
            kept = json.loads(file.read_bytes())
            states = [(path, digest) for path, digest in kept["states"]]
            return cls(file, settings.root, kept["entries"], states, overlay or {})
        except (OSError, ValueError, KeyError, TypeError):
            return cls(file, settings.root, {}, (), overlay or {})

    def get(self, file: Path) -> Outcome | None:
        """The outcome of a file, if it is still valid."""
        try:
            entry = self._entries[str(file)]
            unchanged = entry["digest"] == self._digest(str(file)) and entry["root"] == self._root(file)
            holds = self._holds.__getitem__  # of each file on hundreds of others
            return _outcome(file, entry) if unchanged and all(map(holds, entry["dependencies"])) else None
        except (KeyError, TypeError, IndexError, AttributeError):
            return None  # not there, or damaged

    def _digest(self, path: str) -> str:
        """The digest of a file or folder at this moment."""
        known = self._digests.get(path)
        if known is None:
            known = self._digests[path] = digest_of(path, self._overlay)
        return known

    def _root(self, file: Path) -> str:
        """Where the project of a file starts at this moment."""
        known = self._roots.get(file.parent)
        if known is None:
            known = self._roots[file.parent] = str(project_root(file, self._working_directory, self._project))
        return known

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome; one with a problem is not kept, so that it is tried again."""
        if outcome.analysis.problems or not outcome.digest or self._overlay:
            return
        self._changed = True
        self._entries[str(outcome.file)] = {
            "digest": outcome.digest,
            "root": self._root(outcome.file),
            "dependencies": [self._number((str(path), digest)) for path, digest in outcome.dependencies],
            "has_comments": outcome.has_comments,
            "findings": [asdict(finding) for finding in outcome.analysis.findings],
            "reached": _grouped(outcome.analysis.reached),
            "matters": outcome.analysis.matters,
        }

    def _number(self, state: State) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
        return number

    def save(self) -> None:
        """Write what was added. A project that cannot be written to has no cache."""
        if not self._changed:
            return
        folder = self._file.parent
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ".gitignore").write_text("*\n", "utf-8")
            write_atomic(self._file, json.dumps(self._compact(), separators=(",", ":")).encode())
            by_age = sorted(folder.glob("*.json"), key=os.path.getmtime, reverse=True)
            for forgotten in by_age[_CONFIGURATIONS:]:
                forgotten.unlink(missing_ok=True)

    def _compact(self) -> dict[str, Any]:
        """The entries of files that are still there, and the states that these depend on, numbered afresh."""
        entries = {file: entry for file, entry in self._entries.items() if os.path.exists(file)}
        needed = sorted({number for entry in entries.values() for number in entry["dependencies"]})
        renumbered = {old: new for new, old in enumerate(needed)}
        return {
            "states": [self._states[number] for number in needed],
            "entries": {
                file: {**entry, "dependencies": [renumbered[number] for number in entry["dependencies"]]}
                for file, entry in entries.items()
            },
        }


def _key(settings: Settings) -> str:
    """What must be the same for any result to be reused."""
    registry = load_registry(settings.rule_paths, settings.plugins)
    code = state_of(map(str, registry.added), registry.state)  # those may change while this process runs
    digest = blake2b(f"{_FORMAT} {code} {settings.cache_key()} {os.getcwd()}".encode(), digest_size=12)
    return digest.hexdigest()


def _outcome(file: Path, entry: dict[str, Any]) -> Outcome:
    reached = {
        (path, line): frozenset(codes)
        for codes, files in entry["reached"]
        for path, lines in files.items()
        for line in lines
    }
    findings = [_finding(data) for data in entry["findings"]]
    analysis = Analysis(findings=findings, reached=reached, matters=entry["matters"])
    return Outcome(file, analysis, entry["digest"], entry["has_comments"])


def _grouped(reached: Mapping[Place, frozenset[str]]) -> list[tuple[list[str], dict[str, list[int]]]]:
    """The lines of definitions, by the codes of the rules that looked on, and by file."""
    groups: dict[frozenset[str], dict[str, list[int]]] = {}
    for (path, line), codes in reached.items():
        groups.setdefault(codes, {}).setdefault(path, []).append(line)
    return [(sorted(codes), files) for codes, files in groups.items()]


def _finding(data: dict[str, Any]) -> Finding:
    hops = tuple(Hop(Location(**hop["location"]), hop["message"]) for hop in data["trace"])
    fixes = tuple(
        Fix(fix["message"], tuple(Edit(**edit) for edit in fix["edits"]), fix["safety"]) for fix in data["fixes"]
    )
    made = {
        "location": Location(**data["location"]),
        "assumptions": tuple(Assumption(**each) for each in data["assumptions"]),
        "trace": hops,
        "fixes": fixes,
        "others": tuple(Location(**each) for each in data["others"]),
        "alone": tuple(data["alone"]) if data["alone"] is not None else None,
    }
    return Finding(**{**data, **made})
