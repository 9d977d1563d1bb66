"""The closed sets of words in which questions are answered: roles of objects, kinds of tensors, frameworks."""

from __future__ import annotations

from typing import Literal

Role = Literal[
    "optimizer", "scheduler", "scaler", "sampler", "loader", "dataset", "module", "wrapper", "loss", "loss-class",
    "clip", "seed", "generator", "checkpoint", "helper", "",
]  # fmt: skip
"""What an object, or what a callable makes, is for; empty where that is not known."""

TensorKind = Literal["probabilities", "log-probabilities", "logits", ""]
"""What an operation returns, as far as its name tells."""

Framework = Literal[
    "lightning", "lightning-data", "hf-trainer", "hf-callback", "fastai", "mmengine", "accelerate", "fabric", ""
]
"""Whose loop code runs under, or takes part in; empty for a loop of one's own."""
