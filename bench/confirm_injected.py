"""How many bugs does `dllint confirm` find that are written, one at a time, into training scripts of others?

    python bench/confirm_injected.py CORPUS                   # all: the table of docs/confirm.md
    python bench/confirm_injected.py CORPUS --only vae --show # some scripts, with what was said of each
    python bench/confirm_injected.py CORPUS --results FILE    # keep what is known in a file, and go on from there
    python bench/confirm_injected.py CORPUS --write           # and put the tables into the page

``confirm_injected.toml`` names the scripts, whose repositories lie in CORPUS. Nothing of them is copied into this one:
``mutate_runs.py`` writes the bugs. A bug is found if its run is told of by one of its codes at one more place than
that of the script as it stands. A bug with which the script raises an error, and no rule speaks, tells of itself, and
is left out; so are those that ``no-bug`` names with the reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import tomllib
from mutate_runs import MUTATORS, Mutator
from mutating import Code, Edit

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "confirm.md"
STAND_INS = HERE / "standins"
OPTIONS = ("--isolated", "--quiet", "--max-seconds", "180", "--steps", "48")
CASES = 6
"""In as many scripts is a kind of bug written."""


@dataclass(frozen=True)
class Script:
    """A script of others, and how it is run."""

    repository: str
    root: str
    path: str
    arguments: str = ""
    prepare: str = ""
    bugs_in: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)

    def folder(self, corpus: Path) -> Path:
        return corpus / self.repository.replace("/", "+") / self.root

    @property
    def name(self) -> str:
        """The script in one word or two, by which the configuration and the table name it."""
        folder = "" if self.root == "." else f"{Path(self.root).name}/"
        return f"{self.repository.partition('/')[2]}: {folder}{self.path}"


@dataclass(frozen=True)
class Bug:
    """A bug in a file of a script."""

    script: Script
    mutator: Mutator
    path: str
    edit: Edit

    @property
    def place(self) -> str:
        """By which it is drawn."""
        return f"{self.mutator.codes[0]} {self.script.name} {self.path}:{self.edit.line}"

    @property
    def name(self) -> str:
        """By which its outcome is kept."""
        return f"{self.place} ({self.mutator.name})"


class Folder:
    """A copy of the part of a repository that a script needs, to run in."""

    def __init__(self, corpus: Path, script: Script, work: Path) -> None:
        self.script, self.path, self.libraries = script, work / "code", work / "libraries"
        shutil.copytree(
            script.folder(corpus), self.path, ignore=shutil.ignore_patterns(".git", "*.gif", "*.png", "docs")
        )
        shutil.copytree(STAND_INS, self.libraries)
        (self.libraries / "torchvision-0.dist-info").mkdir()  # so that it is a library, and no code of the user's
        if script.prepare:
            command = script.prepare.replace("python ", f"{shlex.quote(sys.executable)} ")
            subprocess.run(command, shell=True, cwd=self.path, check=True, env=self._environment())

    def _environment(self) -> dict[str, str]:
        paths = [str(HERE.parent), str(self.libraries), str(self.path)]
        older = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}  # which some scripts were written for
        settings = {"PYTHONPATH": os.pathsep.join(paths), "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
        return {**os.environ, **settings, **older}

    def told(self) -> tuple[Counter[str], list[str], bool]:
        """What a run confirms, by code, and in words; and whether the script failed."""
        report = self.path.parent / "report.json"
        report.unlink(missing_ok=True)
        options = (*OPTIONS, "--json", str(report), self.script.path, "--", *shlex.split(self.script.arguments))
        command = [sys.executable, "-m", "dllint", "confirm", *options]
        done = subprocess.run(command, cwd=self.path, env=self._environment(), capture_output=True, text=True)
        if not report.exists():
            return Counter(), [done.stderr[-600:]], True
        found = json.loads(report.read_text("utf-8"))
        confirmed = [each for each in found["verdicts"] if each["verdict"] == "CONFIRMED"]
        spoken = [*confirmed, *found["alarms"], *found["notes"]]
        lines = [
            line for line in done.stdout.splitlines() if line.startswith(("CONFIRMED", "ALARM", "NOTE", "a probe"))
        ]
        return Counter(each["rule"] for each in spoken), lines, bool(found["exit_code"])


def bugs_of(script: Script, corpus: Path) -> Iterator[Bug]:
    """The first place of each kind of bug in the files of a script."""
    files = {path: Code((script.folder(corpus) / path).read_text("utf-8")) for path in script.bugs_in or [script.path]}
    for mutator in MUTATORS:
        edits = ((path, edit) for path, code in files.items() for edit in mutator.write(code))
        for path, edit in edits:
            yield Bug(script, mutator, path, edit)
            break


def draw(bugs: list[Bug]) -> list[Bug]:
    """Some of each kind: the same at every run, and of as many repositories as there are."""
    drawn: list[Bug] = []
    for mutator in MUTATORS:
        ranked = []
        seen: Counter[str] = Counter()
        of_kind = [bug for bug in bugs if bug.mutator is mutator]
        for bug in sorted(of_kind, key=lambda bug: hashlib.sha256(bug.place.encode()).digest()):
            ranked.append((seen[bug.script.repository], bug))
            seen[bug.script.repository] += 1
        drawn += [bug for _, bug in sorted(ranked, key=lambda pair: pair[0])[:CASES]]
    return drawn


def judge(bug: Bug, folder: Folder, before: Counter[str]) -> tuple[str, list[str]]:
    """Whether a bug is ``found``, ``missed``, or tells of itself by an ``error``; and what was said."""
    target = folder.path / bug.path
    text = target.read_text("utf-8")
    target.write_text(text[: bug.edit.start] + bug.edit.text + text[bug.edit.end :], "utf-8")
    try:
        told, lines, failed = folder.told()
    finally:
        target.write_text(text, "utf-8")
    if any(told[code] > before[code] for code in bug.mutator.codes):
        return "found", lines
    return "error" if failed else "missed", lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--only", default="", help="scripts with this in their name")
    parser.add_argument("--kind", default="", help="bugs with this code")
    parser.add_argument("--results", type=Path, help="a file that keeps outcomes; what it has is not run again")
    parser.add_argument("--originals", action="store_true", help="run the scripts as they stand, and write no bug")
    parser.add_argument("--show", action="store_true", help="show what was said of each bug")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/confirm.md")
    given = parser.parse_args()

    configuration = tomllib.loads((HERE / "confirm_injected.toml").read_text("utf-8"))
    no_bugs = configuration.get("no-bug", {})
    known = Known(given.results)
    scripts = [Script(**each) for each in configuration["script"]]
    corpus = given.corpus.resolve()
    bugs = draw([bug for script in scripts for bug in bugs_of(script, corpus) if bug.name not in no_bugs])
    for script in (script for script in scripts if given.only in script.name):
        todo = [bug for bug in bugs if bug.script is script and given.kind in bug.mutator.codes[0]]
        todo = [] if given.originals else [bug for bug in todo if bug.name not in known.outcomes]
        if not todo and script.name in known.alarms:
            continue
        with tempfile.TemporaryDirectory(prefix="dllint-injected-") as work:
            folder = Folder(corpus, script, Path(work))
            before, lines, failed = folder.told()
            known.alarms[script.name] = [line for line in lines if is_false(line, script)]
            print(f"\n{script.name}{' fails' if failed else ''}", *lines, sep="\n  ", flush=True)
            for bug in todo:
                known.outcomes[bug.name], lines = judge(bug, folder, before)
                print(f"{known.outcomes[bug.name]}: {bug.name}", flush=True)
                if given.show or known.outcomes[bug.name] == "missed":
                    print(*(f"    {line}" for line in lines), sep="\n", flush=True)
                known.write()
        known.write()
    outcomes = [(bug, known.outcomes[bug.name]) for bug in bugs if bug.name in known.outcomes]
    alarms = sum(len(lines) for lines in known.alarms.values())
    tables = "\n\n".join((by_script(outcomes), by_kind(outcomes)))
    print(f"\n{alarms} false alarms on {len(known.alarms)} scripts as they stand")
    print(tables)
    if given.write:
        page = PAGE.read_text("utf-8")
        PAGE.write_text(
            re.sub(r"(?<=<!-- injected -->\n).*?(?=\n<!-- end -->)", lambda _: tables, page, flags=re.DOTALL)
        )
    return 0


class Known:
    """What is known of bugs and of scripts as they stand, in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        kept = json.loads(path.read_text("utf-8")) if path is not None and path.exists() else {}
        self.outcomes: dict[str, str] = kept.get("outcomes", {})
        self.alarms: dict[str, list[str]] = kept.get("alarms", {})

    def write(self) -> None:
        if self._path is not None:
            self._path.write_text(json.dumps({"outcomes": self.outcomes, "alarms": self.alarms}, indent=1), "utf-8")


