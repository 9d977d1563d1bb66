"""Results kept between runs, in ``.dllint_cache`` of the project.

An entry is valid while the file, every file it was read with, the set of files of the run, the settings, the rules and
dllint itself are what they were. It is stored as JSON: nothing in a repository's cache can run code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

from dllint import __version__
from dllint.config.settings import Settings
from dllint.engine import Analysis
from dllint.findings import Edit, Finding, Fix, Hop, Location
from dllint.interp.facts import KNOWLEDGE
from dllint.registry import builtin_directory, rule_files
from dllint.worker import Outcome

_FORMAT = 1


class Cache:
    """The kept results of one configuration."""

    def __init__(self, file: Path, entries: dict[str, Any]) -> None:
        self._file = file
        self._entries = entries
        self._digests: dict[Path, str] = {}
        self._changed = False

    @classmethod
    def open(cls, settings: Settings, files: Sequence[Path]) -> Cache:
        """The cache for a run over ``files``; empty if there is none, or if it cannot be read."""
        key = _key(settings, files)
        file = settings.cache_directory / f"{key}.json"
        try:
            entries = json.loads(file.read_bytes())
        except (OSError, ValueError):
            entries = {}
        return cls(file, entries if isinstance(entries, dict) else {})

    def get(self, file: Path) -> Outcome | None:
        """The outcome of a file, if it is still valid."""
        entry = self._entries.get(str(file))
        if entry is None or entry["digest"] != self._digest(file):
            return None
        if any(self._digest(Path(path)) != digest for path, digest in entry["dependencies"]):
            return None
        return _outcome(file, entry)

    def _digest(self, file: Path) -> str:
        known = self._digests.get(file)
        if known is None:
            try:
                known = blake2b(file.read_bytes(), digest_size=16).hexdigest()
            except OSError:
                known = ""
            self._digests[file] = known
        return known

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome; one with a problem is not kept, so that it is tried again."""
        if outcome.analysis.problems or not outcome.digest:
            return
        self._changed = True
        self._entries[str(outcome.file)] = {
            "digest": outcome.digest,
            "dependencies": [(str(path), digest) for path, digest in outcome.dependencies],
            "has_comments": outcome.has_comments,
            "findings": [asdict(finding) for finding in outcome.analysis.findings],
        }

    def save(self) -> None:
        """Write the cache. A project that cannot be written to has none."""
        if not self._changed:
            return
        temporary = self._file.with_suffix(f".{os.getpid()}.tmp")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            (self._file.parent / ".gitignore").write_text("*\n", "utf-8")
            temporary.write_text(json.dumps(self._entries, separators=(",", ":")), "utf-8")
            os.replace(temporary, self._file)
        except OSError:
            temporary.unlink(missing_ok=True)


def _key(settings: Settings, files: Sequence[Path]) -> str:
    """What must be the same for any result to be reused."""
    digest = blake2b(f"{_FORMAT} {__version__} {settings.cache_key()} {os.getcwd()}".encode(), digest_size=12)
    for path in (*rule_files(builtin_directory()), *KNOWLEDGE.glob("*.toml"), *_sources(), *settings.rule_paths):
        try:
            status = path.stat()
        except OSError:
            continue
        digest.update(f"{path.name} {status.st_mtime_ns} {status.st_size}".encode())
    for file in sorted(files):
        digest.update(os.fsencode(file))
    return digest.hexdigest()


def _sources() -> list[Path]:
    """dllint's own code: in a development checkout it changes without a new version."""
    package = Path(__file__).resolve().parent
    return sorted((*package.glob("*.py"), *package.glob("interp/*.py"), *package.glob("syntax/*.py")))


def _outcome(file: Path, entry: dict[str, Any]) -> Outcome:
    analysis = Analysis(findings=[_finding(data) for data in entry["findings"]])
    return Outcome(file, analysis, entry["digest"], entry["has_comments"])


def _finding(data: dict[str, Any]) -> Finding:
    hops = tuple(Hop(Location(**hop["location"]), hop["message"]) for hop in data["trace"])
    fixes = tuple(
        Fix(fix["message"], tuple(Edit(**edit) for edit in fix["edits"]), fix["safety"]) for fix in data["fixes"]
    )
    return Finding(**{**data, "location": Location(**data["location"]), "trace": hops, "fixes": fixes})
