"""The loops of ``loops_bad`` without their bugs."""

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


class DroppingInTraining(Net):
    def forward(self, x):
        return self.head(F.dropout(self.body(x), 0.5, training=self.training))  # REFUTED DL216


def batches(n=6):
    return [(torch.randn(8, 10), torch.randint(0, 4, (8,))) for _ in range(n)]


def logits_into_cross_entropy():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()  # REFUTED DL101, DL111, DL115, DL201, DL205, DL206, DL210
        optimizer.step()  # REFUTED DL202, DL203


def logits_into_bce():
    model = Net()
    for x, y in batches():
        F.binary_cross_entropy_with_logits(model(x), F.one_hot(y, 4).float())  # REFUTED DL103


def nll_of_log_probabilities():
    model = Net(nn.LogSoftmax(dim=1))
    for x, y in batches():
        nn.NLLLoss()(model(x), y)  # REFUTED DL104


def padding_ignored():
    model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
    for _ in range(6):
        tokens = torch.randint(1, 20, (8, 12))
        for row, length in enumerate(torch.randint(3, 9, (8,))):
            tokens[row, length:] = 0
        logits = model(tokens)
        F.cross_entropy(logits.view(-1, 20), tokens.view(-1), ignore_index=0)  # REFUTED DL108


def no_padding():
    model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
    for _ in range(6):
        tokens = torch.randint(1, 20, (8, 12))
        F.cross_entropy(model(tokens).view(-1, 20), tokens.view(-1))  # NOT CONFIRMED DL108


def targets_in_place():
    model, teacher = Net(), Net()
    for x, y in batches():
        scores = model(x)
        soft = teacher(x).detach().softmax(1)
        F.cross_entropy(scores, soft).backward()  # REFUTED DL106, DL111
        F.kl_div(model(x).log_softmax(1), soft, reduction="batchmean")  # REFUTED DL112
        F.mse_loss(model(x).mean(1), y.float())  # REFUTED DL117
        F.binary_cross_entropy(model(x).sigmoid(), F.one_hot(y, 4).float())  # REFUTED DL102


def rotated():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in batches():
        optimizer.step()  # REFUTED DL202, DL203
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()


def cleared_by_hand():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        for p in model.parameters():
            p.grad = None
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # REFUTED DL202


def cleared_to_zeros():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, y in batches():
        optimizer.zero_grad(set_to_none=False)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # REFUTED DL202, DL203


def evaluated():
    model = DroppingInTraining()
    model.eval()
    with torch.no_grad():
        for x, _ in batches():
            model(x).argmax(1)  # REFUTED DL207


def accumulated():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number, (x, y) in enumerate(batches(12)):
        loss = F.cross_entropy(model(x), y) / 3
        loss.backward()  # REFUTED DL210
        if (number + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()


def clipped():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in batches():
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # REFUTED DL212, DL213
        scaler.step(optimizer)  # REFUTED DL214
        scaler.update()


def weak_decay():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=1e-6)  # REFUTED DL301
    for x, y in batches(30):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def scheduled_in_time():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()  # REFUTED DL303, DL305


def scheduled_per_epoch():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
    for _ in range(3):
        for x, y in torch.utils.data.DataLoader(batches(10), batch_size=None):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        scheduler.step()  # REFUTED DL304


def saved():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "all.pt")  # REFUTED DL701, DL717


logits_into_cross_entropy()
logits_into_bce()
nll_of_log_probabilities()
padding_ignored()
no_padding()
targets_in_place()
rotated()
cleared_by_hand()
cleared_to_zeros()
evaluated()
accumulated()
clipped()
weak_decay()
scheduled_in_time()
scheduled_per_epoch()
saved()
