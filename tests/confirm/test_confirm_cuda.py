"""The probes where training runs on a GPU: they say the same, and change nothing. Without a GPU this is left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confirm_support import SCRIPTS, expectations, judgements_at, observed

from dllint.confirm.launch import Outcome
from dllint.confirm.verdicts import settle

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]

OWN = ("cuda_bad", "cuda_good")  # which use what only GPUs have
MOVED = (  # which name no device, and whose loaders have no workers, since those cannot share what is on a GPU
    *("loops_bad", "loops_good", "training_bad", "training_good", "language_bad", "language_good"),
    *("models_bad", "models_good", "saving_bad", "saving_good", "axes_bad", "axes_good"),
)
WHOLE_RUNS = ("parts_bad", "parts_good")
FAILING = {"language_bad": "DL904", "models_bad": "DL514"}  # by an index that is out of range, at their end: after it
# a GPU does nothing more, so that probes that have yet to read from it say nothing
UNCOMPILED = ("mixed_precision", "captured", "on_another_stream", "in_a_group")  # compiled models run as they stand
COPIED = ("saving_bad", 59)  # `.cpu()`, which copies there


@pytest.fixture(scope="session")
def outcomes() -> dict[str, Outcome]:
    return {}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without which products are not the same in each run


def outcome_of(name: str, outcomes: dict[str, Outcome]) -> Outcome:
    if name not in outcomes:
        script = str(SCRIPTS / f"{name}.py")
        outcomes[name] = observed(*([] if name in OWN else [str(SCRIPTS / "on_device.py"), "cuda"]), script)
    return outcomes[name]


def each(names: tuple[str, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "script", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names]
    )


@each(OWN + MOVED)
def test_verdicts_are_those_of_a_cpu(script: str, outcomes: dict[str, Outcome]) -> None:
    outcome, path = outcome_of(script, outcomes), SCRIPTS / f"{script}.py"
    differing = []
    for line, rule, verdict in expectations(path):
        verdict = "REFUTED" if (script, line) == COPIED else verdict
        found = [judgement.verdict for judgement in judgements_at(outcome, path, line, rule)]
        if not found and script in FAILING and rule != FAILING[script]:
            continue
        if "CONFIRMED" in found if verdict == "NOT CONFIRMED" else set(found) != {verdict}:
            differing.append((line, rule, verdict, found))
    assert differing == []


@each(WHOLE_RUNS)
def test_verdicts_of_whole_runs_are_those_of_a_cpu(script: str, outcomes: dict[str, Outcome]) -> None:
    (record,) = outcome_of(script, outcomes).records
    for _, rule, verdict in expectations(SCRIPTS / f"{script}.py"):
        assert {each.verdict for each in record.judgements if each.rule == rule} == {verdict}, rule


@each(OWN + MOVED + WHOLE_RUNS)
def test_no_probe_fails_on_a_gpu(script: str, outcomes: dict[str, Outcome]) -> None:
    (record,) = outcome_of(script, outcomes).records
    assert (record.errors, record.device) == ([], "cuda")
    assert script in FAILING or record.stop == "end"
    if "good" in script:
        assert settle([], [record]).alarms == []


@pytest.mark.parametrize("name", ["cuda_good", "lightning_fit", "transformers_train", "accelerate_train"])
def test_numbers_are_those_of_a_run_without_dllint(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [str(SCRIPTS / f"{name}.py"), *(UNCOMPILED if name in OWN else ["cuda"])]
    outcome = observed(*words)
    assert (outcome.exit_code, settle([], outcome.records).alarms) == (0, [])
    told = digests(capfd.readouterr().err)
    plain = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert plain.returncode == 0, plain.stderr
    assert told and told == digests(plain.stdout)


def digests(output: str) -> list[str]:
    """The lines in which a script tells its weights and its next random numbers."""
    return sorted(line for line in output.splitlines() if line.startswith(("DIGEST", "CAPTURED")))
