"""Options of a script in which there is nothing that they could be about are questions."""

from __future__ import annotations

import pytest
from engine_support import found

WIDTH = "parser.add_argument('--width', default=1)\nargs = parser.parse_args()\n"
HEAD = "import argparse\nparser = argparse.ArgumentParser()\n"
SIZE = "parser.add_argument('--size', type=int, default=256, help='height and width')"
TRAINS = f"{HEAD}{SIZE}\nargs = parser.parse_args()\nloss = measure(args.size)\nloss.backward()\n"


def tiers(source: str, files: dict[str, str] | None = None) -> list[str]:
    """How sure the findings in ``main.py`` are: a question, or not, whether or not the rule is proven by now."""
    each = found("DL846", source, {"README.md": "", **(files or {})})
    sure = [finding.confidence for finding in each if finding.location.path.endswith("main.py")]
    return ["likely" if each == "certain" else each for each in sure]


@pytest.mark.parametrize(
    ("option", "work", "expected"),
    [
        ("--seed", "import json\njson.load(open('a.json'))", "possible"),
        ("--seed", "import random\nrandom.choice([1])", "likely"),
        ("--batchSize", "import json\njson.load(open('a.json'))", "possible"),
        ("--batchSize", "import json\njson.load(open('a.json'), batch=4)", "likely"),
        ("--device", "import json\njson.load(open('a.json'))", "possible"),
        ("--device", "import torch\ntorch.ones(1).sum()", "likely"),
        ("--lr", "import subprocess\nsubprocess.run(['python', 'train.py'])", "likely"),
        ("--dropout", "import torch\ntorch.load('m.pt').eval()", "possible"),
        ("--smooth", "import json\njson.load(open('a.json'))", "likely"),
        (
            "--dataset",
            "import torch\nprint(sum(each.numel() for each in torch.nn.Linear(3, 4).parameters()))",
            "possible",
        ),
        ("--dataset", "import torch\nprint(torch.load('m.pt'))", "likely"),
    ],
)
def test_what_a_script_has_nothing_to_do_with(option: str, work: str, expected: str) -> None:
    source = f"{HEAD}parser.add_argument('{option}', default=1)\nargs = parser.parse_args()\n{work}\n"
    assert tiers(source) == [expected]


@pytest.mark.parametrize(
    ("work", "files", "expected"),
    [
        ("import matplotlib.pyplot as plt\nplt.savefig('loss.png')", {"train.py": TRAINS}, "possible"),
        (
            "import matplotlib.pyplot as plt\nplt.savefig('loss.png')",
            {"train.py": TRAINS.replace("256", "128")},
            "likely",
        ),
        (
            "import matplotlib.pyplot as plt\nplt.savefig('loss.png')",
            {"show.py": TRAINS.replace("loss.backward()", "show(loss)")},
            "likely",
        ),
        (
            "import torch\nimport matplotlib.pyplot as plt\nplt.imshow(torch.load('image.pt'))",
            {"train.py": TRAINS},
            "likely",
        ),
    ],
)
def test_options_of_the_script_that_trains(work: str, files: dict[str, str], expected: str) -> None:
    assert tiers(f"{HEAD}{SIZE}\nargs = parser.parse_args()\n{work}\n", files) == [expected]


def test_a_heading_speaks_of_all_options_below_it() -> None:
    many = "\n".join(f"parser.add_argument('--old-{number}', type=int)" for number in range(12))
    rest = "args = parser.parse_args()\nimport torch\nprint(torch.ones(1).sum())\n"
    assert not tiers(f"{HEAD}\n# Legacy arguments (for compatibility)\n{many}\n{rest}")
    spaced = many.replace("\n", "\n\n")
    assert tiers(f"{HEAD}\n# Legacy arguments (for compatibility)\n{spaced}\n{rest}")


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("tools.score(args)", "possible"),
        ("tools.fit(args)", "likely"),
        ("getattr(tools, args)(args)", "likely"),
        ("getattr(args, 'size')", "possible"),
        ("tools.Run().score(args)", "possible"),
        ("tools.Run().go(args)", "likely"),
    ],
)
def test_what_an_imported_file_trains_and_the_script_does_not_get_to(use: str, expected: str) -> None:
    tools = """
        def measure(args):
            return id(args)

        def score(args):
            return measure(args)

        def fit(args):
            measure(args).backward()

        class Run:
            def score(self, args):
                return score(args)

            def go(self, args):
                return self.deep(args)

            def deep(self, args):
                return fit(args)
    """
    source = f"import tools\n{HEAD}parser.add_argument('--epochs', default=1)\nargs = parser.parse_args()\n{use}\n"
    assert tiers(source, {"tools.py": tools}) == [expected]


@pytest.mark.parametrize(("use", "expected"), [("train.score(args)", "possible"), ("train.fit(args)", "likely")])
def test_what_is_below_the_main_guard_of_an_imported_file_is_not_run(use: str, expected: str) -> None:
    train = """
        def measure(args):
            return args.width

        def score(args):
            return measure(args)

        def fit(args):
            measure(args).backward()

        if __name__ == '__main__':
            fit(None)
    """
    source = f"import train\n{HEAD}parser.add_argument('--epochs', default=1)\n{WIDTH}{use}\n"
    assert tiers(source, {"train.py": train}) == [expected]
