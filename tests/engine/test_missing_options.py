"""A script ends where it reads an option that its parser does not have; that nobody else sets it has to be certain."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_support import found
from interpreting import run

from dllint.events import CallRefused

TRAINER = """
class Trainer:
    def __init__(self, args):
        self.args = args

    def train(self):
        print(self.args.depth)

"""
CALL = "\ndef save(path, model):\n    return path\n\nsave(1)\n"
PARSER = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
group = parser.add_argument_group("model")
group.add_argument("--width", "-w", default=3)
"""


@pytest.mark.parametrize(
    "use",
    [
        "args = parser.parse_args()\nprint(args.depth)",
        "args, rest = parser.parse_known_args()\nname = str(args.depth)",
        "config = parser.parse_args()\nprint(vars(config))\nsize = [config.depth]",
        "def main(args):\n    print(args.lr)\n    return args.depth + 1\nmain(parser.parse_args())",
        "args = parser.parse_args()\nif args.depth:\n    print(3)",
        "args = parser.parse_args()\nargs.height = 3\nprint(args.depth.upper())",
        "class Net:\n    def __init__(self):\n        self.depth = 3\nargs = parser.parse_args()\nprint(args.depth)",
        "import numpy as np\nargs = parser.parse_args()\ndef wave(args):\n    return np.sin(args)\nprint(args.depth)",
        f"{TRAINER}Trainer(parser.parse_args()).train()",
        f"{TRAINER}options = parser.parse_args()\noptions.height = 3\nTrainer(options).train()",
        f"{TRAINER}    def more(self):\n        load(self.args)\nTrainer(parser.parse_args()).train()",
        "def main():\n    parser.add_argument('--size')\n    args = parser.parse_args()\n    print(args.depth)\nmain()",
        "# parser.add_argument('--depth', default=3)\nargs = parser.parse_args()\nprint(args.depth)  # args.depth = 3",
        "import torch\ndef wave(args):\n    return torch.cos(args)\nargs = parser.parse_args()\nprint(args.depth)",
    ],
)
def test_nothing_happens_after_it(tmp_path: Path, use: str) -> None:
    assert not run(tmp_path, PARSER + use + CALL).all_of(CallRefused)


@pytest.mark.parametrize(
    "use",
    [
        "args = parser.parse_args()\nprint(args.lr, args.width)",
        "args = parser.parse_args()\nargs.depth = 3\nprint(args.depth)",
        "args = parser.parse_args()\nargs.depth: int = 3\nprint(args.depth)",
        "args = parser.parse_args()\nsetattr(args, 'de' + 'pth', 3)\nprint(args.depth)",
        "args = parser.parse_args()\nargs.__dict__.update(load())\nprint(args.depth)",
        "args = parser.parse_args()\nvars(args).update(load())\nprint(args.depth)",
        "args = parser.parse_args()\noptions = vars(args)\noptions[load()] = 1\nprint(args.depth)",
        "args = parser.parse_args()\nif hasattr(args, 'depth'):\n    print(args.depth)",
        "args = parser.parse_args()\ntry:\n    print(args.depth)\nexcept AttributeError:\n    pass",
        "from elsewhere import more\nmore(parser)\nargs = parser.parse_args()\nprint(args.depth)",
        "from elsewhere import more\nargs = parser.parse_args()\nmore(args)\nprint(args.depth)",
        "from elsewhere import Base\nargs = parser.parse_args(namespace=Base())\nprint(args.depth)",
        "for name in load():\n    parser.add_argument(name)\nargs = parser.parse_args()\nprint(args.depth)",
        "parser.set_defaults(**load())\nargs = parser.parse_args()\nprint(args.depth)",
        "more = parser\nmore.add_argument('--' + load())\nargs = parser.parse_args()\nprint(args.depth)",
        "parser = argparse.ArgumentParser(parents=[load()])\nargs = parser.parse_args()\nprint(args.depth)",
        "args = parser.parse_args()\nif args.lr:\n    print(args.depth)",
        f"{TRAINER}trainer = Trainer(parser.parse_args())\ntrainer.args.depth = 3\ntrainer.train()",
        f"{TRAINER}    def more(self):\n        load(self.args)\nt = Trainer(parser.parse_args())\nt.more()\nt.train()",
        f"{TRAINER}options = parser.parse_args()\nload(options)\nTrainer(options).train()",
        "def main():\n    args = parser.parse_args()\n    print(args.depth)\nparser.add_argument('--depth')\nmain()",
        "def main():\n    load(parser)\n    args = parser.parse_args()\n    print(args.depth)\nmain()",
    ],
)
def test_anything_else_may_go_on(tmp_path: Path, use: str) -> None:
    assert run(tmp_path, f"from elsewhere import load\n{PARSER}{use}{CALL}").all_of(CallRefused)


