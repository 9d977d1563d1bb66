"""Whatever is typed, the server ends with what a fresh check finds.

``DLLINT_EDITS`` sets the number of edits for a longer session than the suite has time for, such as 10,000.
"""

from __future__ import annotations

import gc
import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from server_support import Editor, codes, run
from test_server_diagnostics import DEMO

from dllint.config.load import ConfigLoader
from dllint.config.resolve import resolve
from dllint.files.source import source_from_text
from dllint.findings import Finding
from dllint.runner import lint_files
from dllint.server.checker import tidy
from dllint.server.moving import moved
from dllint.server.session import Result, Session

EDITS = int(os.environ.get("DLLINT_EDITS", "300"))
STEPS = 30

NAMES = ("train.py", "models.py", "engine.py", "data.py", "finetune.py", "pretrain.py")
SNIPPETS = st.sampled_from(
    [
        "", "\n", "x", "(", ")", ":", '"""', "    ", "# dllint: ignore[DL101]", "optimizer.step()\n", "\f", "\u2028",
        "softmax(dim=1)", ".detach()", "import torch\n", "from models import *\n", "def f():\n", "\r", "é😀",
    ]
)  # fmt: skip


class Desk:
    """One session, which goes on from example to example."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = {folder / name: (DEMO / name).read_text("utf-8") for name in NAMES}
        self.settings = resolve(ConfigLoader().load(folder))
        self.session = Session(self.settings, folder)
        self.texts: dict[Path, str] = {}
        self.results: dict[Path, Result] = {}
        self.objects: list[int] = []  # that are alive behind each example


class Typing(RuleBasedStateMachine):
    """Edits of the demo project."""

    desk: Desk

    @initialize()
    def open(self) -> None:
        desk = self.desk
        self.folder, self.files, self.settings, self.session = desk.folder, desk.files, desk.settings, desk.session
        self.texts, self.results = desk.texts, desk.results

    @rule(name=st.sampled_from(NAMES))
    def open_or_restore(self, name: str) -> None:
        """Open a file, or take back all that was typed in it."""
        self.texts[self.folder / name] = self.files[self.folder / name]

    @rule(name=st.sampled_from(NAMES))
    def close(self, name: str) -> None:
        self.texts.pop(self.folder / name, None)
        self.results.pop(self.folder / name, None)

    @rule(name=st.sampled_from(NAMES), start=st.floats(0, 1), length=st.integers(0, 60), new=SNIPPETS)
    def edit(self, name: str, start: float, length: int, new: str) -> None:
        path = self.folder / name
        text = self.texts.get(path, self.files[path])
        at = int(start * len(text))
        self.texts[path] = text[:at] + new + text[at + length :]

    @rule(name=st.sampled_from(NAMES), line=st.integers(0, 80), comment=SNIPPETS)
    def add_line(self, name: str, line: int, comment: str) -> None:
        """Add a line that leaves the file whole, most of the time."""
        path = self.folder / name
        lines = self.texts.get(path, self.files[path]).split("\n")
        lines.insert(line, "# " + comment)
        self.texts[path] = "\n".join(lines)

    @rule(name=st.sampled_from(NAMES), line=st.integers(0, 80))
    def delete_line(self, name: str, line: int) -> None:
        path = self.folder / name
        lines = self.texts.get(path, self.files[path]).split("\n")
        self.texts[path] = "\n".join(lines[:line] + lines[line + 1 :])

    @invariant()
    def check(self) -> None:
        if hasattr(self, "session"):
            own = sorted(self.texts)
            self.results.update(self.session.check(dict(self.texts), own, lambda: False))

    def teardown(self) -> None:
        """Mend what is broken, and compare with a check that starts from nothing."""
        if not hasattr(self, "session"):
            return
        for path, text in self.texts.items():
            broken = any(finding.code == "DL001" for finding in self.results[path].findings)
            if broken or self.results[path].source is None:
                self.texts[path] = self.files[path]
            assert self.results[path].source is None or self.results[path].source.text == text
        self.check()
        report = lint_files(sorted(self.texts), self.settings, jobs=1, cache=False, overlay=self.texts)
        shown = [finding for result in self.results.values() for finding in result.findings]
        assert set(map(repr, shown)) ^ set(map(repr, report.findings)) == set()
        assert len(shown) == len(report.findings)
        tidy()
        self.desk.objects.append(len(gc.get_objects()))


@pytest.mark.slow
def test_a_session_of_random_edits_ends_like_a_fresh_check(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_bytes((DEMO / name).read_bytes())

    class Here(Typing):
        desk = Desk(tmp_path)

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Here,
        settings=settings(
            max_examples=max(1, EDITS // STEPS),
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=EDITS <= 300,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert_flat(Here.desk.objects)


def test_the_server_lives_through_a_session_of_random_edits(tmp_path: Path) -> None:
    chance = random.Random(EDITS)
    files = {name: (DEMO / name).read_text("utf-8") for name in NAMES}
    texts = dict(files)
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")

    async def scenario(editor: Editor) -> None:
        for name in NAMES:
            editor.open(name)
        sizes: list[int] = []
        for number in range(EDITS):
            name = chance.choice(NAMES)
            if chance.random() < 0.1:
                texts[name] = files[name]
                editor.change(name, texts[name])
            else:
                texts[name] = type_something(editor, name, texts[name], chance)
            if number % 20 == 0:
                await editor.diagnostics(name)
                sizes.append(memory_of(editor))
        for name in NAMES:
            editor.change(name, files[name])
        settings = resolve(ConfigLoader().load(tmp_path))
        report = lint_files([tmp_path / name for name in NAMES], settings, jobs=1, cache=False)
        for name in NAMES:
            found = [each for each in report.findings if Path(each.location.path).name == name]
            wanted = sorted((each.location.line, each.code) for each in found)
            assert sorted((line, code) for code, line in codes(await editor.diagnostics(name))) == wanted
        assert_flat(sizes)

    run(scenario, tmp_path, seconds=max(240.0, EDITS / 5))


def assert_flat(sizes: list[int]) -> None:
    """Sizes do not grow, once there are enough of them to tell."""
    if EDITS >= 2000:
        tenth = len(sizes) // 10
        early, late = max(sizes[tenth : 3 * tenth]), max(sizes[-2 * tenth :])
        print(f"\n{EDITS} edits: {early} early, {late} late")
        assert late < 1.15 * early, sizes


def type_something(editor: Editor, name: str, text: str, chance: random.Random) -> str:
    """Replace a part of a line in the editor. Returns the text as it is then."""
    lines = text.split("\n")
    row = chance.randrange(len(lines))
    start = chance.randrange(len(lines[row]) + 1)
    end = min(len(lines[row]), start + chance.choice((0, 0, 1, 20)))
    new = chance.choice(
        ["", "\n", "x", "(", ")", '"""', "    ", "# dllint: ignore[DL101]", ".detach()", "import torch\n"]
    )
    editor.edit(name, row, start, end, new)
    lines[row] = lines[row][:start] + new + lines[row][end:]
    return "\n".join(lines)


def memory_of(editor: Editor) -> int:
    """The resident memory of the server in kB; nothing where that cannot be told."""
    server = editor.client._server
    status = Path(f"/proc/{server.pid if server is not None else 0}/status")
    lines = status.read_text().splitlines() if status.exists() else ["VmRSS: 1"]
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


@given(st.text("ab\n(", min_size=1, max_size=40), st.text("ab\n(", max_size=40), st.integers(0, 40), st.integers(0, 9))
def test_a_finding_moves_with_its_text_or_goes(before: str, after: str, start: int, length: int) -> None:
    old, new = source_from_text(before, Path("/a.py")), source_from_text(after, Path("/a.py"))
    start = min(start, len(before))
    end = min(start + length, len(before))
    place = old.location_of(start, end)
    finding = Finding("DL101", "a", "b", place, "error", "correctness")
    for found in moved([finding], old, new):
        first, last = new.span(found.location)
        assert after[first:last] == before[start:end]
