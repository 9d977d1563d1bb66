"""How a command ended: whether it failed, by what, and what to try where it came to no step."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from dllint.confirm.launch import Outcome

_BY_BUDGET = ("budget", "backwards", "time")
_INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)
_SHOWN = 8  # of its last lines
_ADVICE = (
    (("the following arguments are required", "usage:", "Usage:", "Missing option"), "give its arguments after `--`"),
    (("ModuleNotFoundError", "ImportError"), "name the Python that has what the script imports, with --python"),
    (
        ("MASTER_ADDR", "LOCAL_RANK", "'RANK'", "WORLD_SIZE"),
        'start it with its launcher: --run "torchrun ... train.py"',
    ),
    (
        ("device-side assert",),
        "run it with CUDA_LAUNCH_BLOCKING=1, or on the CPU, to see where: an index is out of range, such as a label "
        "or a token",
    ),
    (("CUDA", "cuda", "NVIDIA", "nccl", "NCCL"), "pass what makes it use the CPU, or run it where its devices are"),
    (("ConnectionError", "HTTPError", "URLError", "Max retries", "offline"), "download its data and weights before"),
    (("FileNotFoundError", "No such file", "NotADirectoryError"), "run it where its data is, or pass a path to some"),
    (("MemoryError", "out of memory", "OutOfMemoryError"), "pass what makes its model or its batches smaller"),
)
"""What to try, by words in the last lines of a command; the first that fit."""

_MISSING = {
    "nothing": "no Python was attached to. PYTHONPATH leads to the probes, which `python -I`, `python -E` and programs "
    "that are frozen do not look at",
    "python": "it imports no torch",
    "torch": "it imports torch, but passes over no loader, and makes no backward pass and no step",
}


def has_failed(outcome: Outcome) -> bool:
    """Whether a command failed by itself: neither dllint nor the user ended it."""
    is_interrupted = any(record.error.startswith("KeyboardInterrupt") for record in outcome.records)
    if not outcome.exit_code or outcome.exit_code in _INTERRUPTED or is_interrupted:
        return False
    raised = any(record.stop == "exception" for record in outcome.records)
    return raised or not any(record.stop in _BY_BUDGET for record in outcome.records)


def told(outcome: Outcome) -> list[str]:
    """How the command ended, as lines for people, if it failed or made no step; nothing otherwise."""
    steps = max((record.steps for record in outcome.records), default=0)
    if has_failed(outcome):
        when = f"after {steps} steps" if steps else "before any step"
        lines = [f"the command failed {when}: {_what_failed(outcome)}"]
    elif not steps and not any(record.backwards for record in outcome.records):
        lines = [_nothing(outcome)]
    else:
        return []
    return [*lines, *_last_lines(outcome), *([] if steps else _advice(outcome))]


def _what_failed(outcome: Outcome) -> str:
    """The exception and the exit code, or the signal."""
    errors = [record.error for record in outcome.records if record.stop == "exception"]
    if any(line.startswith("Traceback") for line in outcome.output):
        errors += [line for line in outcome.output[-1:] if not line.startswith(" ")]
    code = outcome.exit_code
    how = f"signal {_name(-code)}" if code < 0 else f"exit code {code}"
    return f"{errors[0]} ({how})" if errors else how


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _nothing(outcome: Outcome) -> str:
    if outcome.is_killed or any(record.stop == "time" for record in outcome.records):
        return "its time was over before any step: give it more with --max-seconds"
    if outcome.records:
        return "the command made no step and no backward pass"
    return f"the command trained nothing that the probes saw: {_MISSING[outcome.reached]}"


def _last_lines(outcome: Outcome) -> Iterator[str]:
    if outcome.output:
        yield "its last lines:"
        yield from (f"  {line}" for line in outcome.output[-_SHOWN:])


def _advice(outcome: Outcome) -> Iterator[str]:
    text = "\n".join([*outcome.output, *(record.error for record in outcome.records)])
    fitting = (advice for words, advice in _ADVICE if any(word in text for word in words))
    advice = next(fitting, "see whether it trains without dllint" if has_failed(outcome) else "")
    if advice:
        yield f"try: {advice}"
