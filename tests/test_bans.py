"""Data rules, rules with prefixes of their own, and filters: what a project can say without touching dllint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import write

from dllint.cli import main
from dllint.config.load import ConfigLoader
from dllint.config.resolve import resolve
from dllint.findings import CONFIDENCE_RANK, Finding, Location
from dllint.runner import lint_files
from dllint.tiers import asked_for

BAN = '[[ban]]\ncall = "torch.load"\nunless = "weights_only=True"\nmessage = "load weights only"\n'
SOFTMAX = """\
import torch
import torch.nn.functional as F

model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    scores = torch.softmax(model(x), 1)
    loss = F.cross_entropy(scores, y)
    loss.backward()
    optimizer.step()
"""
OWN = '''
"""An exponential.

It grows.
"""
from dllint.api import Rule


class NoExp(Rule):
    code = "ACME101"
    name = "no-exp"
    category = "suspicious"

    def on_library_call(self, event, ctx):
        if event.name == "torch.exp":
            yield ctx.finding(self, event, "an exponential", help="drop it")
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(project: Path, code: str) -> list[Finding]:
    write(project / "a.py", code)
    report = lint_files([project / "a.py"], resolve(ConfigLoader().load(project)), jobs=1, cache=False)
    assert not report.problems
    return [finding for finding in report.findings if finding.code in ("DL006", "DL101", "ACME101")]


class TestBans:
    @pytest.mark.parametrize(
        "code",
        [
            "import torch\ntorch.load(f)\n",
            "import torch as t\nt.load(f)\n",
            "from torch import load\nload(f)\n",
            "def g():\n    from torch import load as read\n    return read(f)\n",
            "import torch\ntorch.load(f, weights_only=False)\n",
            "import torch.nn\nimport torch\nx = [torch.load(f) for f in files]\n",
        ],
    )
    def test_what_is_banned_is_reported(self, project: Path, code: str) -> None:
        write(project / "dllint.toml", BAN)
        [finding] = found(project, code)
        assert (finding.code, finding.message, finding.help) == (
            "DL006",
            "load weights only",
            "pass `weights_only=True`",
        )

    @pytest.mark.parametrize(
        "code",
        [
            "import torch\ntorch.load(f, weights_only=True)\n",
            "import torch\ntorch.load(f, weights_only=flag)\n",
            "import torch\ntorch.load(f, **options)\n",
            "import numpy\nnumpy.load(f)\n",
            "self.load(f)\n",
            "torch.load(f)\n",
            "from mylib import load\nload(f)\n",
            "from . import torch\ntorch.load(f)\n",
            "from torch import load\ndef load(f): ...\nload(f)\n",
            "def read(torch):\n    return torch.load(f)\n",
            "try:\n    from torch import load\nexcept ImportError:\n    from pickle import load\nload(f)\n",
            "import torch\ntorch.load(f)  # dllint: ignore[banned-call] -- ours\n",
            "import torch\ntorch.load(f)  # noqa: DL006\n",
        ],
    )
    def test_what_may_be_something_else_is_not(self, project: Path, code: str) -> None:
        write(project / "dllint.toml", BAN)
        assert found(project, code) == []

    def test_builtins_and_a_message_of_its_own(self, project: Path) -> None:
        write(project / "dllint.toml", '[[ban]]\ncall = "print"\n[severity]\nDL006 = "error"\n')
        [finding] = found(project, "print('hello')\n")
        assert (finding.message, finding.severity) == ("`print` is banned in this project", "error")
        assert found(project, "print = log\nprint('hello')\n") == []

    def test_a_ban_of_nothing_is_an_error(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write(project / "dllint.toml", '[[ban]]\nmessage = "no"\n')
        assert main(["."]) == 2
        assert "dllint.toml:1: `ban` lacks the key `call`" in capsys.readouterr().err

    def test_results_are_cached_by_bans(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write(project / "a.py", "import torch\ntorch.load(f)\n")
        codes = []
        for text in ("", BAN, ""):
            write(project / "dllint.toml", text)
            codes.append(main(["--select", "DL006", "."]))
        assert codes == [0, 1, 0]


class TestOwnRules:
    def test_any_prefix(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write(project / "dllint.toml", 'rule-paths = ["lints"]\n')
        write(project / "lints" / "acme101_no_exp.py", OWN)
        text = "import torch\nx = torch.exp(y)\nz = torch.exp(x)  # noqa: ACME101\n"
        assert [(item.code, item.location.line) for item in found(project, text)] == [("ACME101", 2)]
        assert main(["--select", "ACME1", "."]) == 1
        assert main(["--ignore", "ACME", "."]) == 0
        assert main(["rule", "ACME101"]) == 0
        assert "It grows." in capsys.readouterr().out

    def test_fixes_are_as_safe_as_the_project_says(self, project: Path) -> None:
        assert [fix.safety for finding in found(project, SOFTMAX) for fix in finding.fixes] == ["unsafe"]
        write(project / "dllint.toml", 'fix-safety = { DL1 = "suggestion", DL101 = "safe" }\n')
        assert [fix.safety for finding in found(project, SOFTMAX) for fix in finding.fixes] == ["safe"]
        assert main(["--fix", "."]) == 0
        assert "scores = model(x)" in (project / "a.py").read_text()


class TestFilters:
    def test_confidence(self) -> None:
        place = Location("a.py", 1, 1, 1, 2)
        every = [
            Finding("DL101", "x", "m", place, "error", "correctness", confidence=level) for level in CONFIDENCE_RANK
        ]
        shown = {
            level: [item.confidence for item in asked_for(every, confidence=level)[0]] for level in CONFIDENCE_RANK
        }
        assert shown == {
            "certain": ["certain"],
            "likely": ["likely", "certain"],
            "possible": ["possible", "likely", "certain"],
        }
        assert [item.confidence for item in asked_for(every, confidence="certain")[1]] == ["possible", "likely"]

    @pytest.mark.parametrize(
        ("text", "words", "expected"),
        [
            ("", (), "likely"),
            ("possible = true\n", (), "possible"),
            ('confidence = "certain"\n', (), "certain"),
            ("possible = true\n", ("--confidence", "certain"), "certain"),
            ('confidence = "certain"\n', ("--possible",), "possible"),
        ],
    )
    def test_the_last_source_says_how_sure(
        self, project: Path, text: str, words: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(project / "dllint.toml", text)
        write(project / "a.py", SOFTMAX)
        seen: list[str] = []
        monkeypatch.setattr(
            "dllint.runner.asked_for", lambda found, confidence: (seen.append(confidence), (found, []))[1]
        )
        main([*words, "--no-cache", "."])
        assert seen == [expected]

    def test_notes(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write(project / "a.py", SOFTMAX)
        write(project / "dllint.toml", 'severity = { DL101 = "info" }\n')
        shown = {}
        for words in ((), ("--notes",), ("--no-notes",)):
            main([*words, "."])
            shown[words] = capsys.readouterr().out
        assert "1 note (--notes shows it)" in shown[()]
        assert "DL101" in shown["--notes",]
        assert "note" not in shown["--no-notes",] and "DL101" not in shown["--no-notes",]

    def test_color(self, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        write(project / "a.py", SOFTMAX)
        seen = []
        for when in ("always", "never", "auto"):
            main(["--color", when, "."])
            seen.append("\x1b[" in capsys.readouterr().out)
        assert seen == [True, False, False]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("dllint rule dl10", ["DL101"]),
        ("dllint rule scale-c", ["scale-collapse"]),
        ("dllint check --select DL101,DL10", ["DL101,DL101", "DL101,DL103"]),
        ("dllint check --select DL99", []),
    ],
)
def test_codes_are_completed(project: Path, line: str, expected: list[str]) -> None:
    environment = {"_DLLINT_COMPLETE": "zsh_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    path = str(Path(__file__).resolve().parent.parent)
    done = subprocess.run(
        [sys.executable, "-m", "dllint"],
        env={**os.environ, **environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        cwd=project,
    )
    assert set(expected) <= set(done.stdout.splitlines()[1::3])
    assert bool(expected) == bool(done.stdout.strip())
