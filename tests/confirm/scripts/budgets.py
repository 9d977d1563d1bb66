"""Trains in a process of its own, in a thread, and in a process again, each for longer than any budget."""

import multiprocessing
import threading

import torch
import torch.nn as nn
import torch.nn.functional as F


def train():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(1000):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        optimizer.step()


if __name__ == "__main__":
    for kind in (multiprocessing.Process, threading.Thread, multiprocessing.Process):
        worker = kind(target=train)
        worker.start()
        worker.join()
        print("CODE", getattr(worker, "exitcode", None))
