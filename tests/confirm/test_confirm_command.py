"""``dllint confirm`` and ``dllint check --confirm`` as commands."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import jsonschema
import pytest
from confirm_support import SCRIPTS

from dllint.cli import main

pytestmark = pytest.mark.slow
SCHEMA = Path(__file__).parents[2] / "docs" / "confirm.schema.json"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(SCRIPTS / "mixed.py", tmp_path / "mixed.py")
    (tmp_path / "dllint.toml").write_text('extend-select = ["PREVIEW"]\n')  # what is refuted is in preview
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_settles_the_findings_of_a_script(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--steps", "8", "--json", "out.json", "--html", "out.html"]
    assert main(["confirm", *options, "mixed.py", "--", "--lr", "3"]) == 1
    output = capfd.readouterr()
    lines = output.out.splitlines()
    assert lines[0].startswith("CONFIRMED    DL101 mixed.py:20 softmax-before-cross-entropy: the input of cross_ent")
    assert lines[1].startswith("REFUTED      DL304 mixed.py:23 scheduler-cadence: CosineAnnealingLR made 7 steps")
    assert lines[2].startswith("NOT REACHED  DL104 mixed.py:27")
    assert "events: EZFBSLZFBSLZFBSLZFBSLEZFBS" in output.out
    assert "8 steps, 8 backward calls, 2 epochs" in output.out
    assert lines[-1] == "Settled 3 findings: 1 confirmed, 1 refuted, 1 not reached."
    assert "ARGUMENTS ['--lr', '3']" in output.err
    document = json.loads(Path("out.json").read_text())
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert "DL304" in Path("out.html").read_text()
    assert [item["verdict"] for item in document["verdicts"]] == ["CONFIRMED", "REFUTED", "NOT REACHED"]
    assert document["verdicts"][0]["evidence"]["statistics"]["computed_by"] == ["Softmax"]
    assert document["runs"][0]["traces"]["loss"]


def test_takes_the_findings_of_a_report(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    main(["check", "--output", "json:findings.json", "mixed.py"])
    capfd.readouterr()
    words = ["--quiet", "--steps", "8", "--findings", "findings.json", "--only", "DL304"]
    assert main(["confirm", *words, "--run", f"{sys.executable} mixed.py"]) == 1  # for the alarm below
    output = capfd.readouterr()
    assert output.out.startswith("REFUTED      DL304 mixed.py:23") and "ARGUMENTS" not in output.err
    assert "ALARM        DL101 mixed.py:20" in output.out


def test_check_drops_what_a_run_refutes(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--confirm", "mixed.py", "--output-format", "json", "--select", "DL304,DL104", "."]) == 1
    output = capfd.readouterr()
    assert [item["code"] for item in json.loads(output.out)] == ["DL104"]
    assert "a run settled: 1 refuted, 1 not reached" in output.err
    assert main(["check", "--confirm", "mixed.py", "--output-format", "json", "--select", "DL304,DL101", "."]) == 1
    (finding,) = json.loads(capfd.readouterr().out)
    assert finding["confidence"] == "certain"
    assert finding["trace"][-1]["message"].startswith("a run confirms it: the input of cross_entropy lies in [")
    assert main(["check", "--confirm", "mixed.py", "--select", "DL304", "."]) == 0


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("import torch\n", 3, ["the command trained nothing that the probes saw: it imports torch, but"]),
        ("import torch\nraise SystemExit(3)\n", 2, ["the command failed before any step: exit code 3"]),
        (
            "import nowhere\n",
            2,
            [
                "any step: ModuleNotFoundError: No module named 'nowhere' (exit code 1)",
                "name the Python",
                "  Traceback",
            ],
        ),
        ("print('its last words')\n", 3, ["it imports no torch", "  its last words"]),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", 2, ["before any step: signal SIGSEGV"]),
        ("import argparse as a\np = a.ArgumentParser()\np.add_argument('data')\np.parse_args()\n", 2, ["after `--`"]),
    ],
)
def test_a_run_without_evidence_says_what_stopped_it(
    project: Path, text: str, code: int, told: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    Path("empty.py").write_text(text)
    assert main(["confirm", "--quiet", "empty.py"]) == code
    errors = capfd.readouterr().err
    assert all(part in errors for part in told)
    assert ("trained nothing" in errors) == (code == 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.py"], "there is no script nowhere.py"),
        ([], "give a script, --module or --run"),
        (["--run", "'", "mixed.py"], "just one of them"),
        (["--run", "'"], "is no command"),
        (["--run", "./nowhere"], "./nowhere cannot be run"),
        (["--findings", "mixed.py", "mixed.py"], "mixed.py is no JSON report of dllint"),
        (["--only", "DL1O1", "mixed.py"], "there is no rule DL1O1"),
        (["--only", " ", "mixed.py"], "--only takes codes"),
    ],
)
def test_mistakes_are_told(project: Path, words: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["confirm", *words]) == 2
    assert message in capfd.readouterr().err
