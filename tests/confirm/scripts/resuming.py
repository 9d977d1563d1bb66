"""Trains, saves a checkpoint, and resumes from it: all of it, or a part as the argument says."""

import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

how = sys.argv[1]
torch.manual_seed(0)
model = nn.Linear(8, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
start = 0
if os.path.exists("last.pt") and how != "never":
    state = torch.load("last.pt")
    start = state["step"]
    model.load_state_dict(state["model"])
    if how != "weights":
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
for step in range(start, 40):
    optimizer.zero_grad()
    F.cross_entropy(model(torch.randn(16, 8)), torch.randint(0, 4, (16,))).backward()
    optimizer.step()
    scheduler.step()
    if step % 5 == 4:
        parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
        torch.save({"step": step + 1, **{name: part.state_dict() for name, part in parts.items()}}, "last.pt")
