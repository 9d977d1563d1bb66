"""What needs a group of processes fails where no code starts one; whether some does has to be certain."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.events import CallRefused

HEAD = """
import torch
import torch.distributed as dist
from torch.distributed import init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DistributedSampler

model = torch.nn.Linear(3, 3)
images = torch.load("images.pt")
options = torch.load("options.pt")

def save(path, model):
    return path

"""
MAIN = "\nif __name__ == '__main__':\n    {}\n    save(1)\n"


def goes_on(folder: Path, use: str, more: str = "", **files: str) -> bool:
    """Whether a script gets to a call after some use that is refused itself."""
    (folder / "README.md").write_text("# Nets", "utf-8")
    return bool(run(folder, HEAD + more + MAIN.format(use), **files).all_of(CallRefused))


SETUP = "def setup():\n    init_process_group('nccl')\n"


@pytest.mark.parametrize(
    ("use", "more"),
    [
        ("sampler = DistributedSampler(images)", ""),
        ("sampler = DistributedSampler(images, shuffle=True)", ""),
        ("model = DDP(model, device_ids=[0])", ""),
        ("model = DDP(model)", SETUP),
    ],
)
def test_no_group(tmp_path: Path, use: str, more: str) -> None:
    assert not goes_on(tmp_path, use, more)
    assert not goes_on(tmp_path, use, more, other="import torch.distributed as dist\ndist.init_process_group()\n")


@pytest.mark.parametrize(
    ("use", "more"),
    [
        ("sampler = DistributedSampler(images, num_replicas=2, rank=0)", ""),
        ("sampler = DistributedSampler(images, **options)", ""),
        ("dist.init_process_group('nccl')\n    model = DDP(model)", ""),
        ("setup()\n    model = DDP(model)", SETUP),
        ("if torch.cuda.device_count() > 1:\n        model = DDP(model)", ""),
        ("model = DDP(model)", "import deepspeed\n"),
    ],
)
def test_what_may_have_one(tmp_path: Path, use: str, more: str) -> None:
    assert goes_on(tmp_path, use, more)


def test_another_file_may_start_one(tmp_path: Path) -> None:
    start = "import torch.distributed as dist\ndef setup():\n    dist.init_process_group('nccl')\n"
    user = "from other import setup\nsetup()\n"
    assert goes_on(tmp_path, "model = DDP(model)", user, other=start)
    assert goes_on(tmp_path, "model = DDP(model)", other="from main import save\n" + start + "setup()\nsave(1, 2)\n")
