"""What a function is given decides what happens in it: no `**options`, or a tensor where `None` might have been."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.events import CallRefused

SAVE = """
def put(key, value):
    return key


def save(path, {parameters}):
    for {target} in {iterable}:
        put(path)


save({arguments})
"""


@pytest.mark.parametrize(
    ("parameters", "target", "iterable"),
    [
        ("**extra", "k, v", "extra.items()"),
        ("**extra", "k", "extra"),
        ("**extra", "k", "extra.keys()"),
        ("**extra", "v", "extra.values()"),
        ("*extra", "v", "extra"),
        ("strict=True, **extra", "k, v", "extra.items()"),
    ],
)
def test_a_loop_over_no_options_does_not_happen(tmp_path: Path, parameters: str, target: str, iterable: str) -> None:
    source = SAVE.format(parameters=parameters, target=target, iterable=iterable, arguments="'a.pt'")
    assert not run(tmp_path, source).all_of(CallRefused)


@pytest.mark.parametrize(
    ("parameters", "iterable", "arguments"),
    [
        ("**extra", "extra.items()", "'a.pt', best=1"),
        ("*extra", "enumerate(extra)", "'a.pt', 1"),
        ("**extra", "extra.items()", "'a.pt', **unknown"),
        ("**extra", "dict(best=1, **extra).items()", "'a.pt'"),
        ("extra={}", "extra.items()", "'a.pt'"),
    ],
)
def test_any_other_may_happen(tmp_path: Path, parameters: str, iterable: str, arguments: str) -> None:
    source = SAVE.format(parameters=parameters, target="k, v", iterable=iterable, arguments=arguments)
    assert run(tmp_path, source).all_of(CallRefused)


@pytest.mark.parametrize("change", ["extra['best'] = 1", "extra.update(best=1)", "extra.setdefault('best', 1)"])
def test_options_may_come_in_an_earlier_round(tmp_path: Path, change: str) -> None:
    source = f"""
    def put(key, value):
        return key


    def save(**extra):
        for epoch in range(100):
            for key in extra:
                put(key)
            {change}


    save()
    """
    assert run(tmp_path, source).all_of(CallRefused)


SAMPLE = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x, labels):
        return x * labels


def sample(model, x, labels):
    {before}
    if labels is None:
        return model(x)
    return model(x, labels)


sample(Net(), torch.zeros(2, 3), {labels})
"""


@pytest.mark.parametrize(
    ("labels", "before"),
    [
        ("torch.tensor([1, 2])", ""),
        ("torch.zeros(2).to('cuda')", ""),
        ("torch.arange(2).long().unsqueeze(0)", ""),
        ("torch.randint(0, 10, (2,))", ""),
        ("unknown", "labels = torch.as_tensor(labels) if x.sum() > 0 else torch.ones(2)"),
        ("torch.tensor([1])", "labels = labels.cpu() if labels.shape == 0 else labels.unsqueeze(0)"),
    ],
)
def test_a_tensor_is_not_none(tmp_path: Path, labels: str, before: str) -> None:
    assert not run(tmp_path, SAMPLE.format(labels=labels, before=before)).all_of(CallRefused)


@pytest.mark.parametrize(
    ("labels", "before"),
    [
        ("unknown", ""),
        ("unknown.to('cuda')", ""),
        ("torch.load('labels.pt')", ""),
        ("torch.distributed.new_group()", ""),
        ("torch.zeros(2).backward()", ""),
        ("torch.zeros(2)", "labels = labels if x.sum() > 0 else None"),
        ("torch.zeros(2)", "labels = labels.grad"),
    ],
)
def test_anything_else_may_be(tmp_path: Path, labels: str, before: str) -> None:
    assert run(tmp_path, SAMPLE.format(labels=labels, before=before)).all_of(CallRefused)


def test_a_tensor_may_be_none_in_the_second_round(tmp_path: Path) -> None:
    source = """
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x, state):
            return x * state


    def train(model, batches):
        state = torch.zeros(2)
        for x in batches:
            if state is None:
                state = model(x)
            if x.sum() > 0:
                state = None


    train(Net(), torch.load("batches.pt"))
    """
    assert run(tmp_path, source).all_of(CallRefused)
