"""How many bugs are found that are written, one at a time, into real code that has none of their kind.

Every mutator in ``mutate_*.py`` writes the bug of one rule. Of all places in a corpus where it can, some are drawn, the
same ones at every run and as many different repositories as there are. dllint must report the rule once more than in
the code as it stands; what it reports there already, at that place, is an alarm on an original.

    python bench/inject.py CORPUS...                     # all rules, over the folders of repositories in CORPUS
    python bench/inject.py CORPUS... --rule DL825 --show # one rule, with the change of each bug that is missed
    python bench/inject.py CORPUS... --write             # and the rows of the table in docs/recall.md

Which drawn places are no bugs, says ``injected.toml`` with the reason: those are left out of the count. A bug that is
found as a question (``--possible``) is found, and is counted beside the others; a question is no alarm.
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

import mutate_axes
import mutate_metrics
import mutate_modules
import mutate_scripts
import tomllib
from mutating import MUTATORS, Code, Edit, Repository

CASES = 8
"""As many places are drawn for a rule."""

NO_BUGS = Path(__file__).with_name("injected.toml")
_WRITERS = (mutate_axes, mutate_metrics, mutate_modules, mutate_scripts)  # which enter their mutators
PAGE = Path(__file__).resolve().parent.parent / "docs" / "recall.md"
_BEGIN, _END = "<!-- injected: begin -->\n", "<!-- injected: end -->\n"
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


def places(corpora: list[Path], rules: list[str]) -> Iterator[Bug]:
    """Every place of the repositories in some folders at which the bugs can be written."""
    folders = (folder for corpus in corpora for folder in corpus.resolve().iterdir() if folder.is_dir())
    for repository in sorted(folders, key=lambda folder: folder.name):
        whole = Repository(repository)
        for path in sorted(repository.rglob("*.py")):
            if not path.is_file() or path.stat().st_size > _MAX_SIZE or _is_test(path):
                continue
            try:
                code = Code(path.read_text("utf-8"), path, whole)
            except (SyntaxError, UnicodeDecodeError, ValueError):
                continue  # nothing can be written into what is no Python of today
            for rule in rules:
                for edit in MUTATORS[rule](code):
                    yield Bug(rule, repository, path.relative_to(repository), edit)


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_") or not {"test", "tests"}.isdisjoint(path.parts)


def is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def draw(bugs: list[Bug], number: int) -> list[Bug]:
    """Some of the bugs of a rule: one of each repository, then a second one of each, and so on; one for each line."""
    seen: dict[Path, int] = {}
    ranked = []
    for bug in sorted(
        {bug.name: bug for bug in bugs}.values(), key=lambda bug: hashlib.sha256(bug.name.encode()).digest()
    ):
        seen[bug.repository] = seen.get(bug.repository, 0) + 1
        ranked.append((seen[bug.repository], bug))
    ordered = (bug for _, bug in sorted(ranked, key=lambda pair: pair[0]))
    return list(islice((bug for bug in ordered if is_python(bug.texts()[1])), number))


@dataclass(frozen=True)
class Count:
    """How many bugs of a rule were written, and what became of them."""

    rule: str
    cases: int = 0
    found: int = 0
    questions: int = 0  # among those that were found
    alarms: int = 0

    def row(self) -> str:
        return f"| {self.rule} | {self.cases} | {self.found} | {self.questions} | {self.alarms} |"

    def __str__(self) -> str:
        as_questions = f" ({self.questions} as questions)" if self.questions else ""
        return f"{self.rule}: {self.found} of {self.cases} found{as_questions}, {self.alarms} alarms on originals"


def findings_of(bug: Bug, text: str) -> list[tuple[int, bool]]:
    """What the rule reports, wherever in the repository, once the file has this text: lines, and whether it only asks.

    A line of another file is -1: nothing was changed there.
    """
    options = ["--isolated", "--no-cache", "--jobs", "1", "--notes", "--possible", "--select", bug.rule]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / bug.repository.name
        subprocess.run(["cp", "-r", "--reflink=auto", bug.repository, target], check=True)
        (target / bug.path).write_text(text, "utf-8")
        command = [sys.executable, "-m", "dllint", "check", *options, "--output-format", "json", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode > 1:
        raise RuntimeError(f"{bug.name}: {done.stderr[-500:]}")
    found = [finding for finding in json.loads(done.stdout) if finding["code"] == bug.rule]
    return [
        (finding["line"] if Path(finding["path"]).match(str(bug.path)) else -1, finding["confidence"] == "possible")
        for finding in found
    ]


def judge(bug: Bug) -> Count:
    """Whether the bug is found, by what, and whether there is an alarm at its place without it."""
    without, with_bug = (findings_of(bug, text) for text in bug.texts())
    is_found = len(with_bug) > len(without)
    is_reported = sum(not asks for _, asks in with_bug) > sum(not asks for _, asks in without)
    is_alarm = any(abs(line - bug.edit.line) <= 2 and not asks for line, asks in without)
    return Count(bug.rule, 1, is_found, is_found and not is_reported, is_alarm)


def summed(name: str, counts: list[Count]) -> Count:
    columns = [(each.cases, each.found, each.questions, each.alarms) for each in counts]
    return Count(name, *(sum(column) for column in zip(*columns, strict=True))) if columns else Count(name)


def write(counts: list[Count]) -> None:
    """Put the rows of some rules into the table of the page, and sum them up with those that stand there."""
    before, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    table, _, after = rest.partition(_END)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    known = {row[0]: Count(row[0], *map(int, row[1:])) for row in cells if row[0] in MUTATORS}
    rows = [count for _, count in sorted((known | {count.rule: count for count in counts}).items())]
    head = ["| rule | cases | found | as questions | alarms on originals |", "| --- | --- | --- | --- | --- |"]
    lines = [*head, *(each.row() for each in (*rows, summed("**all**", rows)))]
    PAGE.write_text(before + _BEGIN + "\n".join(lines) + "\n" + _END + after, "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, nargs="+")
    parser.add_argument("--rule", action="append", choices=sorted(MUTATORS))
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="show the change of each bug that is missed")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    given = parser.parse_args()

    rules = given.rule or sorted(MUTATORS)
    no_bugs = tomllib.loads(NO_BUGS.read_text("utf-8"))["no-bug"]
    candidates = [bug for bug in places(given.corpus, rules) if bug.name not in no_bugs]
    counts = []
    for rule in rules:
        drawn = draw([bug for bug in candidates if bug.rule == rule], given.cases)
        with ThreadPoolExecutor(given.jobs) as pool:
            judged = list(zip(drawn, pool.map(judge, drawn), strict=True))
        counts.append(summed(rule, [count for _, count in judged]))
        print(counts[-1], flush=True)
        if given.write:
            write(counts[-1:])
        for bug, count in judged if given.show else ():
            if count.alarms or not count.found:
                print(f"--- {'alarm' if count.alarms else 'missed'}\n{bug.change()}\n")
    print(summed("all", counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
