"""A claim assumes what it depends on, and nothing else that is not known there."""

from __future__ import annotations

import pytest
from engine_support import kinds

RESUMED = """
import torch
from torch import nn, optim
import yaml

with open("config.yaml") as file:
    config = yaml.safe_load(file) if {from_file} else {other}
model = nn.Linear(8, 2)
if config["kind"] == "adam":
    optimizer = optim.Adam(model.parameters())
elif config["kind"] == "sgd":
    optimizer = optim.SGD(model.parameters(), lr=0.1)
else:
    optimizer = optim.AdamW(model.parameters())
checkpoint = torch.load("last.pt")
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
for epoch in range(config["epochs"]):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}}, "last.pt")
"""


@pytest.mark.parametrize(("from_file", "other"), [("True", "{}"), ("is_there(file)", "unknown()")])
def test_epochs_start_again_whichever_optimizer_it_is(from_file: str, other: str) -> None:
    assert not kinds("DL711", RESUMED.format(from_file=from_file, other=other))


KEPT = """
import torch
from elsewhere import create_scheduler

def fit(model, loader, args):
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = create_scheduler(args, {given})
    best = 9
    for epoch in range(args.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
        if loss.item() < best:
            best = loss.item()
            weights = model.state_dict()
    model.load_state_dict(weights)
"""


@pytest.mark.parametrize(("given", "is_assumed"), [("optimizer", False), ("model", True)])
def test_a_step_changes_weights_in_place_whoever_got_the_optimizer(given: str, is_assumed: bool) -> None:
    assert ("opaque" in kinds("DL719", KEPT.format(given=given))) is is_assumed
