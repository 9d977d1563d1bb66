"""How long the files of well-known libraries take, each line of them: called by ``speed.py --libraries``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import Distribution, distributions
from pathlib import Path

from measure import run

from dllint.cli.project import find_project
from dllint.collector import relax_collector
from dllint.config.load import ConfigLoader
from dllint.config.settings import Settings
from dllint.processes import shifts_of
from dllint.worker import Worker, in_deep_thread

BUDGET = 2e-3  # seconds for a line, start-up and what is read of imported files included
BUDGET_OF_MEMORY = 400e6  # bytes
SHORTEST = 100  # lines: shorter files count as if they had so many
SHOWN = 5
HEADING = """\
## Libraries

What well-known libraries cost, all files of one after the other, when `bench/speed.py --libraries` ran last: CPU time
for a line; the file that took most for a line of it, where one of fewer than 100 lines counts as one of 100; files that
were not followed to their end; and the largest resident size of a process. The budget is 2 ms for a line, 400 MB, and
no file that does not come to its end.
"""


@dataclass(frozen=True)
class File:
    """What one file took; ``limited`` says that the analysis was not followed to its end."""

    path: str
    lines: int
    seconds: float
    limited: bool

    @property
    def each(self) -> float:
        """Seconds for a line."""
        return self.seconds / max(self.lines, SHORTEST)


def analyze(package: Path) -> Iterator[File]:
    """Analyze a library's files one after the other, as a project of its own, in as many processes as a run takes."""
    os.chdir(package.parent)
    for part in find_project([package.name], ConfigLoader(isolated=True)).parts:
        for shift in shifts_of(part.files, 1):
            with ProcessPoolExecutor(1) as pool:
                yield from pool.submit(_analyze_shift, shift, part.settings, package.parent).result()


def _analyze_shift(files: Sequence[Path], settings: Settings, folder: Path) -> list[File]:
    relax_collector()
    worker = Worker(settings, folder)
    measured: list[File] = []
    for file in files:
        began = time.process_time()
        findings = in_deep_thread(partial(worker.analyse_next, file), lambda _: None).analysis.findings
        spent = time.process_time() - began
        lines = file.read_bytes().count(b"\n")
        limited = any(finding.code == "DL003" for finding in findings)
        measured.append(File(str(file.relative_to(folder)), lines, spent, limited))
    return measured


def table(folder: Path) -> Iterator[str]:
    """The lines of a table, one row for each library: each lies in a folder of its own, so that it imports no other."""
    yield "| library | lines | a line, on average | most, in a file | not to their end | memory | |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    every: list[File] = []
    for package, version in _packages(folder):
        done = run([sys.executable, __file__, "--package", package], Path.cwd(), os.environ)
        files = [File(**json.loads(line)) for line in done.output.splitlines()]
        if done.exit_code or not files:
            raise SystemExit(f"{package} was not analyzed to its end")
        lines = sum(file.lines for file in files)
        each, most = done.cpu / lines, max(file.each for file in files)
        limited = sum(file.limited for file in files)
        passed = each <= BUDGET and done.memory <= BUDGET_OF_MEMORY and not limited
        yield (
            f"| {package.name} {version} | {lines:,} | {each * 1e6:.0f} µs | {most * 1e3:.2f} ms | {limited}"
            f" | {done.memory / 1e6:.0f} MB | {'pass' if passed else '**fail**'} |"
        )
        every += files
    yield "\nThe most expensive files, for a line of theirs:\n"
    for file in sorted(every, key=lambda file: -file.each)[:SHOWN]:
        yield f"- `{file.path}`: {file.lines:,} lines, {file.seconds:.2f} s"


def _packages(folder: Path) -> Iterator[tuple[Path, str]]:
    for home in sorted(each.resolve() for each in folder.iterdir()):
        for each in distributions(path=[str(home)]):
            package = home / _top_level(each)
            if package.is_dir():
                yield package, each.version


def _top_level(distribution: Distribution) -> str:
    """The package that a distribution installs: under its own name, but for the hyphens."""
    return distribution.metadata["Name"].replace("-", "_").lower()


def main() -> int:
    """Print the table for one folder, or what each file of one package took, as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--folder", type=Path, help="what `pip install --no-deps --target FOLDER/NAME NAME` has filled")
    which.add_argument("--package", type=Path, help="the folder of one package")
    given = parser.parse_args()
    if given.package:
        for file in analyze(given.package.resolve()):
            print(json.dumps(asdict(file)), flush=True)
    else:
        for line in table(given.folder.resolve()):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
