"""What the rules about checkpoints find, and what a run of the same script says: the two meet at one place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confirm_support import observed

from dllint.config.load import ConfigLoader, Source
from dllint.config.resolve import resolve
from dllint.confirm.verdicts import settle
from dllint.runner import lint_files

pytestmark = pytest.mark.slow

_PARTS = """import copy

import numpy as np
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

data = np.load("data.npz")
loader = DataLoader(TensorDataset(torch.from_numpy(data["x"]), torch.from_numpy(data["y"])), 8, shuffle=True)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = optim.SGD(model.parameters(), lr=3.0, momentum=0.9)
criterion = nn.CrossEntropyLoss()
"""

_RESUMED = """checkpoint = torch.load("last.pt")
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
"""

_EPOCH = """    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""

_STATE = '{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}'

_EARLIER = f"""import numpy as np

draw = np.random.default_rng(0)
x = draw.normal(size=(64, 10)).astype("float32")
np.savez("data.npz", x=x, y=(x[:, 0] > 0).astype("int64"))
{_PARTS}
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
scaler.scale(torch.ones(1))
for epoch in range(4):
{_EPOCH}    scheduler.step()
torch.save({{**{_STATE}, "scheduler": scheduler.state_dict(), "scaler": scaler.state_dict()}}, "last.pt")
torch.save({{f"module.{{key}}": value for key, value in model.state_dict().items()}}, "wrapped.pt")
torch.save(model.state_dict(), "bare.pt")
"""


def loading(path: str) -> str:
    return f"""state = torch.load("{path}")
state = {{name.removeprefix("_orig_mod."): value for name, value in state.items()}}
model.load_state_dict(state, strict=False)
for epoch in range(2):
{_EPOCH}"""


def scheduled(restoring: str = "") -> str:
    return f"""scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
{_RESUMED}{restoring}
for epoch in range(checkpoint["epoch"] + 1, 8):
{_EPOCH}    scheduler.step()
"""


def scaled(restoring: str = "") -> str:
    return f"""scaler = torch.amp.GradScaler("cpu")
{_RESUMED}{restoring}
for epoch in range(checkpoint["epoch"] + 1, 8):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def counted(epochs: str) -> str:
    return f"""{_RESUMED}for epoch in range({epochs}):
{_EPOCH}    torch.save({_STATE}, "last.pt")
"""


def averaged(saving: str = "") -> str:
    return f"""ema = torch.optim.swa_utils.AveragedModel(model)
for epoch in range(3):
{_EPOCH}        ema.update_parameters(model)
    state = {_STATE}
{saving}    torch.save(state, "with-average.pt")
"""


def selected(copied: str) -> str:
    return f"""best_loss = float("inf")
for epoch in range(6):
{_EPOCH}    with torch.no_grad():
        loss = sum(criterion(model(x), y).item() for x, y in loader)
    if epoch == 0 or loss < best_loss:
        best_loss, best = loss, {copied}
model.load_state_dict(best)
"""


def fitted(callbacks: str, **given: str) -> str:
    told = "".join(f', {name}="{value}"' for name, value in given.items())
    return f"""import lightning.pytorch as pl
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = model

    def training_step(self, batch, index):
        x, y = batch
        logits = self.net(x)
        loss = criterion(logits, y)
        self.log("accuracy", (logits.argmax(1) == y).float().mean(), on_epoch=True)
        self.log("loss", loss, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return optim.SGD(self.parameters(), lr=0.1)

callbacks = [{callbacks}]
trainer = pl.Trainer(max_epochs=1, callbacks=callbacks, accelerator="cpu", logger=False, enable_progress_bar=False)
trainer.fit(Net(), loader{told})
"""


BUGS = {
    "DL604": loading("wrapped.pt"),
    "DL710": fitted("ModelCheckpoint(save_top_k=1)", ckpt_path="last"),
    "DL711": counted("9"),
    "DL713": scheduled(),
    "DL714": scaled(),
    "DL715": averaged(),
    "DL716": fitted('ModelCheckpoint(monitor="accuracy"), EarlyStopping("loss")'),
    "DL719": selected("model.state_dict()"),
}
CORRECT = {
    "DL604": loading("bare.pt"),
    "DL710": fitted("ModelCheckpoint(save_last=True)", ckpt_path="last"),
    "DL711": counted('checkpoint["epoch"] + 1, 9'),
    "DL713": scheduled('scheduler.load_state_dict(checkpoint["scheduler"])'),
    "DL714": scaled('scaler.load_state_dict(checkpoint["scaler"])'),
    "DL715": averaged('    state["ema"] = ema.state_dict()\n'),
    "DL716": fitted('ModelCheckpoint(monitor="accuracy", mode="max"), EarlyStopping("loss")'),
    "DL719": selected("copy.deepcopy(model.state_dict())"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, and with what an earlier run has left."""
    path = tmp_path_factory.mktemp("resumed")
    subprocess.run([sys.executable, "-c", _EARLIER], cwd=path, check=True)
    return path


def script(folder: Path, name: str, body: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in a folder of its own, which runs where the data are."""
    monkeypatch.chdir(folder)
    path = folder / name / "train.py"
    path.parent.mkdir()
    path.write_text(_PARTS + body)
    return path


@pytest.mark.parametrize("code", BUGS)
def test_what_is_found_is_confirmed(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script(folder, f"{code}-bug", BUGS[code], monkeypatch)
    asked = Source("command line", path.parent, {"select": [code]})  # some rules are off by default
    settings = resolve(ConfigLoader(isolated=True, overrides=[asked]).load(path.parent))
    report = lint_files([path], settings, cache=False)
    findings = [finding for finding in (*report.findings, *report.questions) if finding.code == code]
    settled = settle(findings, observed(path).records).settled
    assert [item.answer for item in settled] == ["CONFIRMED"]


@pytest.mark.parametrize("code", CORRECT)
def test_what_is_correct_is_refuted(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script(folder, f"{code}-correct", CORRECT[code], monkeypatch)
    (record,) = observed(path).records
    assert record.stop == "end", record.error
    assert [item.verdict for item in record.judgements if item.rule == code] == ["REFUTED"]
