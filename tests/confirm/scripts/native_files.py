"""What libraries write without Python is where the script looks for it; the assertions hold wherever it is run."""

import importlib.util
import os
import sqlite3
from pathlib import Path

import safetensors.torch
import tokenizers
import torch
from torch.profiler import profile


def has(*modules):
    return all(importlib.util.find_spec(module) for module in modules)


def of_safetensors(folder):
    path = os.path.join(folder, "model.safetensors")
    safetensors.torch.save_file({"weight": torch.ones(3)}, path)
    assert safetensors.torch.load_file(path)["weight"].sum() == 3
    assert isinstance(safetensors.safe_open | None, object)
    with safetensors.safe_open(path, framework="pt") as file:
        assert list(file.keys()) == ["weight"]


def of_tokenizers(folder):
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    words.save(f"{folder}/tokenizer.json")
    assert tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json").get_vocab_size() == 2
    assert [Path(file).name for file in words.model.save(folder)] == ["vocab.json"]
    assert Path(folder, "vocab.json").read_text()


def of_torch(folder):
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), f"{folder}/script.pt")
    assert torch.jit.load(f"{folder}/script.pt").weight.shape == (2, 2)
    with profile() as recorder:
        torch.ones(2) + 1
    recorder.export_chrome_trace(f"{folder}/trace.json")
    assert os.path.getsize(f"{folder}/trace.json")


def of_databases(folder):
    for name in (f"{folder}/study.db", "known.db"):
        with sqlite3.connect(name) as connection:
            connection.execute("create table if not exists trials (value)")
            connection.execute("insert into trials values (1)")
        assert sqlite3.connect(database=name).execute("select count(*) from trials").fetchone() == (1,)
    assert sqlite3.connect("file::memory:?cache=shared", uri=True).execute("select 1").fetchone() == (1,)
    assert sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,)


def of_others(folder):
    if has("h5py"):
        import h5py

        with h5py.File(f"{folder}/a.h5", "w") as file:
            file["x"] = [1.0]
        with h5py.File(name=f"{folder}/a.h5", mode="a") as file:
            file["y"] = [1.0]
        with h5py.File(f"{folder}/a.h5") as file:
            assert sorted(file) == ["x", "y"]
    if has("cv2"):
        import cv2
        import numpy

        assert cv2.imwrite(f"{folder}/a.png", numpy.zeros((4, 4, 3), "uint8"))
        assert cv2.imread(f"{folder}/a.png").shape == (4, 4, 3)
    if has("soundfile"):
        import soundfile

        soundfile.write(f"{folder}/a.wav", [0.0] * 8, 8000)
        assert len(soundfile.read(f"{folder}/a.wav")[0]) == 8
    if has("pyarrow"):
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"x": [1]}), f"{folder}/a.parquet")
        assert os.path.getsize(f"{folder}/a.parquet")


for folder in ("known", "new/deep"):
    os.makedirs(folder, exist_ok=True)
    for write in (of_safetensors, of_tokenizers, of_torch, of_databases, of_others):
        write(folder)
    os.remove("known.db")
print("DONE")
