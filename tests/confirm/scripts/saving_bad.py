"""Checkpoints that lack something, and runs that do not take up all of one."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(0)


def parts():
    model = nn.Linear(8, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)


def step(model, optimizer, scaler=None):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(torch.randn(16, 8)), torch.randint(0, 4, (16,)))
    if scaler is None:
        loss.backward()
        optimizer.step()
    else:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def state_of(epoch, *owners):
    return {"epoch": epoch, **{type(owner).__name__: owner.state_dict() for owner in owners}}


def first_run(path, scaler=None):
    model, optimizer, scheduler = parts()
    for _ in range(5):
        step(model, optimizer, scaler)
        scheduler.step()
    torch.save(state_of(7, model, optimizer, scheduler), path)


def best_without_a_copy():
    model, optimizer, _ = parts()
    best = None
    for number in range(4):
        step(model, optimizer)
        if number == 1:
            best = model.state_dict()
    torch.save(best, "best.pt")  # CONFIRMED DL719
    model.load_state_dict(best)  # CONFIRMED DL719


def best_by_another_name():
    model, optimizer, _ = parts()
    step(model, optimizer)
    best = {name: value.cpu() for name, value in model.state_dict().items()}
    step(model, optimizer)
    model.load_state_dict(best)  # CONFIRMED DL719


def half_resumed():
    first_run("last.pt")
    model, optimizer, scheduler = parts()
    state = torch.load("last.pt")  # CONFIRMED DL711
    model.load_state_dict(state["Linear"])
    optimizer.load_state_dict(state["Adam"])  # CONFIRMED DL714
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(1, 4):
        step(model, optimizer, scaler)
        scheduler.step()  # CONFIRMED DL713
        torch.save(state_of(epoch, model, optimizer, scheduler), "last.pt")


def scaler_begins_anew():
    first_run("scaled.pt", torch.amp.GradScaler("cpu"))
    model, optimizer, _ = parts()
    scaler = torch.amp.GradScaler("cpu")
    state = torch.load("scaled.pt")
    model.load_state_dict(state["Linear"])
    optimizer.load_state_dict(state["Adam"])  # CONFIRMED DL714
    for _ in range(3):
        step(model, optimizer, scaler)


def average_left_out():
    model, optimizer, scheduler = parts()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for number in range(4):
        step(model, optimizer)
        average.update_parameters(model)
        torch.save(state_of(number, model, optimizer, scheduler), "no average.pt")  # CONFIRMED DL715


def gone_with_the_machine():
    model, optimizer, scheduler = parts()
    step(model, optimizer)
    os.makedirs("/kaggle/temp")
    torch.save(state_of(1, model, optimizer, scheduler), "/kaggle/temp/last.pt")  # CONFIRMED DL704


if __name__ == "__main__":
    for program in (
        best_without_a_copy, best_by_another_name, half_resumed, scaler_begins_anew, average_left_out,
        gone_with_the_machine,
    ):  # fmt: skip
        program()
