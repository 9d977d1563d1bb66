"""What looks at functions and modules of torch from the inside, and would notice if they were others."""

import copy
import io
import pickle

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(10, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.second(F.dropout(F.relu(self.first(x)), 0.1, self.training))


def loss_of(scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores, target)


def train(model, loss=F.cross_entropy, steps=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model(torch.randn(8, 10)), torch.randint(0, 4, (8,))).backward()
        optimizer.step()


torch.manual_seed(0)
train(torch.jit.script(Net()), torch.jit.script(loss_of))
with torch.no_grad():
    torch.jit.trace(Net().eval(), torch.randn(2, 10))
train(torch.compile(Net(), backend="eager"))

model = Net()
x = torch.randn(8, 10, requires_grad=True)
checkpoint(model, x, use_reentrant=True).sum().backward()
checkpoint(model, x, use_reentrant=False).sum().backward()

parameters = dict(model.named_parameters())
target = torch.randint(0, 4, (8,))


def functional_loss(values, row, label):
    return F.cross_entropy(torch.func.functional_call(model, values, row), label)


model.eval()
torch.func.grad(functional_loss)(parameters, x, target)
torch.func.vmap(torch.func.grad(functional_loss), (None, 0, 0))(parameters, x.detach()[:, None], target[:, None])
torch.autograd.grad(F.cross_entropy(model(x), target), x, create_graph=True)[0].pow(2).sum().backward()

optimizer = torch.optim.Adam(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
for thing in (model, optimizer, nn.CrossEntropyLoss(), scheduler, torch.amp.GradScaler("cpu")):
    copy.deepcopy(thing)
    pickle.loads(pickle.dumps(thing))
buffer = io.BytesIO()
torch.save(optimizer.state_dict(), buffer)
buffer.seek(0)
optimizer.load_state_dict(torch.load(buffer))
torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)))
print("DIGEST", sum(float(p.sum()) for p in model.parameters()))
