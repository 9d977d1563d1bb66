"""How sure it is that a state dict which is loaded with `strict=False` has other names than the model."""

import pytest
from engine_support import found

LOAD = """
import torch
from torch import nn

model = nn.Linear(4, 2)
state = torch.load("last.pt")
{renaming}
model.load_state_dict(state, strict=False)
print(model(torch.load("batch.pt")))
"""
WRAPPING = "import torch\nmodel = torch.nn.DataParallel(net)\nmodel.load_state_dict(torch.load('a.pt'))\n"


@pytest.mark.parametrize(
    ("renaming", "files", "confidence"),
    [
        ("", {}, "possible"),
        ("state = {key.replace('module.', ''): value for key, value in state.items()}", {}, "certain"),
        ("", {"train.py": WRAPPING}, "possible"),
        ("", {"train.py": "import torch\nmodel = torch.nn.Linear(4, 2)\n"}, "possible"),
    ],
)
def test_something_must_tell_of_other_names(renaming: str, files: dict[str, str], confidence: str) -> None:
    findings = found("DL604", LOAD.format(renaming=renaming), files)
    assert [each.confidence for each in findings] == [confidence]
