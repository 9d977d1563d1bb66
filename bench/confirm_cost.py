"""What the probes of `dllint confirm` cost: time per training step, and memory.

    python bench/confirm_cost.py [NAME...] [--cuda] [--write]

Time: each model trains in one process that is run by `dllint confirm`, on one thread. After a while in which the probes
settle, every second block of steps is trained while the observers are idle; what is shown is the median, over pairs of
neighboring blocks, of what the block with probes took more. A block is long enough for the probes to look and to rest,
and the time of idle blocks is not theirs to spend. CPU time is compared, which other programs disturb less than time
on the clock. Memory: each model is trained in a process of its own, with dllint and
without; the largest resident size of each is compared.

With `--cuda` the models train on a GPU: time is that on the clock, from one synchronization to another; memory is the
most that was allocated on the GPU; and it is counted how often the process waits for the GPU in a step that is looked
at, and in one that is not.

`--write` puts the table into `docs/performance.md`.
"""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dllint.confirm.inside.run import Run

IS_ON_CUDA = "--cuda" in sys.argv
ROUNDS = 11 if IS_ON_CUDA else 21
BLOCK = 0.8  # seconds that a block of steps takes, about
SETTLING = 6.0  # seconds of training before it is measured
MODELS = {
    "mlp": "multi-layer perceptron",
    "hand": "the same, updated without an optimizer",
    "acting": "a policy that acts on single samples, and learns",
    "playing": "the same, acting without gradients",
    "diffusion": "latent diffusion, with an average of its weights",
    "small": "small convolutions",
    "transformer": "transformer",
    "conv": "convolutions",
}
ON_CUDA = {
    "mlp": "multi-layer perceptron",
    "transformer": "transformer",
    "mixed": "larger convolutions in float16, with a scaler",
    "language": "language model of 124 million weights in bfloat16",
}
MOST_FOR_LONG_STEPS, MOST_FOR_SHORT_STEPS, MOST_MEMORY = 5.0, 10.0, 5.0  # percent
LONG_STEP = 15.0  # milliseconds
PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
HEADING = "## Confirm"
HEADING_ON_CUDA = "### On a GPU"
PROFILED = 16  # steps in which waiting for a GPU is counted
WAITING = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


def main() -> None:
    """Train each model under probes and without, and print what they cost."""
    models = ON_CUDA if IS_ON_CUDA else MODELS
    named = [name for name in sys.argv[1:] if name in models]
    rows = [row for name in named or models for row in measure(name, models[name])]
    text = "\n".join(["| what | measured | budget | |", "| --- | --- | --- | --- |", *rows])
    print(text)
    if "--write" in sys.argv:
        write(text)


def measure(name: str, what: str) -> list[str]:
    """The rows of the table about one model."""
    timing = observed(name, "time")
    step, cost = timing["step"], timing["cost"]
    budget = MOST_FOR_LONG_STEPS if step >= LONG_STEP else MOST_FOR_SHORT_STEPS
    plain, under_probes = unobserved(name), observed(name, "memory")["peak"]
    more = 100 * (under_probes / plain - 1)
    rows = [
        f"| {what}, a step of {step:.3g} ms | {cost:+.1f} % | {budget:.0f} % | {verdict(cost, budget)} |",
        f"| {what}, memory of {plain / 1024:.0f} MiB | {more:+.1f} % | {MOST_MEMORY:.0f} % | "
        f"{verdict(more, MOST_MEMORY)} |",
    ]
    if IS_ON_CUDA:
        waits = f"{timing['waits']:.3g}, and {timing['waits_plain']:.3g} where nothing is looked at"
        rows.append(f"| {what}, waits for the GPU in a step that is looked at | {waits} | | |")
    return rows


def verdict(measured: float, budget: float) -> str:
    return "pass" if measured <= budget else "**fail**"


def observed(name: str, what: str) -> dict[str, float]:
    """What training a model under probes says about time or memory."""
    from dllint.confirm.evidence import Settings
    from dllint.confirm.launch import run

    settings = Settings("", steps=0, epoch_batches=0, max_seconds=600)
    answer = Path(tempfile.mkdtemp(prefix="dllint-cost-"), "answer.json")
    outcome = run([*child_of(name, what, answer)], settings, in_place=True, show_output=True)
    (record,) = outcome.records
    shares = sorted(record.seconds.items(), key=lambda item: -item[1])[:5]
    print(f"  {name}: " + ", ".join(f"{probe} {seconds:.3f} s" for probe, seconds in shares), file=sys.stderr)
    return read(answer)


