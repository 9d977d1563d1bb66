"""``dllint audit``: which repositories, what is kept, what is done again, and what the tables say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dllint.cli import main
from dllint.cli.audit.one import audit_apart

TRAIN = """\
import torch.nn.functional as F

def train(model, loader, optimizer):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(F.softmax(model(inputs), dim=1), targets)
        loss.backward()
        optimizer.step()
"""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three repositories, one of which has something to report, which it would rather not."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("good", "x = 1\n"), ("bad", TRAIN), ("broken", "def f(:\n")):
        (tmp_path / "fleet" / name).mkdir(parents=True)
        (tmp_path / "fleet" / name / "train.py").write_text(text)
    (tmp_path / "fleet" / "bad" / "dllint.toml").write_text('ignore = ["ALL"]\nrule-paths = ["nowhere.py"]\n')
    return tmp_path


def rows(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "dllint-audit" / "findings.jsonl").read_text().splitlines()]


def audit(*words: str) -> int:
    return main(["audit", "--format", "jsonl", "--jobs", "1", *words])


def test_one_row_for_each_finding_whatever_a_repository_configures(fleet: Path) -> None:
    assert audit("fleet") == 0
    found = [(row["repository"], row["path"], row["code"]) for row in rows(fleet)]
    assert found == [("bad", "train.py", "DL101"), ("broken", "train.py", "DL001")]
    page = (fleet / "dllint-audit" / "summary.md").read_text()
    assert "3 repositories, 3 files" in page and "| DL101 softmax-before-cross-entropy | 1 | 1 |" in page


def test_goes_on_where_it_was(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fleet / "list.txt").write_text("# those of today\nfleet/good\n\nfleet/bad\n")
    assert audit("list.txt") == 0
    (fleet / "fleet" / "good" / "train.py").write_text(TRAIN)
    capsys.readouterr()
    assert audit("list.txt") == 0
    assert "2 of 2 repositories are done already" in capsys.readouterr().err
    assert [row["repository"] for row in rows(fleet)] == ["fleet/bad"]
    assert audit("list.txt", "--fresh") == 0
    assert [row["repository"] for row in rows(fleet)] == ["fleet/good", "fleet/bad"]


def test_other_options_are_another_audit(fleet: Path) -> None:
    audit("fleet")
    audit("fleet", "--select", "DL202")
    assert [row["code"] for row in rows(fleet)] == ["DL001"]


def test_what_cannot_be_audited_is_told_and_tried_again(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fleet / "list.txt").write_text("fleet/good\nfleet/late\n")
    assert audit("list.txt") == 2
    assert "fleet/late was not audited: missing: no such folder" in capsys.readouterr().err
    assert "fleet/late" in (fleet / "dllint-audit" / "summary.md").read_text()
    (fleet / "fleet" / "late").mkdir()
    assert audit("list.txt") == 0


def test_a_repository_that_takes_too_long_costs_itself(fleet: Path) -> None:
    order = {"folder": str(fleet / "fleet" / "good"), "options": {}, "timeout": 0.001}
    assert audit_apart(order)["status"] == "timeout"


def test_a_process_that_fails_costs_its_repository(fleet: Path) -> None:
    order = {"folder": str(fleet / "fleet" / "good"), "options": {"isolated": True}, "timeout": 60}
    failed = audit_apart(order)
    assert (failed["status"], failed["message"]) == ("failed", "KeyError: 'configs'")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "cannot be read: No such file or directory"),
        (["fleet/good"], "there is no repository to audit"),
        (["fleet", "--select", "DL9999"], "DL9999"),
    ],
)
def test_what_is_wrong_with_the_command_is_told_at_once(
    fleet: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert audit(*words) == 2
    assert message in capsys.readouterr().err
    assert not (fleet / "dllint-audit").exists()


def test_parquet(fleet: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert main(["audit", "fleet", "--jobs", "1"]) == 0
    table = parquet.read_table(fleet / "dllint-audit" / "findings.parquet").to_pylist()
    assert [(row["repository"], row["line"], row["code"]) for row in table] == [
        ("bad", 6, "DL101"),
        ("broken", 1, "DL001"),
    ]
    assert not (fleet / "dllint-audit" / "findings.jsonl").exists()
