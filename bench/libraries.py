"""How long the files of well-known libraries take, each line of them: called by ``speed.py --libraries``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from dllint.cli.project import find_project
from dllint.config.load import ConfigLoader
from dllint.worker import Worker, in_deep_thread, relax_collector

BUDGET = 1e-3  # seconds for a line
SHORTEST = 100  # lines: shorter files count as if they had so many
SHOWN = 5
HEADING = """\
## Libraries

What the files of well-known libraries cost, one after the other in one process, when `bench/speed.py --libraries` ran
last: CPU time for a line, where a file of fewer than 100 lines counts as one of 100.
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


def measured(package: Path) -> list[File]:
    """Analyze a library's files one after the other in this process, as a project of its own."""
    os.chdir(package.parent)
    relax_collector()
    found: list[File] = []
    for part in find_project([package.name], ConfigLoader(isolated=True)).parts:
        worker = Worker(part.settings, package.parent)

        def analyse(worker: Worker = worker, files: Sequence[Path] = part.files) -> None:
            worker.analyse(files[0])  # reads what all of them import, which is no matter of the first one's
            for file in files:
                began = time.thread_time()
                findings = worker.analyse(file).analysis.findings
                spent = time.thread_time() - began
                lines = file.read_bytes().count(b"\n")
                limited = any(finding.code == "DL003" for finding in findings)
                found.append(File(str(file.relative_to(package.parent)), lines, spent, limited))

        in_deep_thread(analyse, lambda _: None)
    return found


def table(folder: Path) -> Iterator[str]:
    """The lines of a table, one row for each library: each lies in a folder of its own, so that it imports no other."""
    yield "| library | lines | a line, on average | most, in a file | files over 1 ms a line | ended by a limit |"
    yield "| --- | --- | --- | --- | --- | --- |"
    slow: list[File] = []
    for package, version in _packages(folder):
        files = measured(package)
        lines = sum(file.lines for file in files)
        over = [file for file in files if file.each > BUDGET]
        average = sum(file.seconds for file in files) / max(lines, 1)
        most = max(file.each for file in files)
        limited = sum(file.limited for file in files)
        name = f"{package.name} {version}"
        yield f"| {name} | {lines:,} | {average * 1e6:.0f} µs | {most * 1e3:.2f} ms | {len(over)} | {limited} |"
        slow.extend(over)
    if slow:
        yield "\nThe slowest:\n"
        for file in sorted(slow, key=lambda file: -file.each)[:SHOWN]:
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
    """Print the table for one folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what `pip install --no-deps --target FOLDER/NAME NAME` has filled")
    for line in table(parser.parse_args().folder.resolve()):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