def unobserved(name: str) -> float:
    """The memory that a model takes without dllint."""
    answer = Path(tempfile.mkdtemp(prefix="dllint-cost-"), "answer.json")
    subprocess.run(child_of(name, "memory", answer), check=True)
    return read(answer)["peak"]


def child_of(name: str, what: str, answer: Path) -> list[str]:
    """The command that trains a model and writes what was measured."""
    return [sys.executable, __file__, name, what, str(answer), *["--cuda"] * IS_ON_CUDA]


def read(answer: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads(answer.read_text())
    shutil.rmtree(answer.parent)
    return found


def train(name: str, what: str) -> dict[str, float]:
    """Train a model. Returns what was measured."""
    import torch

    torch.set_num_threads(1)
    with torch.device("cuda" if IS_ON_CUDA else "cpu"):
        step = make(name)
    if what == "memory":
        begin = now()
        while now() - begin < SETTLING:
            step()
        if IS_ON_CUDA:
            return {"peak": torch.cuda.max_memory_allocated() / 1024}
        return {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
    return compare(step) | (waits(step) if IS_ON_CUDA else {})


def now() -> float:
    """Seconds: of this process, or on the clock when the GPU has done all that it was told to."""
    import torch

    if not IS_ON_CUDA:
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def the_run() -> Run:
    """The run that the probes of this process listen to."""
    from dllint.confirm.inside.run import Run

    (found,) = (each for each in gc.get_objects() if type(each) is Run)
    return found


def waits(step: Callable[[], None]) -> dict[str, float]:
    """How often a step waits for the GPU while the probes look at it, and while they do not."""
    from torch.profiler import ProfilerActivity, profile

    run, counted = the_run(), {}
    for name, is_idle in (("waits", False), ("waits_plain", True)):
        run.look_at_new()
        run._inside.probe = is_idle
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            for _ in range(PROFILED):
                step()
        run._inside.probe = False
        counted[name] = sum(event.name in WAITING for event in profiled.events()) / PROFILED
    return counted


def compare(step: Callable[[], None]) -> dict[str, float]:
    """The time of a step in milliseconds, and what probes add to it in percent."""
    run, begin, steps = the_run(), now(), 0
    while now() - begin < SETTLING:
        step()
        steps += 1
    steps = max(1, round(BLOCK * steps / SETTLING))
    times: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * ROUNDS):
        run._inside.probe = idle = number % 4 in (1, 2)  # as if a probe made the steps; which comes first takes turns
        begin = now()
        for _ in range(steps):
            step()
        times[idle].append((now() - begin) / steps)
        if idle:
            run.rests._counted = time.perf_counter()
    run._inside.probe = False
    cost = median(probed / plain for probed, plain in zip(times[False], times[True], strict=True)) - 1
    return {"step": 1000 * median(times[True]), "cost": 100 * cost}


def make(name: str) -> Callable[[], None]:
    """A model of this name with data and an optimizer. Returns what makes one step."""
    import torch
    from torch import nn
    from torch.nn import functional

    torch.manual_seed(0)
    if name in ("acting", "playing"):
        return make_agent(learns_as_it_acts=name == "acting")
    if name == "diffusion":
        return make_diffusion()
    if name in ("mixed", "language"):
        return make_autocast(name)
    if name in ("mlp", "hand"):
        hidden = [nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
        model: nn.Module = nn.Sequential(*hidden, nn.Linear(256, 10))
        x = torch.randn(64, 128)
    elif name in ("conv", "small"):
        width = 64 if name == "conv" else 28
        pairs = ((3, width), (width, width), (width, width))
        blocks = [nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in pairs]
        model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
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

    def step_by_hand() -> None:
        functional.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 1e-3 * parameter.grad
                parameter.grad = None

    return step_by_hand if name == "hand" else step


def make_autocast(name: str) -> Callable[[], None]:
    """Models of a size that GPUs are used for, under autocast."""
    import torch
    from torch import nn
    from torch.nn import functional

    if name == "mixed":
        widths = ((3, 128), (128, 256), (256, 256), (256, 512))
        blocks = [nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in widths]
        model: nn.Module = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100))
        x, y, kind = torch.randn(64, 3, 56, 56), torch.randint(0, 100, (64,)), torch.float16
    else:
        layer = nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.1, batch_first=True, norm_first=True)
        embedding, head = nn.Embedding(50304, 768), nn.Linear(768, 50304, bias=False)
        head.weight = embedding.weight
        model = nn.Sequential(embedding, nn.TransformerEncoder(layer, 12), head)
        x, kind = torch.randint(0, 50304, (8, 512)), torch.bfloat16
        y = x
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=kind == torch.float16)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", kind):
            scores = model(x)
            loss = functional.cross_entropy(scores.flatten(0, -2), y.flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    return step


def make_agent(*, learns_as_it_acts: bool) -> Callable[[], None]:
    """A policy that takes ten actions, one by one, and learns from them: by their graphs, or by calling it again."""
    import torch
    from torch import nn

    policy = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Dropout(0.6), nn.Linear(128, 2), nn.Softmax(-1))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)

    def learn(chances: torch.Tensor) -> None:
        optimizer.zero_grad()
        chances.sum().neg().backward()
        optimizer.step()

    def act(state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        distribution = torch.distributions.Categorical(policy(state))
        action = distribution.sample()
        return action, distribution.log_prob(action)

    def step() -> None:
        learn(torch.cat([act(torch.randn(1, 4))[1] for _ in range(10)]))

    def play_and_step() -> None:
        states = [torch.randn(1, 4) for _ in range(10)]
        with torch.no_grad():
            actions = torch.cat([act(state)[0] for state in states])
        learn(torch.distributions.Categorical(policy(torch.cat(states))).log_prob(actions))

    return step if learns_as_it_acts else play_and_step


def make_diffusion() -> Callable[[], None]:
    """A small denoiser of latents, which a frozen encoder makes of each batch from a loader."""
    import torch
    from torch import nn
    from torch.nn import functional
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    from torch.utils.data import DataLoader, TensorDataset

    encoder = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 4, 3, 2, 1)).requires_grad_(False).eval()
    denoiser = nn.Sequential(nn.Conv2d(4, 16, 3, padding=1), nn.SiLU(), nn.Conv2d(16, 4, 3, padding=1))
    average = AveragedModel(denoiser, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    optimizer = torch.optim.AdamW(denoiser.parameters(), lr=1e-3)
    alphas = torch.linspace(0.999, 0.01, 100)
    batches = iter(DataLoader(TensorDataset(torch.randn(1 << 14, 3, 32, 32)), 4, shuffle=True))

    def step() -> None:
        nonlocal batches
        try:
            (images,) = next(batches)
        except StopIteration:
            batches = iter(DataLoader(TensorDataset(torch.randn(1 << 14, 3, 32, 32)), 4, shuffle=True))
            (images,) = next(batches)
        with torch.no_grad():
            latents = encoder(images) * 0.18215
        noise = torch.randn_like(latents)
        alpha = alphas[torch.randint(0, 100, (len(images),))].view(-1, 1, 1, 1)
        loss = functional.mse_loss(denoiser(alpha.sqrt() * latents + (1 - alpha).sqrt() * noise), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(denoiser)

    return step


def write(text: str) -> None:
    """Put the table into the page, in place of the last one."""
    heading, about = (HEADING_ON_CUDA, about_gpu()) if IS_ON_CUDA else (HEADING, ABOUT)
    told = f"{heading}\n\n{about}\n\nLoad {os.getloadavg()[0]:.1f} at the end.\n\n{text}\n"
    page = PAGE.read_text()
    section = re.search(rf"^{heading}\n.*?(?=^##|\Z)", page, re.DOTALL | re.MULTILINE)
    if section is None:
        PAGE.write_text(f"{page.rstrip()}\n\n{told}")
    else:
        rest = page[section.end() :]
        PAGE.write_text(page[: section.start()] + told + ("\n" + rest if rest else ""))


ABOUT = """What the probes of `dllint confirm` add to a training step, and to the largest resident size of a process,
once they have settled how often to look (`bench/confirm_cost.py`, torch on CPU, one thread)."""


def about_gpu() -> str:
    """What the table for GPUs shows, and on which."""
    import torch

    where = f"{torch.cuda.get_device_name()} (`bench/confirm_cost.py --cuda`, torch {torch.__version__})"
    return f"""The same on one {where}: time on the clock, the most
memory allocated on the GPU, and how often a step waits for the GPU, which the profiler counts."""


if __name__ == "__main__":
    if sys.argv[2:3] in (["time"], ["memory"]):  # as a child of this
        Path(sys.argv[3]).write_text(json.dumps(train(sys.argv[1], sys.argv[2])))
    else:
        main()
