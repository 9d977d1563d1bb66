"""Who reads an option of a command line: the files that share its parser, for certain, and others that may."""

from __future__ import annotations

import textwrap

import pytest
from engine_support import found

OPTIONS = """
import argparse

def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--val", type=bool, default=False)
    return parser.parse_args()
"""
SCRIPT = """
import torch
from tools.options import parse

def main():
    args = parse()
    torch.optim.SGD(build().parameters(), lr=args.rate)

if __name__ == "__main__":
    main()
"""
OTHER_PARSER = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--val", type=float)
args = parser.parse_args()
split(args.val)
"""


def codes(source: str, files: dict[str, str] | None = None) -> list[str]:
    return sorted({each.code for each in found("DL841 DL846", source, {"README.md": "", **(files or {})})})


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ["DL846"]),
        ({"prepare.py": OTHER_PARSER}, ["DL846"]),
        ({"prepare.py": f"{OTHER_PARSER}\nimport json\nsaved = json.load(open('args.json'))\nprint(saved.val)\n"}, []),
        ({"prepare.py": "def split(args):\n    return args.val\n"}, []),
        ({"tools/phases.py": "PHASES = ['train', 'val']\n"}, []),
        ({"prepare.py": "from tools.options import parse\nsplit(parse().val)\n"}, ["DL841"]),
        ({"prepare.py": "from main import parse\nsplit(parse().val)\n"}, ["DL841"]),
    ],
    ids=[
        "nobody",
        "with-its-own-parser",
        "which-loads-settings",
        "of-no-parser",
        "as-a-text",
        "by-import",
        "by-import-of-a-script",
    ],
)
def test_an_option_of_the_same_name_is_another_one(files: dict[str, str], expected: list[str]) -> None:
    """Read by chance under that name, it is not certain to be read (DL841), nor that it is not (DL846)."""
    assert codes(SCRIPT, {"tools/options.py": OPTIONS, "tools/__init__.py": "", **files}) == expected


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("build().val(args.rate)", ["DL846"]),
        ("build().val.close(args.rate)", ["DL841"]),
        ("args.val(args.rate)", ["DL841"]),
        ("build(args.rate, args.val)", ["DL841"]),
    ],
)
def test_a_method_of_that_name_is_no_reader(use: str, expected: list[str]) -> None:
    assert codes(f"{OPTIONS}\nimport torch\nargs = parse()\n{use}\n") == expected


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("args = parse()\nprint(args)\nprint(args.rate)\n", []),
        ("if __name__ == '__main__':\n    print(parse())\n", []),
        ("args = parse()\nprint(args)\nfit(args.rate)\n", ["DL846"]),
    ],
)
def test_what_only_prints_its_options_is_a_trial(rest: str, expected: list[str]) -> None:
    assert codes(f"import torch\n{OPTIONS}\n{rest}") == expected


def test_what_only_prints_options_that_others_share_is_none() -> None:
    files = {
        "main.py": "import torch\nimport options\nfit(options.parse().rate)\n",
        "options.py": f"import torch\n{OPTIONS}",
    }
    assert codes("", {**files, "show.py": "import torch\nimport options\nprint(options.parse())\n"}) == ["DL846"]


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("for phase in ['train', 'val']:\n    fit(phase)", []),
        ("fit(getattr(args, 'val'))", ["DL841"]),
        ("fit(vars(args)['val'])", ["DL841"]),
        ("print(vars(args))\nfit(val=3)", []),
        ("def fit(val):\n    return val\nfit(**vars(args))", ["DL841"]),
        ("def fit(val):\n    print(val)\nfit(**vars(args))", []),
    ],
)
def test_a_text_reads_where_options_are_looked_up_by_texts(use: str, expected: list[str]) -> None:
    assert codes(f"{OPTIONS}\nimport torch\nargs = parse()\nprint(args.rate)\n{use}\n") == expected


def test_what_an_object_has_is_no_option() -> None:
    meter = "class Meter:\n    def __str__(self):\n        return text.format(**self.__dict__)\n"
    assert codes(f"{OPTIONS}\nimport torch\n{meter}\nargs = parse()\nprint(args.rate, Meter())\n") == ["DL846"]


def test_a_folder_without_an_init_file_is_no_library() -> None:
    """What it is handed is read there or nowhere, and what is read of it may be the options."""
    reader = {"libs/building.py": "def build(args):\n    return args.rate\n"}
    assert codes(f"from libs.building import build\nimport torch\n{OPTIONS}\nbuild(parse())\n", reader) == ["DL846"]
    files = {"libs/options.py": f"{OPTIONS}\nargs = parse()\n"}
    assert codes("import torch\nfrom libs import options\nfit(options.args.rate, options.args.val)\n", files) == [
        "DL841"
    ]


@pytest.mark.parametrize(
    ("use", "files", "expected"),
    [
        ("def eval(model):\n    return model.eval()\n\neval(3)", {}, ["DL846"]),
        ("from tools.scores import eval\n\neval(3)", {"tools/scores.py": "def eval(model): ..."}, ["DL846"]),
        ("class Runner:\n    def eval(self): ...", {}, ["DL846"]),
        ("class Runner:\n    def eval(self, text):\n        return eval(text)", {}, ["DL841"]),
        ("print(eval('3'))", {}, ["DL841"]),
        ("print(eval)\nexec('3')", {}, ["DL841"]),
    ],
    ids=["own", "imported", "method", "within-a-method", "builtin", "other-builtin"],
)
def test_a_function_of_the_project_that_is_called_eval_runs_no_texts(
    use: str, files: dict[str, str], expected: list[str]
) -> None:
    """`eval(model)` of the project's own reads no options; the builtin may read all of them."""
    assert codes(f"{use}\n{SCRIPT}", {"tools/options.py": OPTIONS, "tools/__init__.py": "", **files}) == expected


