"""The settings of one run over one project: plain data, resolved and checked, that workers receive by pickle."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from dllint.dataclass import dataclass
from dllint.files.globs import Globs
from dllint.findings import Confidence, Safety, Severity

FailOn = Severity | Literal["never"]
CACHE_FOLDER = ".dllint_cache"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the engine is to do.

    ``enabled`` are the codes of the rules to run, ``explicit`` those among them whose pedantic findings are wanted
    too, ``defaults`` the codes that run when nothing is selected. ``severities`` maps codes to a severity other than
    the rule's own. The globs of ``per_file_ignores`` and ``exclude`` are relative to ``root``. ``versions`` are the
    lowest versions of torch and its relatives that the project runs with, by normalized package name, and ``limits``
    those below which they stay, where the project says so. ``knowledge`` is the table ``[tool.dllint.knowledge]`` as it
    was read, ``bans`` those of ``[[tool.dllint.ban]]``. ``fix_safety`` maps codes to a safety of their fixes other than
    the rule's own. ``confidence`` is how sure a finding must be to be reported, ``notes`` says that those of severity
    ``info`` are listed and not just counted. With ``why_silent`` rules note what they do not report, and why.
    """

    root: Path
    enabled: frozenset[str]
    explicit: frozenset[str] = frozenset()
    defaults: frozenset[str] = frozenset()
    severities: Mapping[str, Severity] = field(default_factory=dict)
    per_file_ignores: tuple[tuple[str, frozenset[str]], ...] = ()
    exclude: tuple[str, ...] = ()
    fix_safety: Mapping[str, Safety] = field(default_factory=dict)
    bans: tuple[Mapping[str, str], ...] = ()
    rule_paths: tuple[Path, ...] = ()
    plugins: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    knowledge: Mapping[str, Any] = field(default_factory=dict)
    require_reason: bool = False
    time_limit: float = 20.0
    fail_on: FailOn = "warning"
    confidence: Confidence = "likely"
    notes: bool = False
    baseline: Path | None = None
    why_silent: bool = False

    @property
    def cache_directory(self) -> Path:
        """The folder that keeps results between runs."""
        return self.root / CACHE_FOLDER

    @property
    def lists_notes(self) -> bool:
        """Whether notes are listed: where somebody asks for them, and where they make a run fail."""
        return self.notes or self.fail_on == "info"

    def is_in_glob(self, file: Path, glob: str) -> bool:
        """Whether a glob of ``per_file_ignores`` takes in a file (an absolute path)."""
        base, pattern = self.root, glob.removeprefix("!")
        while pattern.startswith("../"):  # it is relative to a folder further up
            base, pattern = base.parent, pattern.removeprefix("../")
        path = os.path.relpath(file, base).replace(os.sep, "/")
        return _compiled(pattern).matches(path) != glob.startswith("!")

    def ignored_in(self, file: Path) -> frozenset[str]:
        """The codes that are not to be reported in a file (an absolute path)."""
        return frozenset().union(*(codes for glob, codes in self.per_file_ignores if self.is_in_glob(file, glob)))

    def cache_key(self) -> str:
        """A digest of everything here that bears on the findings of a file, the same on every machine."""
        parts = {
            "enabled": sorted(self.enabled),
            "explicit": sorted(self.explicit),
            "defaults": sorted(self.defaults),
            "severities": dict(self.severities),
            "per_file_ignores": [(glob, sorted(codes)) for glob, codes in self.per_file_ignores],
            "fix_safety": dict(self.fix_safety),
            "bans": self.bans,
            "rule_paths": [os.path.relpath(path, self.root) for path in self.rule_paths],
            "plugins": self.plugins,
            "versions": dict(self.versions),
            "limits": dict(self.limits),
            "knowledge": self.knowledge,
            "require_reason": self.require_reason,
            "time_limit": self.time_limit,
        }
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@lru_cache(maxsize=256)
def _compiled(glob: str) -> Globs:
    return Globs([glob])