def test_another_file_may_set_it(tmp_path: Path) -> None:
    helper = "def prepare(args):\n    args.depth = 3\n"
    code = f"{PARSER}from helper import prepare\nargs = parser.parse_args()\nprepare(args)\nprint(args.depth){CALL}"
    assert run(tmp_path, code, helper=helper).all_of(CallRefused)


FAILING = """
import torch.nn.functional as F
{before}

def step(model, x, y):
    F.cross_entropy(F.softmax(model(x), 1), y).backward()

def main(args):
    print(args.depth)
    step(args.model, args.x, args.y)

if __name__ == "__main__":
    {parser}
    main(parser.parse_args())
"""
SHORT = "parser = argparse.ArgumentParser()\n    parser.add_argument('--{}')"


@pytest.mark.parametrize(
    ("option", "files", "expected"),
    [
        ("width", {}, ["effect"]),
        ("depth", {}, []),
        ("width", {"other.py": "import main\nmain.main(load())\n"}, []),
    ],
    ids=["fails-before", "has-it", "is-imported"],
)
def test_what_a_script_does_not_get_to_is_a_question(option: str, files: dict[str, str], expected: list[str]) -> None:
    source = FAILING.format(before="import argparse", parser=SHORT.format(option))
    options = "".join(f"\n    parser.add_argument('--{each}')" for each in ("model", "x", "y"))
    (finding,) = found("DL101", source.replace("\n    main(parser", f"{options}\n    main(parser"), files)
    kinds = [each.kind for each in finding.assumptions if each.kind == "effect"]
    assert kinds == expected


@pytest.mark.parametrize("imports", ["from options import *", "from options import args"])
@pytest.mark.parametrize(("option", "ends"), [("width", False), ("depth", True)])
def test_a_file_of_options(tmp_path: Path, imports: str, option: str, ends: bool) -> None:
    code = f"{imports}\nprint(args.lr)\nprint(args.{option}){CALL}"
    refused = run(tmp_path, code, options=f"{PARSER}\nargs = parser.parse_args()\n").all_of(CallRefused)
    assert bool(refused) is not ends


TWICE = "parser.add_argument('--depth', type=int)\n"


@pytest.mark.parametrize(
    "use",
    [
        f"{TWICE}{TWICE}",
        f"{TWICE}group.add_argument('--depth', '-d')\n",
        "def add(parser):\n    parser.add_argument('--lr')\nadd(parser)\n",
    ],
)
def test_an_option_that_is_there_already_ends_the_script(tmp_path: Path, use: str) -> None:
    assert not run(tmp_path, PARSER + use + CALL).all_of(CallRefused)


@pytest.mark.parametrize(
    "use",
    [
        TWICE,
        f"{TWICE}parser.add_argument('-d', dest='depth')\n",
        f"{TWICE}parser = argparse.ArgumentParser()\n{TWICE}",
        f"parser = argparse.ArgumentParser(conflict_handler='resolve')\n{TWICE}{TWICE}",
        f"if torch.cuda.is_available():\n    {TWICE}else:\n    {TWICE}",
        f"parser.set_defaults(depth=3)\n{TWICE}",
        f"try:\n    {TWICE}    {TWICE}except argparse.ArgumentError:\n    pass\n",
    ],
)
def test_other_options_may_be_added(tmp_path: Path, use: str) -> None:
    assert run(tmp_path, f"import torch\n{PARSER}{use}{CALL}").all_of(CallRefused)