def is_false(line: str, script: Script) -> bool:
    """Whether a line of the report on a script as it stands is an alarm that is not so."""
    return not line.startswith("NOTE") and line.split()[1] not in script.facts


def by_script(outcomes: list[tuple[Bug, str]]) -> str:
    rows = ["| script | bugs | found |", "| --- | --- | --- |"]
    for name in dict.fromkeys(bug.script.name for bug, outcome in outcomes if outcome != "error"):
        rows += [f"| {name} | {_counts([each for each in outcomes if each[0].script.name == name])} |"]
    return "\n".join([*rows, f"| all | {_counts(outcomes)} |"])


def by_kind(outcomes: list[tuple[Bug, str]]) -> str:
    rows = ["| bug | named by | scripts | found |", "| --- | --- | --- | --- |"]
    for mutator in MUTATORS:
        judged = [each for each in outcomes if each[0].mutator is mutator and each[1] != "error"]
        if judged:
            names = ", ".join(code if code.startswith("DL") else f"`{code}`" for code in mutator.codes)
            rows.append(f"| {mutator.name} | {names} | {_counts(judged)} |")
    return "\n".join(rows)


def _counts(judged: list[tuple[Bug, str]]) -> str:
    outcomes = Counter(outcome for _, outcome in judged)
    return f"{outcomes['found'] + outcomes['missed']} | {outcomes['found']}"


if __name__ == "__main__":
    sys.exit(main())
