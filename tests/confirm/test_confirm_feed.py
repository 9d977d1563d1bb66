"""Which batches are trained with, and which are evaluated with."""

from __future__ import annotations

import gc
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dllint.confirm.inside.loaders import Feed  # noqa: E402


def loader(samples: int = 8) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(list(range(samples)), batch_size=2)  # type: ignore[arg-type]


def test_the_first_backward_pass_after_a_batch_trains_with_it() -> None:
    feed, data = Feed(), loader()
    batches = feed.begin(data, ())
    feed.take(batches)
    assert feed.train() is batches
    assert feed.train() is None
    assert (batches.trained, batches.only_trained, batches.is_evaluated) == (1, 1, False)


def test_a_call_without_gradients_evaluates_the_latest_batch() -> None:
    feed, data = Feed(), loader()
    batches = feed.begin(data, ())
    feed.take(batches)
    feed.evaluate()
    feed.train()
    assert (batches.trained, batches.only_trained, batches.is_evaluated) == (1, 0, True)


def test_what_no_batch_precedes_trains_with_none() -> None:
    feed = Feed()
    feed.evaluate()
    assert feed.train() is None and feed.sources == []


def test_passes_over_a_loader_are_of_one_source() -> None:
    feed, data, other = Feed(), loader(), loader(6)
    passes = [feed.begin(each, ()) for each in (data, other, data)]
    assert [each.number for each in passes] == [0, 0, 1]
    assert [source.dataset for source in feed.sources] == ["list[8]", "list[6]"]
    assert feed.sources[0].passes == [passes[0], passes[2]]


def test_a_pass_does_not_keep_its_loader() -> None:
    feed, data = Feed(), loader()
    batches = feed.begin(data, ())
    assert batches.loader is data
    del data
    gc.collect()
    assert batches.loader is None and feed.sources[0].dataset == "list[8]"


def test_the_order_is_that_of_the_batches_that_were_taken() -> None:
    batches = Feed().begin(data := loader(), ())
    batches.indices += [[3, 1], [0, 2], [5, 4]]  # the last of which a worker is still making
    batches.taken = 2
    assert batches.order() == [[3, 1], [0, 2]] and batches.latest() == [0, 2]
    batches.taken = 4
    assert batches.latest() == [] and batches.loader is data
