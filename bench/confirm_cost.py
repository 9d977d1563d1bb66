"""What the probes of `dllint confirm` cost per training step: blocks of steps with probes and without, in turns.

    python bench/confirm_cost.py

Each model trains in one process that is run by `dllint confirm`. Every second block is trained while the observers are
idle; what is shown is the median time of a step in both kinds of block, on one thread.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from statistics import median

ROUNDS = 15
MODELS = {"mlp": 100, "conv": 6, "transformer": 6}  # and steps in a block


def main() -> None:
    """Train each model under probes, and print what they cost."""
    from dllint.confirm.evidence import Settings
    from dllint.confirm.launch import run

    for name in MODELS:
        settings = Settings("", steps=0, epoch_batches=0, max_seconds=600)
        outcome = run([sys.executable, __file__, name], settings, in_place=False, show_output=True)
        (record,) = outcome.records
        shares = sorted(record.seconds.items(), key=lambda item: -item[1])[:5]
        print(f"  {name}: " + ", ".join(f"{probe} {seconds:.3f} s" for probe, seconds in shares), file=sys.stderr)


def train(name: str) -> None:
    """Train a model in the process that is observed, and print the cost."""
    import torch

    from dllint.confirm.inside.run import Run

    torch.set_num_threads(1)
    step = make(name)
    (run,) = (found for found in gc.get_objects() if type(found) is Run)
    for _ in range(5):
        step()
    times: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * ROUNDS):
        run._inside.probe = idle = number % 2 == 1  # as if a probe made the steps
        begin = time.process_time()
        for _ in range(MODELS[name]):
            step()
        times[idle].append((time.process_time() - begin) / MODELS[name])
    run._inside.probe = False
    with_probes, without = median(times[False]), median(times[True])
    cost = 100 * (with_probes / without - 1)
    print(f"{name:12} {1000 * without:7.2f} ms without, {cost:+5.1f} % with", file=sys.stderr)


def make(name: str) -> Callable[[], None]:
    """A model of this name with data and an optimizer. Returns what makes one step."""
    import torch
    from torch import nn
    from torch.nn import functional

    torch.manual_seed(0)
    if name == "mlp":
        hidden = [nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
        model: nn.Module = nn.Sequential(*hidden, nn.Linear(256, 10))
        x = torch.randn(64, 128)
    elif name == "conv":
        blocks = [nn.Sequential(nn.Conv2d(a, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()) for a in (3, 64, 64)]
        model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
        x = torch.randn(16, 3, 24, 24)
    else:
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.1, batch_first=True)
        model = nn.Sequential(nn.TransformerEncoder(layer, 4), nn.Flatten(), nn.Linear(128 * 64, 10))
        x = torch.randn(8, 64, 128)
    y = torch.randint(0, 10, (len(x),))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(sys.argv[1])
    else:
        main()
