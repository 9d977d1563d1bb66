"""Correct training on a GPU, in the ways that GPUs have of their own."""

import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
torch.backends.cudnn.benchmark = False
device = torch.device("cuda")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def mlp(*sizes):
    layers = [part for pair in zip(sizes, sizes[1:]) for part in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1]).to(device)


def images(samples=64):
    return TensorDataset(torch.randn(samples, 3, 8, 8), torch.randint(0, 4, (samples,)))


def batches(shuffle=True):
    for x, y in DataLoader(images(), 8, shuffle=shuffle, num_workers=2, pin_memory=True):
        yield x.to(device, non_blocking=True), y.to(device, non_blocking=True)


def evaluate(model):
    model.eval()
    with torch.no_grad():
        for x, y in batches(shuffle=False):
            F.cross_entropy(model(x), y)


def mixed_precision():
    model = Net().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 16)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**18)  # some of the first steps are left out
    for _ in range(4):
        model.train()
        for number, (x, y) in enumerate(batches()):
            with torch.autocast("cuda", torch.float16):
                loss = F.cross_entropy(model(x.to(memory_format=torch.channels_last)), y) / 2  # REFUTED DL101
            scaler.scale(loss).backward()
            if number % 2:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # REFUTED DL212, DL213
                scaler.step(optimizer)
                scaler.update()
                schedule.step()
                optimizer.zero_grad(set_to_none=True)
        model.eval()
        with torch.inference_mode():
            for x, y in batches(shuffle=False):
                F.cross_entropy(model(x), y)  # REFUTED DL101, DL207
    return model


def bfloat16_compiled():
    model = Net().to(device)
    compiled = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    for _ in range(2):
        compiled.train()
        for x, y in batches():
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16):
                loss = F.cross_entropy(compiled(x), y)  # REFUTED DL101
            loss.backward()
            optimizer.step()  # REFUTED DL202, DL203, DL204
        evaluate(compiled)
    return model


def captured():
    """Steps of which a graph of CUDA is made, which is then replayed, as torch's documentation has it."""
    model = mlp(8, 16, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
    x, y = torch.randn(16, 8, device=device), torch.randint(0, 4, (16,), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(20):
        x.copy_(torch.randn(16, 8))
        y.copy_(torch.randint(0, 4, (16,)))
        graph.replay()
    print("CAPTURED", bool(loss.isfinite()))
    return model


def on_another_stream():
    """Batches are copied on a stream of their own, while the last one is trained on."""
    model, aside = mlp(8, 16, 4), torch.cuda.Stream()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(128, 8), torch.randint(0, 4, (128,)))
    waiting = None
    for batch in DataLoader(data, 8, shuffle=True, pin_memory=True):
        with torch.cuda.stream(aside):
            moved = [part.to(device, non_blocking=True) for part in batch]
        if waiting is not None:
            optimizer.zero_grad()
            F.cross_entropy(model(waiting[0]), waiting[1]).backward()
            optimizer.step()  # REFUTED DL202
        torch.cuda.current_stream().wait_stream(aside)
        for part in moved:
            part.record_stream(torch.cuda.current_stream())
        waiting = moved
    return model


def in_a_group():
    """DistributedDataParallel, and what shards a model, in a group of one rank."""
    dist.init_process_group("nccl", rank=0, world_size=1, store=dist.HashStore())
    torch.cuda.set_device(0)
    model, sharded = mlp(8, 16, 4), mlp(8, 16, 4)
    fully_shard(sharded)
    for each in (DistributedDataParallel(model, device_ids=[0]), sharded):
        optimizer = torch.optim.AdamW(each.parameters(), lr=1e-3)
        for _ in range(8):
            x, y = torch.randn(16, 8, device=device), torch.randint(0, 4, (16,), device=device)
            optimizer.zero_grad()
            F.cross_entropy(each(x), y).backward()
            nn.utils.clip_grad_norm_(each.parameters(), 1.0)  # REFUTED DL212
            optimizer.step()  # REFUTED DL202, DL203
    dist.destroy_process_group()
    return model


PROGRAMS = (mixed_precision, bfloat16_compiled, captured, on_another_stream, in_a_group)
for program in PROGRAMS:
    if not sys.argv[1:] or program.__name__ in sys.argv:
        total = sum(p.detach().double().sum() for p in program().parameters())
        drawn = torch.rand(1).item(), torch.rand(1, device=device).item()
        print("DIGEST", program.__name__, repr(float(total)), *drawn)
