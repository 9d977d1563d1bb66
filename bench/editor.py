"""How long an editor waits: a recorded editing session, keystroke by keystroke, against the real server.

A training script of 1,000 lines is open together with three files that have its models. Each keystroke is sent as an
incremental change, and the time is taken until the diagnostics for that version are there.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import gc
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from generate import script
from lsprotocol import types
from pygls.lsp.client import LanguageClient
from speed import PAGE, machine

from dllint.config.load import ConfigLoader
from dllint.config.resolve import resolve
from dllint.server import session as analysis
from dllint.server.text import Text

HEADING = "## Editor"
LINES = 1_000
BUDGET = 0.150
WARM_UP = 3
SETTLED = 3.0  # seconds in which everything that was asked for is done
EVERYTHING = types.Range(types.Position(0, 0), types.Position(1_000_000, 0))
BACK = "\b"

# The session: the file, a line of it that begins like this (the first one), and what is typed behind that line.
SESSION = (
    ("train.py", "    optimizer = torch.optim.AdamW(", "\n    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)"),
    ("train.py", "def accuracy(", BACK * 10 + ", labels, top=1):"),
    ("models0.py", "        features = self.features(x)", "\n        features = F.relu(features)"),
    ("train.py", "def seed_everything(", "\n    # seeds every generator"),
    ("models1.py", "        logits = self.head(", "\n        logits = logits.softmax(dim=1)"),
    ("models1.py", "        logits = logits.softmax(", BACK * 38),
    ("train.py", "    start, best = 0", "\n    history = []"),
    ("models2.py", "        self.stem = nn.Conv2d(", "\n        self.act = nn.ReLU()"),
)


@dataclass
class Timings:
    """For each round the seconds of each keystroke, and the memory of the server behind it, in MB."""

    waits: list[list[float]] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    def best(self) -> list[float]:
        """The best time of each keystroke: what disturbs a run only ever makes it slower."""
        return [min(each) for each in zip(*self.waits, strict=True)]


def quantile(values: list[float], percent: int) -> float:
    """A percentile."""
    return statistics.quantiles(values, n=100)[percent - 1]


def write_project(folder: Path) -> dict[str, str]:
    """The files of the session: a script of 1,000 lines whose models are in three other files."""
    text = script(LINES + 400)
    lines = text.splitlines(keepends=True)
    models: list[list[str]] = [[], [], []]
    names: list[list[str]] = [[], [], []]
    header = "import torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.ClassDef) and node.name.startswith(("Block", "Net")):
            number = int(node.name.lstrip("BlockNet")) % 3
            models[number].insert(0, "".join(lines[node.lineno - 1 : node.end_lineno]) + "\n\n")
            names[number].insert(0, node.name)
            del lines[node.lineno - 1 : (node.end_lineno or 0) + 2]
    imports = "".join(f"from models{n} import {', '.join(sorted(names[n]))}\n" for n in range(3))
    train = "".join(lines).replace(
        "from torchvision import transforms\n", f"from torchvision import transforms\n\n{imports}"
    )
    files = {"train.py": train, **{f"models{n}.py": header + "".join(models[n]).rstrip() + "\n" for n in range(3)}}
    for name, content in files.items():
        (folder / name).write_text(content)
    return files


def keystrokes(files: dict[str, str]) -> Iterator[tuple[str, types.Range, str]]:
    """Every keystroke of the session as an edit: the file, the range that is replaced, and the new text."""
    texts = {name: text.split("\n") for name, text in files.items()}
    for name, anchor, typed in SESSION:
        lines = texts[name]
        row = next(number for number, line in enumerate(lines) if line.startswith(anchor))
        column = len(lines[row])
        for key in typed:
            if key == BACK and column == 0:
                end, lines[row - 1 : row + 1] = len(lines[row - 1]), [lines[row - 1] + lines[row]]
                yield name, types.Range(types.Position(row - 1, end), types.Position(row, 0)), ""
                row, column = row - 1, end
            elif key == BACK:
                lines[row] = lines[row][: column - 1] + lines[row][column:]
                yield name, types.Range(types.Position(row, column - 1), types.Position(row, column)), ""
                column -= 1
            else:
                here = types.Position(row, column)
                before, after = lines[row][:column], lines[row][column:]
                lines[row : row + 1] = [before, after] if key == "\n" else [before + key + after]
                row, column = (row + 1, 0) if key == "\n" else (row, column + 1)
                yield name, types.Range(here, here), key


class Session:
    """A client that waits for the diagnostics of each version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = LanguageClient("bench", "1")
        self.versions: dict[str, int] = {}
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(params)

    async def start(self) -> None:
        await self.client.start_io(sys.executable, "-m", "dllint", "server")
        capabilities = types.ClientCapabilities()
        params = types.InitializeParams(capabilities, root_uri=self.folder.as_uri())
        await self.client.initialize_async(params)
        self.client.initialized(types.InitializedParams())

    async def open(self, name: str, text: str) -> None:
        uri = (self.folder / name).as_uri()
        self.versions[uri] = 1
        item = types.TextDocumentItem(uri, "python", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        await self.wait(uri)

    async def press(self, name: str, where: types.Range, text: str) -> float:
        """Make one edit. Returns the seconds until its diagnostics are there."""
        began = time.perf_counter()
        await self.wait(self.send(name, where, text))
        return time.perf_counter() - began

    def send(self, name: str, where: types.Range, text: str) -> str:
        """Make one edit. Returns the URI."""
        uri = (self.folder / name).as_uri()
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        change = types.TextDocumentContentChangePartial(where, text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        return uri

    async def wait(self, uri: str) -> None:
        while True:
            published = await asyncio.wait_for(self.published.get(), 60)
            if published.uri == uri and published.version == self.versions[uri]:
                return

    @property
    def process(self) -> Path:
        assert self.client._server is not None
        return Path("/proc", str(self.client._server.pid))

    def memory(self) -> int:
        """The resident memory of the server in MB (Linux only)."""
        line = next(line for line in (self.process / "status").read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) // 1024

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()


async def measure(pause: float, rounds: int) -> Timings:
    """Run the session so many times, in one server."""
    timings = Timings()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_project(folder)
        edits = list(keystrokes(files))
        session = Session(folder)
        await session.start()
        for file, text in reversed(files.items()):
            await session.open(file, text)
        for edit in edits[:WARM_UP]:
            await session.press(*edit)
        for _ in range(rounds):
            for file, text in files.items():  # back to the start
                session.send(file, EVERYTHING, text)
            await asyncio.sleep(SETTLED)
            waits: list[float] = []
            for edit in edits:
                await asyncio.sleep(pause)
                waits.append(await session.press(*edit))
            timings.waits.append(waits)
            timings.memory.append(session.memory())
        await session.stop()
    return timings


def cpu_seconds() -> list[float]:
    """The CPU seconds of the check of each keystroke, in this process: the edited file and all that depends on it."""
    spent: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_project(folder)
        texts = {folder / file: Text(text, "utf-16") for file, text in files.items()}
        session = analysis.Session(resolve(ConfigLoader().load(folder)), folder)

        def check() -> None:
            open_now = {path: text.content for path, text in texts.items()}
            began = time.thread_time()
            list(session.check(open_now, list(open_now), lambda: False))
            spent.append(time.thread_time() - began)

        check()
        gc.collect()
        gc.disable()
        for file, where, typed in keystrokes(files):
            texts[folder / file] = texts[folder / file].replaced(where, typed)
            check()
        gc.enable()
    return spent[1:]


def times(values: list[float]) -> str:
    """Percentiles of some seconds, as cells of a table."""
    return " | ".join(f"{quantile(values, percent) * 1000:.0f} ms" for percent in (50, 95, 99))


def report(timings: Timings, cpu: list[float], lines: int) -> str:
    """The section of the page: what was measured, on which machine."""
    rounds = len(timings.waits)
    every = [wait for waits in timings.waits for wait in waits]
    reached = quantile(timings.best(), 95)
    verdict = "pass" if reached <= BUDGET else "**fail**"
    what = f"p95 from keystroke to diagnostics, best of {rounds} rounds"
    return f"""\
{HEADING}

What an editor waits for, when `bench/editor.py` ran last: {len(cpu)} keystrokes in a script of {lines:,} lines and its
models in three other open files, from the keystroke to the diagnostics of that version. Time on the clock, with
whatever else the machine was doing; the last line is the CPU time of a check, with all open files that depend on the
edit.

{machine()}

| | p50 | p95 | p99 |
| --- | --- | --- | --- |
| best of {rounds} rounds | {times(timings.best())} |
| every keystroke | {times(every)} |
| CPU time of a check | {times(cpu)} |

| what | measured | budget | |
| --- | --- | --- | --- |
| {what} | {reached * 1000:.0f} ms | {BUDGET * 1000:.0f} ms | {verdict} |
| memory after each round | {", ".join(f"{size} MB" for size in timings.memory)} |  |  |
"""


def write(section: str) -> None:
    """Put the section into the page, in place of the one before."""
    parts = re.split(r"(?m)^(?=## )", PAGE.read_text("utf-8"))
    kept = [part.strip("\n") for part in parts if not part.startswith(f"{HEADING}\n")]
    PAGE.write_text("\n\n".join([*kept, section.strip("\n")]) + "\n", "utf-8")


def main() -> int:
    """Measure, print, and say by the exit code whether the budget was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pause", type=float, default=0.1, metavar="SECONDS", help="between two keystrokes")
    parser.add_argument("--rounds", type=int, default=3, help="how often the session is played")
    parser.add_argument("--write", action="store_true", help=f"put the result into {PAGE.name}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        lines = write_project(Path(scratch))["train.py"].count("\n")
    timings = asyncio.run(measure(given.pause, given.rounds))
    section = report(timings, cpu_seconds(), lines)
    print(section)
    if given.write:
        write(section)
    return 0 if quantile(timings.best(), 95) <= BUDGET else 1


if __name__ == "__main__":
    sys.exit(main())
