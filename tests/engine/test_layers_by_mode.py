"""What the mode of a model changes: layers that keep statistics or drop, and what its code asks for the mode."""

import re

import pytest
from engine_support import found

SCRIPT = """
import argparse
import json
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
{before}

class Net(nn.Module):
    def __init__(self, options, settings):
        super().__init__()
        self.rate = 0.0
        self.head = nn.Linear(8, 2)
        {layer}

    def forward(self, x):
        more = {{}}
        x = self.embed(x)
        {forward}
        return more["out"]

    def embed(self, x):
        {other}
        return x

def main(train_set, test_set):
    parser = argparse.ArgumentParser()
    parser.add_argument("--norm", action="store_true")
    parser.add_argument("--sure", default=True, type=bool)
    with open("config.json") as file:
        settings = json.load(file)
    model = Net(parser.parse_args(), settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(train_set, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    correct = 0
    with torch.no_grad():
        for x, y in DataLoader(test_set, batch_size=8):
            correct += (model(x).argmax(1) == y).sum().item()
    print(correct)

main(torch.load("train.pt"), torch.load("test.pt"))
"""
FORWARD = "more['out'] = self.head(x)"
BOTH = """
        if {test}:
            low = self.head(x)
            for i in range(2):
                noise = low * i
            parts = []
            parts.append(noise)
            more["noise"] = noise
            out = self.head(x)
            for i in range(2):
                out = out * i
            more["out"] = out
        else:
            {first}
            for i in range(2):
                out = out * i
            more["out"] = out
"""
KEPT = "was = self.training\n        self.eval()\n        {}"


def tier(
    layer: str = "", forward: str = FORWARD, other: str = "", before: str = "", files: dict[str, str] | None = None
) -> str:
    """How sure it is that a model is evaluated in training mode, or nothing where no finding says so."""
    made = re.search(r"self\.(\w+) =", layer)
    used = other or (f"x = self.{made[1]}(x)" if made else "")
    text = SCRIPT.format(layer=layer, forward=forward, other=used, before=before)
    findings = found("DL207", text, files)
    return findings[0].confidence if findings else ""


@pytest.mark.parametrize(
    ("layer", "sure"),
    [
        ("self.norm = nn.BatchNorm1d(8)", True),
        ("self.norm = nn.BatchNorm1d(8, momentum=None)", True),
        ("self.norm = nn.BatchNorm1d(8, track_running_stats=False)", False),
        ("self.norm = nn.LazyBatchNorm1d(track_running_stats=False)", False),
        ("self.norm = nn.InstanceNorm1d(8)", False),
        ("self.norm = nn.InstanceNorm1d(8, track_running_stats=True)", True),
        ("self.norm = nn.LayerNorm(8) if options.norm is None else nn.GroupNorm(2, 8)", False),
        ("self.norm = nn.BatchNorm1d(8) if options.sure else nn.Identity()", True),
        ("self.bert = transformers.BertModel(transformers.BertConfig())", True),
        ("self.vit = timm.create_model('vit_base_patch16_224', pretrained=True, num_classes=2)", False),
        ("self.vit = timm.create_model('vit_base_patch16_224', drop_path_rate=0.1)", True),
        ("self.swin = timm.create_model('swin_tiny_patch4_window7_224')", True),
    ],
)
def test_layers_that_depend_on_the_mode(layer: str, sure: bool) -> None:
    assert tier(layer, before="import timm, transformers") in (("certain", "likely") if sure else ("",))
    assert tier(layer, other="pass", before="import timm, transformers") == ""  # which makes it, and does not use it


@pytest.mark.parametrize(
    ("layer", "configured", "expected"),
    [
        ("self.norm = nn.BatchNorm1d(8) if options.norm else nn.Identity()", "", "possible"),
        ("if options.norm:\n            self.norm = nn.BatchNorm1d(8)", "", "possible"),
        ("self.norm = nn.BatchNorm1d(8) if settings['noisy'] else nn.Identity()", '{"noisy": false}', "possible"),
        ("self.norm = nn.BatchNorm1d(8) if settings['kind'] == 'bn' else nn.Identity()", '{"kind": "ln"}', "possible"),
        ("self.norm = nn.BatchNorm1d(8) if settings['kind'] == 'bn' else nn.Identity()", '{"kind": "bn"}', "certain"),
        ("self.norm = nn.BatchNorm1d(8) if settings['noisy'] else nn.Identity()", '{"noisy": true}', "certain"),
        ("self.norm = nn.BatchNorm1d(8) if settings['noisy'] else nn.Identity()", '{"other": false}', "certain"),
    ],
)
def test_layers_behind_a_setting_that_is_off_are_a_question(layer: str, configured: str, expected: str) -> None:
    found_tier = tier(layer, files={"config.json": configured} if configured else None)
    assert (found_tier == "possible") == (expected == "possible") and found_tier


@pytest.mark.parametrize("file", ["settings.conf", "settings.ini"])
def test_settings_in_files_of_sections(file: str) -> None:
    before = "from configparser import ConfigParser\nsections = ConfigParser()\n"
    before += f"sections.read('{file}')\nnoisy = sections['NET'].getboolean('Noisy')"
    layer = "self.norm = nn.BatchNorm1d(8) if noisy else nn.Identity()"
    assert tier(layer, before=before, files={file: "[NET]\nNoisy = False\n"}) == "possible"
    assert tier(layer, before=before, files={file: "[NET]\nNoisy = True\n"}) in ("certain", "likely")


@pytest.mark.parametrize(
    ("forward", "sure"),
    [
        ("more['out'] = self.head(x) + self.training", True),
        ("more['out'] = F.dropout(self.head(x), 0.5, self.training)", True),
        ("more['out'] = F.dropout(self.head(x), p=0, training=self.training)", False),
        ("more['out'] = F.dropout(self.head(x), self.rate, training=self.training)", False),
        ("more['out'] = self.head(x) * self.options.training", False),
        ("more['out'] = self.head(x) * self.config.training.scale", False),
        ("assert self.training\n        more['out'] = self.head(x)", False),
        (BOTH.format(test="self.training", first="out = self.head(x)"), False),
        (BOTH.format(test="not self.training", first="out = self.head(x)"), True),  # which has more in it then
        (BOTH.format(test="self.training", first="out = self.head(x) / 2"), True),
        (BOTH.format(test="self.training", first="out = self.head(x)") + "\n        more['out'] = noise", True),
        (
            BOTH.format(test="self.training", first="out = self.head(x)") + "\n        more['out'] *= more['noise']",
            True,
        ),
        (f"if self.training:\n            self.head.reset_parameters()\n        {FORWARD}", True),
        (f"if self.training:\n            x += 1\n        {FORWARD}", True),
        (f"if self.training:\n            x = x + 1\n        {FORWARD}", True),
    ],
)
def test_what_the_code_asks_of_the_mode(forward: str, sure: bool) -> None:
    assert tier(forward=forward) in (("certain", "likely") if sure else ("",))


@pytest.mark.parametrize(
    ("then", "sure"),
    [("self.train(was)", False), ("if was:\n            self.train()", False), ("x = x + was", True)],
)
def test_a_mode_that_is_kept_to_be_set_again(then: str, sure: bool) -> None:
    assert tier(other=KEPT.format(then)) in (("certain", "likely") if sure else ("",))
