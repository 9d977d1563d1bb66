"""What GPUs have of their own, as far as it shows without one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from dllint.confirm.evidence import Judgement, Record, Settings
from dllint.confirm.inside import devices
from dllint.confirm.inside.run import Run
from dllint.confirm.launch import Outcome
from dllint.confirm.probes.base import Probe
from dllint.confirm.terminal import has_failed, told

LOST = "CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [(RuntimeError(LOST), True), (RuntimeError("shapes do not fit"), False), (ValueError(LOST), False), (None, False)],
)
def test_errors_of_a_lost_device_are_known(error: Exception | None, is_lost: bool) -> None:
    assert devices.is_device_lost(error) == is_lost


class Reading(Probe):
    def on_gap(self) -> None:
        raise RuntimeError(self.message)

    def judge(self) -> Iterator[Judgement]:
        yield self.judgement("DL101", self.now(), "CONFIRMED")
        raise RuntimeError(self.message)

    message = LOST


class Failing(Reading):
    message = "too few numbers"


@pytest.mark.parametrize(("kind", "failures"), [(Reading, 0), (Failing, 1)])
def test_what_cannot_be_read_from_a_lost_device_is_no_failure(kind: type[Probe], failures: int) -> None:
    run = Run(Settings(records="", steps=0))
    run.watch([kind])
    run.wake()
    (probe,) = run._probes
    assert [item.rule for item in run._judgements(probe)] == ["DL101"]  # what comes before the error is kept
    assert len(run.record.errors) == failures


def test_nothing_is_told_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(Settings(records="", steps=0))
    assert run.is_listening
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(devices, "_asks_whether_it_captures", lambda: True)
    assert not run.is_listening

    def fail() -> bool:
        raise RuntimeError(LOST)

    monkeypatch.setattr(devices, "_asks_whether_it_captures", fail)
    assert not run.is_listening


def test_a_device_that_was_lost_before_any_step_is_explained() -> None:
    record = Record(1, 0, "observe", "2.13", "cuda", "exception", error=f"AcceleratorError: {LOST}")
    lines = told(Outcome(["train.py"], [record], exit_code=1, output=["Traceback", *LOST.splitlines()]))
    assert any("CUDA_LAUNCH_BLOCKING=1" in line for line in lines)


@pytest.mark.parametrize(("error", "failed"), [("KeyboardInterrupt: ", False), ("RuntimeError: no", True)])
def test_who_ends_a_run_by_ctrl_c_has_not_seen_it_fail(error: str, failed: bool) -> None:
    """Some systems give the exit code 1 then, and not that of the signal."""
    record = Record(1, 0, "observe", "2.13", "cpu", "exception", error=error)
    assert has_failed(Outcome(["train.py"], [record], exit_code=1)) is failed
