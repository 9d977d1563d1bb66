"""Measure dllint against its budgets, and print a table of them in Markdown. See README.md beside this file."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import libraries
from generate import script
from measure import Run, best, run

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "performance.md"
DLLINT = (sys.executable, "-m", "dllint")
TIMES = 7  # a short run is repeated so often
HOOKS = 25  # files, spread over the corpus, that a hook is run on

INTRODUCTION = """\
# Performance

What dllint may cost, and what it did cost when `bench/speed.py` ran last. Times are CPU seconds, user and system, of
the program and all processes it starts; of repeated short runs the best one counts. `bench/README.md` says how to run
it.

"""


@dataclass(frozen=True)
class Row:
    """A line of the table; ``passed`` is ``None`` where there is no budget."""

    what: str
    measured: str
    budget: str = ""
    passed: bool | None = None

    def __str__(self) -> str:
        verdict = {True: "pass", False: "**fail**", None: ""}[self.passed]
        return f"| {self.what} | {self.measured} | {self.budget} | {verdict} |"


class Bench:
    """The measurements, made in a scratch folder.

    Args:
        scratch: an empty folder.
        corpus: the folder that README.md describes, if there is one.
        torchfix, semgrep: programs to compare with, if they are there.
    """

    def __init__(self, scratch: Path, corpus: Path | None, torchfix: str | None, semgrep: str | None) -> None:
        self._scratch = scratch
        self._corpus = corpus
        self._torchfix = torchfix
        self._semgrep = semgrep
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._environment = {**kept, "PYTHONPYCACHEPREFIX": str(scratch / "bytecode")}
        self._best: dict[str, Run] = {}

    def rows(self) -> Iterator[Row]:
        """Measure everything, line by line."""
        self._dllint(".", times=1)  # compiles the byte code
        yield self._version()
        yield self._file(300, 0.3)
        yield self._file(1500, 0.6)
        yield from self._long_file()
        if self._corpus:
            yield from self._over_corpus(self._corpus)

    def _dllint(self, *arguments: str | Path, times: int = TIMES, cwd: Path | None = None) -> Run:
        done = best((*DLLINT, *arguments), cwd or self._scratch, self._environment, times)
        if done.exit_code not in (0, 1):
            raise SystemExit(f"dllint {' '.join(map(str, arguments))} exited with {done.exit_code}")
        return done

    def _version(self) -> Row:
        done = self._dllint("--version")
        return Row("`dllint --version`", f"{done.cpu * 1000:.0f} ms", "60 ms", done.cpu <= 0.06)

    def _file(self, lines: int, budget: float) -> Row:
        done = self._lint_generated(lines)
        what = f"a training script of {lines:,} lines, all rules"
        return Row(what, f"{done.cpu * 1000:.0f} ms", f"{budget * 1000:.0f} ms", done.cpu <= budget)

    def _lint_generated(self, lines: int, times: int = TIMES) -> Run:
        name = f"train{lines}.py"
        (self._scratch / name).write_text(script(lines), "utf-8")
        return self._dllint("check", "--no-cache", "--select", "ALL", "--output-format", "concise", name, times=times)

    def _long_file(self) -> Iterator[Row]:
        """Whether a line of a very long file costs more than one of a long file, start-up aside."""
        (self._scratch / "empty.py").write_text("import torch\n", "utf-8")
        start = self._dllint("check", "--no-cache", "--output-format", "concise", "empty.py").cpu
        long, longer = self._lint_generated(1000), self._lint_generated(20_000, times=4)
        each, each_longer = (long.cpu - start) / 1000, (longer.cpu - start) / 20_000
        ratio = each_longer / each
        measured = f"{ratio:.2f} times ({each_longer * 1e6:.0f} against {each * 1e6:.0f} µs)"
        complete = "DL003" not in longer.output
        yield Row("a line of a 20,000-line file against one of a 1,000-line file", measured, "2 times", ratio <= 2)
        yield Row("the 20,000-line file is analyzed to the end", "yes" if complete else "no", "yes", complete)

    def _over_corpus(self, corpus: Path) -> Iterator[Row]:
        copy = self._copy(corpus)
        files = sorted(copy.rglob("*.py"))
        lines = sum(file.read_bytes().count(b"\n") for file in files)
        yield Row("the corpus", f"{len(files)} files, {lines:,} lines of Python")
        cold = self._dllint("--statistics", cwd=copy, times=1)
        again = self._dllint("--statistics", cwd=copy, times=3)
        yield Row("first run over it", _times(cold))
        others = (("TorchFix", self._torchfix, 15.0, ["."]), ("Semgrep", self._semgrep, 1.0, self._semgrep_options()))
        for name, program, factor, options in others:
            if program:
                done = run([program, *options], copy, self._environment)
                ratio = done.cpu / cold.cpu
                measured = f"{_times(done)}: {ratio:.1f} times dllint's"
                yield Row(f"{name} over it", measured, f"more than {factor:g} times", ratio > factor)
        yield Row("second run over it", _times(again), "0.5 s", again.cpu <= 0.5)
        memory = max(cold.memory, again.memory) / 2**20
        yield Row("memory of a process, at most", f"{memory:.0f} MiB", "400 MB", memory * 2**20 <= 400e6)
        yield from self._hooks(copy, files)

    def _hooks(self, copy: Path, files: list[Path]) -> Iterator[Row]:
        """What a hook costs that is given one file, which means that file and all that import it."""
        (copy / "pyproject.toml").write_text("[tool.dllint]\n")  # what marks it as one project
        firsts, seconds = [], []
        for file in files[:: len(files) // HOOKS]:
            shutil.rmtree(copy / ".dllint_cache", ignore_errors=True)
            firsts.append(self._dllint("check", file, cwd=copy, times=1))
            seconds.append(self._dllint("check", file, cwd=copy, times=2))
        for what, runs, budget in (("first", firsts, 1.0), ("second", seconds, 0.3)):
            runs.sort(key=lambda run: run.cpu)
            middle, slowest = runs[len(runs) // 2], runs[-1]
            passed = max(middle.cpu, middle.wall) <= budget
            yield Row(
                f"{what} run of a hook over one file, median of {len(runs)}", _times(middle), f"{budget:g} s", passed
            )
            yield Row(f"{what} run of a hook, the slowest", _times(slowest))

    def _copy(self, corpus: Path) -> Path:
        """The Python files and notebooks of the corpus: nothing is written to it, and no configuration applies."""
        copy = self._scratch / "corpus"
        for path in corpus.rglob("*"):
            if path.suffix in (".py", ".ipynb") and path.is_file():
                target = copy / path.relative_to(corpus)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        if not copy.is_dir():
            raise SystemExit(f"no Python files in {corpus}")
        (copy / ".semgrepignore").write_text("")  # else it leaves out tests
        return copy

    @staticmethod
    def _semgrep_options() -> list[str]:
        return [
            "scan",
            "--metrics=off",
            "--disable-version-check",
            "--no-git-ignore",
            f"--config={HERE / 'semgrep.yml'}",
            ".",
        ]


def _times(done: Run) -> str:
    return f"{done.cpu:.2f} s ({done.wall:.2f} s on the clock)"


def machine() -> str:
    """The machine and how busy it is, in one sentence."""
    name = platform.processor() or platform.machine()
    if (info := Path("/proc/cpuinfo")).exists():
        models = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        name = models[0] if models else name
    load = f", load {os.getloadavg()[0]:.1f} before the run" if hasattr(os, "getloadavg") else ""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{name}, {os.cpu_count()} processors, {platform.system()}, {python}{load}."


def main() -> int:
    """Measure, print, and say by the exit code whether all budgets were kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torchfix", metavar="PATH", help="the program of TorchFix, to compare with")
    parser.add_argument("--semgrep", metavar="PATH", help="the program of Semgrep, to compare with")
    parser.add_argument("--libraries", metavar="FOLDER", type=Path, help="only measure the libraries in it, each file")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    given = parser.parse_args()
    if given.libraries:
        _measure_libraries(given.libraries.resolve(), write=given.write)
        return 0
    corpus = os.environ.get("BENCH_CORPUS")
    head = f"{machine()}\n\n| what | measured | budget | |\n| --- | --- | --- | --- |"
    print(head)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(Path(scratch), Path(corpus).resolve() if corpus else None, given.torchfix, given.semgrep)
        for row in bench.rows():
            print(row, flush=True)
            rows.append(row)
    if given.write:
        PAGE.write_text("\n".join((INTRODUCTION + head, *map(str, rows))) + "\n" + _other_sections(), "utf-8")
    return 0 if all(row.passed is not False for row in rows) else 1


def _measure_libraries(folder: Path, *, write: bool) -> None:
    """Print how long the files of libraries take, and put that into the page as a section of its own."""
    lines = [libraries.HEADING, machine(), ""]
    for line in libraries.table(folder):
        print(line, flush=True)
        lines.append(line)
    if write:
        before = PAGE.read_text("utf-8")
        head, _, rest = before.partition(f"\n{libraries.HEADING}")
        _, heading, after = rest.partition("\n## ")
        PAGE.write_text(head + "\n" + "\n".join(lines) + "\n" + heading + after, "utf-8")


def _other_sections() -> str:
    """What other benchmarks have written into the page, below the table: each has a heading of its own."""
    before = PAGE.read_text("utf-8") if PAGE.exists() else ""
    _, heading, rest = before.partition("\n## ")
    return heading + rest


if __name__ == "__main__":
    sys.exit(main())
