"""How sure it is that a state dict which is loaded with `strict=False` has other names than the model."""

import pytest
from engine_support import found

from dllint.tiers import confidence_of

HEAD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

class Larger(Net):
    pass

class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)
"""
SAVE = """
saved = {saved}
torch.save({{"model": saved.state_dict()}}, "last.pt")
"""
LOAD = """
model = {loaded}
state = torch.load("last.pt")["model"]
{renaming}
model.load_state_dict(state, strict=False)
print(model(torch.load("batch.pt")))
"""
WRAPPING = "import torch\nmodel = torch.nn.DataParallel(net)\nmodel.load_state_dict(torch.load('a.pt'))\n"
STRIPPING = "state = {key.replace('module.', ''): value for key, value in state.items()}"


def confidences(code: str, files: dict[str, str]) -> list[str]:
    return [confidence_of(each.assumptions) for each in found("DL604", HEAD + code, files)]


@pytest.mark.parametrize("renaming", ["", STRIPPING])
@pytest.mark.parametrize("files", [{}, {"train.py": WRAPPING}])
def test_that_names_differ_is_a_question_where_nothing_shows_it(renaming: str, files: dict[str, str]) -> None:
    assert confidences(LOAD.format(loaded="Net()", renaming=renaming), files) == ["possible"]


@pytest.mark.parametrize(
    ("saved", "loaded", "renaming", "confidence"),
    [
        ("nn.DataParallel(Net())", "Net()", "", "certain"),
        ("Net()", "torch.compile(Net())", "", "certain"),
        ("Net()", "Other()", "", "certain"),
        ("nn.DataParallel(Net())", "Net()", STRIPPING, "possible"),
        ("nn.DataParallel(Net())", "nn.DataParallel(Net())", "", "possible"),
        ("Net()", "Larger()", "", "possible"),
        ("Net()", "build()", "", "possible"),
        ("nn.DataParallel(Net()) if devices else Net()", "Net()", "", "possible"),
    ],
)
def test_a_file_of_another_make_shows_it(saved: str, loaded: str, renaming: str, confidence: str) -> None:
    code = SAVE.format(saved=saved) + LOAD.format(loaded=loaded, renaming=renaming)
    assert confidences(code, {}) == [confidence]
