"""``--executor``: the work of a run on a Dask cluster, here one of two processes of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dllint.cli import main

distributed = pytest.importorskip("distributed")

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
TRAIN = """\
import torch.nn.functional as F

def train{number}(model, loader, optimizer):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(F.softmax(model(inputs), dim=1), targets)
        loss.backward()
        optimizer.step()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster with two workers."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        yield cluster.scheduler_address.replace("tcp://", "dask://")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    top = tmp_path / "repositories" / "one"
    top.mkdir(parents=True)
    (top / "pyproject.toml").write_text("[tool.dllint]\n")
    for number in range(30):
        (top / f"train{number}.py").write_text(TRAIN.format(number=number))
    (top / "broken.py").write_text("def f(:\n")
    return top


def check(project: Path, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    command = [sys.executable, "-m", "dllint", "check", "--no-cache", "--output-format", "json", *words]
    done = subprocess.run(command, cwd=project, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    return done.returncode, json.loads(done.stdout or "[]"), done.stderr


def places(findings: list[dict[str, Any]]) -> set[str]:
    """The files with findings, those that were folded into others included."""
    return {place["path"] for finding in findings for place in (finding, *finding["others"])}


@pytest.mark.slow
def test_a_cluster_finds_what_this_machine_finds(cluster: str, project: Path) -> None:
    here = check(project, "--jobs", "1")
    assert len(places(here[1])) == 31
    assert check(project, "--executor", cluster) == here


@pytest.mark.slow
def test_workers_take_what_is_written_since(cluster: str, project: Path) -> None:
    before = check(project, "--executor", cluster)
    (project / "train7.py").write_text("x = 1\n")
    after = check(project, "--executor", cluster)
    assert places(before[1]) - places(after[1]) == {"train7.py"}


@pytest.mark.slow
def test_an_audit_on_a_cluster(cluster: str, project: Path, tmp_path: Path) -> None:
    words = ["audit", str(project.parent), "--output", str(tmp_path / "out"), "--format", "jsonl"]
    assert main([*words, "--executor", cluster]) == 0
    found = [json.loads(line) for line in (tmp_path / "out" / "findings.jsonl").read_text().splitlines()]
    assert sum(row["places"] for row in found if row["repository"] == project.name) == 31


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ("dask://127.0.0.1:9", "no Dask scheduler answers at dask://127.0.0.1:9"),
        ("ssh://somewhere", "--executor: 'ssh://somewhere' is not of the form dask://HOST:PORT"),
    ],
)
@pytest.mark.slow
def test_a_cluster_that_is_not_there(project: Path, executor: str, message: str) -> None:
    code, _, errors = check(project, "--executor", executor)
    assert code == 2
    assert message in errors
