"""Loops with one bug each. A comment names the verdict that its line is to get."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, last=None):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(16, 4)
        self.last = last or nn.Identity()

    def forward(self, x):
        return self.last(self.head(self.body(x)))


class AlwaysDropping(Net):
    def forward(self, x):
        return self.head(F.dropout(self.body(x), 0.5))  # CONFIRMED DL216


def batches(n=6):
    return [(torch.randn(8, 10), torch.randint(0, 4, (8,))) for _ in range(n)]


def softmax_before_cross_entropy():
    model = Net(nn.Softmax(dim=1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()  # CONFIRMED DL101
        optimizer.step()


def sigmoid_before_cross_entropy():
    model = Net()
    for x, y in batches():
        nn.CrossEntropyLoss()(torch.sigmoid(model(x)).view(8, 4), y)  # CONFIRMED DL101


def sigmoid_before_bce_with_logits():
    model = Net(nn.Sigmoid())
    for x, y in batches():
        F.binary_cross_entropy_with_logits(model(x), F.one_hot(y, 4).float())  # CONFIRMED DL103


def nll_of_logits():
    model = Net()
    for x, y in batches():
        nn.NLLLoss()(model(x), y)  # CONFIRMED DL104


def padding_counted():
    model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
    for _ in range(6):
        tokens = torch.randint(1, 20, (8, 12))
        for row, length in enumerate(torch.randint(3, 9, (8,))):
            tokens[row, length:] = 0
        logits = model(tokens)
        F.cross_entropy(logits.view(-1, 20), tokens.view(-1))  # CONFIRMED DL108


def one_class():
    head = nn.Linear(10, 1)
    for x, y in batches():
        F.cross_entropy(head(x), torch.zeros_like(y)).backward()  # CONFIRMED DL115


def swapped():
    model = Net()
    for x, y in batches():
        F.cross_entropy(F.one_hot(y, 4).float(), model(x).softmax(1)).backward()  # CONFIRMED DL111


def broadcast():
    head = nn.Linear(10, 1)
    for x, y in batches():
        F.mse_loss(head(x), y.float()).backward()  # CONFIRMED DL117


def divergence_of_probabilities():
    model = Net()
    for x, _ in batches():
        nn.KLDivLoss(reduction="batchmean")(model(x).softmax(1), torch.full((8, 4), 0.25))  # CONFIRMED DL112


def indices_as_numbers():
    model = Net()
    for x, y in batches():
        F.cross_entropy(model(x)[:, 0], y.float())  # CONFIRMED DL106


def saturated():
    for x, y in batches():
        nn.BCELoss()(torch.sigmoid(100 * x[:, 0]), (y > 1).float())  # CONFIRMED DL102


def stepped_past_the_scaler():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in batches():
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        optimizer.step()  # CONFIRMED DL214


def no_step():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()  # CONFIRMED DL201


def no_zero_grad():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in batches():
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # CONFIRMED DL202


def cleared_before_step():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in batches():
        F.cross_entropy(model(x), y).backward()
        optimizer.zero_grad()  # CONFIRMED DL203
        optimizer.step()


def cleared_to_zeros_before_step():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        F.cross_entropy(model(x), y).backward()
        optimizer.zero_grad(set_to_none=False)  # CONFIRMED DL203
        optimizer.step()


def forward_without_gradients():
    model = Net()
    for x, y in batches():
        with torch.no_grad():
            loss = F.cross_entropy(model(x), y)
        try:
            loss.backward()  # CONFIRMED DL205
        except RuntimeError as error:
            print(error)


def laundered():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        optimizer.zero_grad()
        loss = torch.tensor(F.cross_entropy(model(x), y).item(), requires_grad=True)
        loss.backward()  # CONFIRMED DL206
        optimizer.step()


def summed_losses_laundered():
    model = Net()
    for x, y in batches():
        parts = [F.cross_entropy(model(x), y).item() for _ in range(2)]
        torch.tensor(parts, requires_grad=True).mean().backward()  # CONFIRMED DL206


def evaluated_in_training_mode():
    model = Net()
    with torch.no_grad():
        for x, _ in batches():
            model(x).argmax(1)  # CONFIRMED DL207


def always_dropping():
    model = AlwaysDropping().eval()
    for x, _ in batches():
        model(x)


def accumulated_whole():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number, (x, y) in enumerate(batches(12)):
        loss = F.cross_entropy(model(x), y)
        loss.backward()  # CONFIRMED DL210
        if (number + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()


def clipped_after_step():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # CONFIRMED DL212


def clipped_while_scaled():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in batches():
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # CONFIRMED DL213
        scaler.step(optimizer)
        scaler.update()


def strong_decay():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=0.5)  # CONFIRMED DL301
    for x, y in batches(30):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def scheduled_too_early():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for x, y in batches():
        scheduler.step()  # CONFIRMED DL303
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def scheduled_per_batch():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
    for _ in range(2):
        for x, y in torch.utils.data.DataLoader(batches(10), batch_size=None):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            scheduler.step()  # CONFIRMED DL304


def scheduled_twice():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 50)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()
        scheduler.step()  # CONFIRMED DL305


def saved_without_optimizer():
    torch.save({"model": Net().state_dict(), "epoch": 3}, "incomplete.pt")  # CONFIRMED DL701


def saved_in_a_wrapper():
    torch.save(nn.DataParallel(Net()).state_dict(), "wrapped.pt")  # CONFIRMED DL717


softmax_before_cross_entropy()
sigmoid_before_cross_entropy()
sigmoid_before_bce_with_logits()
nll_of_logits()
padding_counted()
one_class()
swapped()
broadcast()
divergence_of_probabilities()
indices_as_numbers()
saturated()
stepped_past_the_scaler()
no_step()
no_zero_grad()
cleared_before_step()
cleared_to_zeros_before_step()
forward_without_gradients()
laundered()
summed_losses_laundered()
evaluated_in_training_mode()
always_dropping()
accumulated_whole()
clipped_after_step()
clipped_while_scaled()
strong_decay()
scheduled_too_early()
scheduled_per_batch()
scheduled_twice()
saved_without_optimizer()
saved_in_a_wrapper()
