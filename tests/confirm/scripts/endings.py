"""Trains, and ends in the way that is asked for."""

import atexit
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

ending = sys.argv[1]
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
atexit.register(lambda: print("ATEXIT"))


def step():
    optimizer.zero_grad()
    F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
    optimizer.step()


def train(steps):
    try:
        for number in range(steps):
            step()
            if ending == "raise" and number == 4:
                raise RuntimeError("the disk is full")
            if ending == "exit" and number == 4:
                sys.exit(5)
            if ending == "interrupt" and number == 4:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        torch.save(model.state_dict(), "interrupted.pt")
        raise
    finally:
        torch.save(model.state_dict(), "final.pt")
        print("FINALLY", os.path.exists("final.pt"))


if ending == "stubborn":
    while True:
        try:
            train(1000)
        except:
            print("AGAIN")
elif ending == "slow":
    try:
        for number in range(1_000_000):
            step()
            time.sleep(0.02)
            if number == 10:
                print("STEPPING")
    finally:
        for name in ("last.pt", "final.pt"):
            torch.save(model.state_dict(), name)
        print("FINALLY", os.path.exists("final.pt"))
elif ending == "idle":
    train(6)
    try:
        while True:
            time.sleep(0.05)
    finally:
        print("WOKEN")
else:
    train(1000 if ending == "budget" else 6)
