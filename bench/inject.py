"""How many bugs are found that are written, one at a time, into real code that has none of their kind.

Every mutator in ``mutators.py`` writes the bug of one rule. Of all places in a corpus where it can, some are drawn, the
same ones at every run and as many different repositories as there are. dllint must report the rule once more than in
the code as it stands; what it reports there already, at that place, is an alarm on an original.

    python bench/inject.py CORPUS                     # all rules, over the folders of repositories in CORPUS
    python bench/inject.py CORPUS --rule DL825 --show # one rule, with the change of each bug that is missed

Which drawn places are no bugs, says ``injected.toml`` with the reason: those are left out of the count.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import tomllib
from mutators import MUTATORS, Code, Edit

CASES = 8
"""As many places are drawn for a rule."""

NO_BUGS = Path(__file__).with_name("injected.toml")
_MAX_SIZE = 200_000


@dataclass(frozen=True)
class Bug:
    """A bug of a rule, written into a file of a repository."""

    rule: str
    repository: Path
    path: Path
    edit: Edit

    @property
    def name(self) -> str:
        """The bug in one line, by which ``injected.toml`` names it."""
        return f"{self.rule} {self.repository.name}/{self.path.as_posix()}:{self.edit.line}"

    def texts(self) -> tuple[str, str]:
        """The file without and with the bug."""
        text = (self.repository / self.path).read_text("utf-8")
        return text, text[: self.edit.start] + self.edit.text + text[self.edit.end :]

    def change(self) -> str:
        before, after = (text.splitlines() for text in self.texts())
        return "\n".join(difflib.unified_diff(before, after, n=2, lineterm="", tofile=self.name))


def places(corpus: Path, rules: list[str]) -> Iterator[Bug]:
    """Every place of the corpus at which the bugs can be written."""
    for repository in sorted(folder for folder in corpus.iterdir() if folder.is_dir()):
        for path in sorted(repository.rglob("*.py")):
            if not path.is_file() or path.stat().st_size > _MAX_SIZE:
                continue
            try:
                code = Code(path.read_text("utf-8"))
            except (SyntaxError, UnicodeDecodeError, ValueError):
                continue  # nothing can be written into what is no Python of today
            for rule in rules:
                for edit in MUTATORS[rule](code):
                    yield Bug(rule, repository, path.relative_to(repository), edit)


def is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def draw(bugs: list[Bug], number: int) -> list[Bug]:
    """Some of the bugs of a rule: one of each repository, then a second one of each, and so on."""
    seen: dict[Path, int] = {}
    ranked = []
    for bug in sorted(bugs, key=lambda bug: hashlib.sha256(bug.name.encode()).digest()):
        seen[bug.repository] = seen.get(bug.repository, 0) + 1
        ranked.append((seen[bug.repository], bug))
    ordered = (bug for _, bug in sorted(ranked, key=lambda pair: pair[0]))
    return list(islice((bug for bug in ordered if is_python(bug.texts()[1])), number))


def lines_of(bug: Bug, text: str) -> list[int]:
    """The lines, wherever in the project, at which the rule reports something once the file has this text."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / bug.repository.name
        subprocess.run(["cp", "-r", "--reflink=auto", bug.repository, target], check=True)
        (target / bug.path).write_text(text, "utf-8")
        options = [
            "--isolated",
            "--no-cache",
            "--jobs",
            "1",
            "--notes",
            "--select",
            bug.rule,
            "--output-format",
            "json",
        ]
        command = [sys.executable, "-m", "dllint", "check", *options, str(target / bug.path)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode > 1:
        raise RuntimeError(f"{bug.name}: {done.stderr[-500:]}")
    return [finding["line"] for finding in json.loads(done.stdout) if finding["code"] == bug.rule]


def judge(bug: Bug) -> tuple[bool, bool]:
    """Whether the bug is found, and whether there is an alarm at its place without it."""
    without, with_bug = (lines_of(bug, text) for text in bug.texts())
    return len(with_bug) > len(without), any(abs(line - bug.edit.line) <= 2 for line in without)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--rule", action="append", choices=sorted(MUTATORS))
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="show the change of each bug that is missed")
    given = parser.parse_args()

    rules = given.rule or sorted(MUTATORS)
    no_bugs = tomllib.loads(NO_BUGS.read_text("utf-8"))["no-bug"]
    candidates = [bug for bug in places(given.corpus.resolve(), rules) if bug.name not in no_bugs]
    totals = [0, 0, 0]
    for rule in rules:
        drawn = draw([bug for bug in candidates if bug.rule == rule], given.cases)
        with ThreadPoolExecutor(given.jobs) as pool:
            judged = list(zip(drawn, pool.map(judge, drawn), strict=True))
        found, alarms = (sum(answer[which] for _, answer in judged) for which in (0, 1))
        totals = [total + more for total, more in zip(totals, (found, len(drawn), alarms), strict=True)]
        print(f"{rule}: {found} of {len(drawn)} found, {alarms} alarms on originals", flush=True)
        for bug, (is_found, is_alarm) in judged if given.show else ():
            if is_alarm or not is_found:
                print(f"--- {'alarm' if is_alarm else 'missed'}\n{bug.change()}\n")
    print(f"all: {totals[0]} of {totals[1]} found, {totals[2]} alarms on originals")
    return 0


if __name__ == "__main__":
    sys.exit(main())
