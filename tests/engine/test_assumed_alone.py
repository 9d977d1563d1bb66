"""A claim assumes what it depends on, and nothing else that is not known there."""

from __future__ import annotations

import pytest
from engine_support import found, kinds

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


LOADED = """
import torch
from corpora import make_corpus

corpus = make_corpus("book.txt")
model = torch.nn.Embedding(len(corpus.ids), 8)
if {trains}:
    optimizer = torch.optim.Adam(model.parameters())
    for x in corpus.batches():
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    torch.save(model.state_dict(), "model.pt")
if args.load:
    model.load_state_dict(torch.load("model.pt"))
"""
CORPORA = "from corpus import Corpus\n\ndef make_corpus(path):\n    return Corpus(path)\n"
CORPUS = """
class Corpus:
    def __init__(self, path):
        self.text = open(path).read()
        self.ids = {char: i for i, char in enumerate(set(self.text))}
"""


@pytest.mark.parametrize(("trains", "is_assumed"), [("not args.load", False), ("args.train", True)])
def test_a_run_that_loads_weights_and_does_not_train_has_them_from_another(trains: str, is_assumed: bool) -> None:
    files = {"corpora.py": CORPORA, "corpus.py": CORPUS}
    (finding,) = found("DL424", LOADED.format(trains=trains), files)
    assert bool(finding.assumptions) is is_assumed


BEST = """
import os
import torch

model = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(model.parameters())
best_acc, start = 0.0, 0
if os.path.exists("last.pt"):
    state = torch.load("last.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    start = state["epoch"] + 1
for epoch in range(start, 90):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    accuracy = score_of(model)["accuracy"]
    if accuracy > best_acc:
        best_acc = accuracy
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "best_acc": best_acc}
    torch.save(state, "last.pt")
"""


def test_a_best_score_is_one_whatever_it_is() -> None:
    (finding,) = found("DL722", BEST)
    assert not finding.assumptions


WORDS = """
import torch
from torch.utils.data import DataLoader, Dataset

class Words(Dataset):
    def __init__(self, listing, keeps):
        self.texts = None
        self.lengths = {lengths}
        if listing is not None:
            self.texts = []
            for line in open(listing):
                self.texts.append(line.strip())

    def __len__(self):
        return 9

    def __getitem__(self, index):
        if {test}:
            return torch.LongTensor([ord(char) for char in self.texts[index]])
        return torch.ones(9)

for x in DataLoader(Words("a.txt", False), batch_size=4, collate_fn=torch.cat):
    print(x)
for x in DataLoader(Words("b.txt", False), batch_size=4):
    print(x)
"""


@pytest.mark.parametrize(
    ("test", "lengths", "assumed"),
    [("self.texts", "[]", set()), ("self.lengths", "unknown()", {"alternative"})],
)
def test_a_sample_is_one_of_a_list_that_is_not_empty(test: str, lengths: str, assumed: set[str]) -> None:
    (finding,) = found("DL406", WORDS.replace("{test}", test).replace("{lengths}", lengths))
    assert {each.kind for each in finding.assumptions} == assumed


SCORED = """
import evaluate
from peft import PeftConfig, PeftModel
from transformers import AutoModelForSeq2SeqLM

config = PeftConfig.from_pretrained("adapter")
model = AutoModelForSeq2SeqLM.from_pretrained({name})
model = PeftModel.from_pretrained(model, "adapter")
rouge = evaluate.load("rouge")
out = model.generate(batch["input_ids"])
print(rouge.compute(predictions=out, references=references))
"""


@pytest.mark.parametrize(
    ("name", "trained", "is_assumed"),
    [
        ("config.base_model_name_or_path", "google/flan-t5-base", False),
        ("config.base_model_name_or_path", "facebook/bart-large", True),
        ("settings.name", "google/flan-t5-base", True),
    ],
)
def test_the_model_of_an_adapter_is_one_of_those_that_the_project_names(
    name: str, trained: str, is_assumed: bool
) -> None:
    files = {"train.py": f'NAME = "{trained}"\n'}
    assert ("effect" in kinds("DL918", SCORED.format(name=name), files)) is is_assumed


ACCUMULATED = """
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("gpt2")
tokenizer.add_special_tokens({{"additional_special_tokens": ["<user>"]}})
model = AutoModelForCausalLM.from_pretrained("gpt2")
{changed}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def collate(rows):
    batch = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
    batch["labels"] = batch["input_ids"].clone()
    return batch

for i, batch in enumerate(DataLoader(rows, batch_size=4, collate_fn=collate)):
    loss = model(input_ids=batch["input_ids"], labels=batch["labels"]).loss
    loss.backward()
    if (i + 1) % 8 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(("changed", "assumed"), [("", []), ("unknown(model)", ["opaque"])])
def test_what_is_done_to_a_tokenizer_does_not_change_the_model(changed: str, assumed: list[str]) -> None:
    assert kinds("DL210", ACCUMULATED.format(changed=changed)) == assumed


FROM_A_FILE = """
import numpy as np
import torch
from torch import nn

model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def batch(split):
    rows = np.memmap("train.bin" if split == "train" else "val.bin", dtype=np.uint16, mode="r")
    places = torch.randint(len(rows) - 8, (4,))
    x = torch.stack([torch.from_numpy(rows[i : i + 8].astype(np.float32)) for i in places])
    if device == "cuda":
        x = x.pin_memory().to(device, non_blocking=True)
    else:
        x = x.to(device)
    return x

for step in range(100):
    loss = nn.functional.mse_loss(model(batch("train")), target)
    loss.backward()
    optimizer.step()
"""


def test_what_is_read_from_a_file_at_places_that_are_drawn_is_not_made_up() -> None:
    assert not kinds("DL202", FROM_A_FILE)
