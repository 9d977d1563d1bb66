"""The checkpoints of ``saving_bad`` with all that is needed, and some that look like them."""

import copy

import torch
from saving_bad import first_run, parts, state_of, step
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(0)


def best_copied():
    model, optimizer, _ = parts()
    best = None
    for number in range(4):
        step(model, optimizer)
        if number == 1:
            best = copy.deepcopy(model.state_dict())
    torch.save(model.state_dict(), "weights.pt")  # NOT CONFIRMED DL719
    model.load_state_dict(best)  # REFUTED DL719


def copied_on_the_way():
    model, optimizer, _ = parts()
    target, _, _ = parts()
    for _ in range(3):
        step(model, optimizer)
        target.load_state_dict(model.state_dict())  # NOT CONFIRMED DL719
        model.load_state_dict(model.state_dict())  # NOT CONFIRMED DL719
    again = torch.nn.Linear(8, 4)
    again.load_state_dict(model.state_dict(), assign=True)  # NOT CONFIRMED DL719


def resumed():
    scaler = torch.amp.GradScaler("cpu")
    first_run("last.pt", scaler)
    model, optimizer, scheduler = parts()
    state = torch.load("last.pt")  # REFUTED DL711
    model.load_state_dict(state["Linear"])
    optimizer.load_state_dict(state["Adam"])  # REFUTED DL714
    scheduler.load_state_dict(state["StepLR"])
    scaler.load_state_dict(scaler.state_dict())
    for epoch in range(state["epoch"] + 1, 11):
        step(model, optimizer, scaler)
        scheduler.step()  # REFUTED DL713
        torch.save(state_of(epoch, model, optimizer, scheduler), "last.pt")  # REFUTED DL704


def fine_tuned():
    """Begins anew with the weights of another run: nothing else is to be taken up."""
    first_run("pretrained.pt")
    model, optimizer, scheduler = parts()
    model.load_state_dict(torch.load("pretrained.pt")["Linear"])  # NOT CONFIRMED DL711
    for epoch in range(1, 3):
        step(model, optimizer)
        scheduler.step()  # NOT CONFIRMED DL713
        torch.save(state_of(epoch, model, optimizer, scheduler), "tuned.pt")


def average_saved():
    model, optimizer, scheduler = parts()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for number in range(4):
        step(model, optimizer)
        average.update_parameters(model)
        torch.save(state_of(number, model, optimizer, scheduler, average), "average.pt")  # REFUTED DL715


def average_in_its_own_file():
    model, optimizer, scheduler = parts()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for number in range(4):
        step(model, optimizer)
        average.update_parameters(model)
        torch.save(state_of(number, model, optimizer, scheduler), "last.pt")  # REFUTED DL715
        torch.save(average.module.state_dict(), "average.pt")


if __name__ == "__main__":
    for program in (
        best_copied, copied_on_the_way, resumed, fine_tuned, average_saved, average_in_its_own_file,
    ):  # fmt: skip
        program()
