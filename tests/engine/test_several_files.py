"""A state that may come from one file or another is from a file: which of them it is matters to few claims."""

import pytest
from engine_support import found

from dllint.tiers import confidence_of

CODE = """
import torch
from torch import nn, optim

model = nn.Linear(8, 2)
optimizer = optim.SGD(model.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.StepLR(optimizer, 30)
if args.resume:
    {read}
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
for epoch in range(90):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    scheduler.step()
    state = {{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}}
    torch.save(state, args.resume)
"""
TO_GPU = (
    "state = torch.load(args.resume) if args.gpu is None else torch.load(args.resume, map_location=f'cuda:{args.gpu}')"
)
FROM_URL = "state = torch.hub.load_state_dict_from_url(args.resume) if args.url else torch.load(args.resume)"
FROM_UNKNOWN = "state = torch.load(args.resume) if args.last else settings.first"
DEFAULT = "state = settings.get('state', torch.load(args.resume))"


@pytest.mark.parametrize("code", ["DL711", "DL713"])
@pytest.mark.parametrize(
    ("read", "confidence"),
    [(TO_GPU, "certain"), (FROM_URL, "certain"), (FROM_UNKNOWN, "possible"), (DEFAULT, "possible")],
)
def test_which_file_it_is_is_no_assumption(code: str, read: str, confidence: str) -> None:
    assert [confidence_of(each.assumptions) for each in found(code, CODE.format(read=read))] == [confidence]
