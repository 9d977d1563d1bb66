"""Whatever is typed, the server ends with what a fresh check finds.

``DLLINT_EDITS`` sets the number of edits for a longer session than the suite has time for, such as 10,000.
"""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from test_server_diagnostics import DEMO

from dllint.config.load import ConfigLoader
from dllint.config.resolve import resolve
from dllint.files.source import source_from_text
from dllint.findings import Finding
from dllint.runner import lint_files
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


class Typing(RuleBasedStateMachine):
    """Edits of the demo project in one session."""

    folder: Path

    @initialize()
    def open(self) -> None:
        self.files = {self.folder / name: (DEMO / name).read_text("utf-8") for name in NAMES}
        self.settings = resolve(ConfigLoader().load(self.folder))
        self.session = Session(self.settings, self.folder)
        self.texts: dict[Path, str] = {}
        self.results: dict[Path, Result] = {}

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


def test_a_session_of_random_edits_ends_like_a_fresh_check(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_bytes((DEMO / name).read_bytes())

    class Here(Typing):
        folder = tmp_path

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
