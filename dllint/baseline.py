"""The baseline: a file of known findings that are not reported again until they come back.

An entry is a path, a code and a fingerprint (see :func:`dllint.findings.fingerprints`), one to a line and sorted, with
no line numbers, totals or dates: moving code changes nothing in it, and two branches that touch it merge easily.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from dllint.dataclass import dataclass
from dllint.errors import UserError
from dllint.files.atomic import write_atomic
from dllint.findings import Finding, fingerprints

VERSION = 1
NEVER = frozenset(("DL001", "DL002", "DL003"))
"""Codes that no baseline takes: what they report keeps dllint from finding anything else."""

Entry = tuple[str, str, str]  # path, code, fingerprint


class BaselineError(UserError):
    """A baseline that cannot be read or written. The message names the file."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The known findings of a project. Paths in it are relative to the folder of ``path``, with forward slashes."""

    path: Path
    entries: frozenset[Entry] = frozenset()

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read a baseline.

        Raises:
            BaselineError: there is no such file, or it is none of dllint's.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["version"] != VERSION:
                raise BaselineError(f"{path}: written by another version of dllint; run `dllint baseline` to renew it")
            return cls(path, frozenset((str(file), str(code), str(mark)) for file, code, mark in data["findings"]))
        except OSError as error:
            raise BaselineError(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise BaselineError(f"{path}: not a baseline of dllint ({error})") from error

    def write(self) -> None:
        """Write the file, in one step. Raises BaselineError if that fails."""
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in sorted(self.entries))
        text = f'{{"version": {VERSION}, "findings": [\n{lines}\n]}}\n'
        try:
            write_atomic(self.path, text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise BaselineError(f"{self.path}: {error.strerror}") from error

    def split(self, findings: Iterable[Finding]) -> tuple[list[Finding], frozenset[Entry]]:
        """Tell new findings from known ones.

        Args:
            findings: all findings of the files they are in, as equal ones are counted.

        Returns:
            The new findings, in their order, and the entries that the others match.
        """
        ordered = list(findings)
        entry_of = {id(finding): self.entry(finding, mark) for finding, mark in fingerprints(ordered)}
        new = [finding for finding in ordered if entry_of[id(finding)] not in self.entries]
        return new, self.entries & frozenset(entry_of.values())

    def stale(self, matched: Collection[Entry], linted: Mapping[str, Collection[str]]) -> frozenset[Entry]:
        """The entries whose finding is gone.

        Args:
            matched: the entries that were found again in this run.
            linted: the codes of the rules that ran, by path of the files that were linted (see :meth:`key`). Of other
                files nothing is known, unless they do not exist any more.
        """
        gone = {file for file, _, _ in self.entries if not os.path.lexists(self.path.parent / file)}
        return frozenset(
            entry
            for entry in self.entries - frozenset(matched)
            if entry[0] in gone or entry[1] in linted.get(entry[0], ())
        )

    def updated(self, findings: Iterable[Finding], linted: Mapping[str, Collection[str]]) -> Baseline:
        """The baseline in which ``findings`` are known too; entries of files and rules not in ``linted`` stay."""
        found = frozenset(
            self.entry(finding, mark) for finding, mark in fingerprints(findings) if finding.code not in NEVER
        )
        kept = frozenset(entry for entry in self.entries if entry[1] not in linted.get(entry[0], ()))
        return Baseline(self.path, kept | found)

    def without(self, entries: frozenset[Entry]) -> Baseline:
        """The baseline that lacks some entries."""
        return Baseline(self.path, self.entries - entries)

    def entry(self, finding: Finding, fingerprint: str) -> Entry:
        """The entry that stands for a finding."""
        return self.key(Path(finding.location.path)), finding.code, fingerprint

    def key(self, file: Path) -> str:
        """How the baseline calls a file."""
        return Path(os.path.relpath(file, self.path.parent)).as_posix()