@pytest.mark.parametrize("given", ["vars(args)", "args"])
def test_options_are_read_out_of_a_configuration_that_a_library_was_given(given: str) -> None:
    """`wandb.init(config=vars(args))` keeps all options, and `wandb.config.val` reads one of them."""
    imports = "import wandb\nfrom library import fit\nfrom tools.options import parse\n"
    source = f"{imports}args = parse()\nwandb.init(config={given})\n"
    files = {"tools/options.py": OPTIONS, "tools/__init__.py": ""}
    assert "DL846" in codes(f"{source}print(args.rate)\n", files)
    assert codes(f"{source}print(args.rate)\nfit(wandb.config.val)\n", files) == ["DL841"]


FIELDS = "from dataclasses import dataclass\n\n@dataclass\nclass Plan:\n    val: bool\n    rate: float\n\n"


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("if args.val:\n    fit(args.rate)\nelse:  # of the other\n    fit(args.rate)", []),
        ("if args.val:\n    fit(args.rate)\nelse:\n    fit(args.rate, 3)", ["DL841"]),
        ("fit(3 if args.val else 3, args.rate)", []),
        ("wandb.log({'val': args.val})\nfit(args.rate)", []),
        ("fit(torch.log(args.val), args.rate)", ["DL841"]),
        ("bar.set_postfix(val=args.val)\nfit(args.rate)", []),
        (
            "kept = {}\nkept['val'] = args.val\nfor each in kept.items():\n    print(each)\nfit(args.rate)",
            [],
        ),
        ("kept = {}\nkept['val'] = args.val\nfor value in kept.values():\n    fit(value)\nfit(args.rate)", ["DL841"]),
        ("print(' '.join(str(each) for each in [args.val]))\nfit(args.rate).eval()", []),
        ("print([fit(each) for each in [args.val]], args.rate)", ["DL841"]),
        (f"{FIELDS}plan = Plan(val=args.val, rate=args.rate)\nfit(plan.rate)", []),
        (f"{FIELDS}plan = Plan(val=args.val, rate=args.rate)\nfit(plan.rate, plan.val)", ["DL841"]),
        (f"{FIELDS}plan = Plan(val=args.val, rate=args.rate)\nprint(vars(plan))\nfit(**keep)", ["DL841"]),
    ],
)
def test_what_only_a_log_has_comes_to_nothing(use: str, expected: list[str]) -> None:
    body = textwrap.indent(use, "    ")
    assert (
        codes(f"{OPTIONS}\nimport torch\nimport wandb\n\ndef main():\n    args = parse()\n{body}\n\nmain()\n")
        == expected
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [("key.replace(prefix, '')", []), ("key.removeprefix(prefix)", []), ("key.upper()", ["DL846"])],
)
@pytest.mark.parametrize("prefix", ["aug_", "tta_"])
def test_options_are_read_without_their_prefix(change: str, expected: list[str], prefix: str) -> None:
    source = f"""
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--aug_rate", type=float)
args = parser.parse_args()
import torch

def merge(config, args, prefix):
    for key, value in vars(args).items():
        key = {change}
        if key in config:
            config[key] = value

config = load()
merge(config, args, prefix="{prefix}")
fit(config["rate"])
"""
    assert codes(source) == (expected if prefix == "aug_" else ["DL846"])
