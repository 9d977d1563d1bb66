"""Options without a default have none: what a program does with them is not known."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import Interpreted, run

from dllint.events import LibraryCall
from dllint.values import Const, Setting, Value


def options(folder: Path, *added: str) -> Interpreted:
    lines = [f"parser.add_argument({text})" for text in added]
    return run(folder, "\n".join(["import argparse", "parser = argparse.ArgumentParser()", *lines,
                                  "args = parser.parse_args()", "value = args.net"]))  # fmt: skip


def setting(interpreted: Interpreted, name: str = "value") -> Setting:
    value = interpreted.variables[name]
    assert isinstance(value, Setting)
    return value


def constant(value: Value) -> object:
    assert isinstance(value, Const)
    return value.value


@pytest.mark.parametrize(
    "added",
    [
        '"--net", required=True',
        '"--net", required=True, default="a"',
        '"net"',
        '"net", nargs="+"',
        '"--net", default=argparse.SUPPRESS',
    ],
)
def test_an_option_that_must_be_given_has_no_default(tmp_path: Path, added: str) -> None:
    assert not setting(options(tmp_path, added)).has_default


@pytest.mark.parametrize(
    ("added", "default"),
    [
        ('"--net"', None),
        ('"net", nargs="?"', None),
        ('"net", nargs="?", default="a"', "a"),
        ('"--net", action="store_true"', False),
        ('"--net", required=False, default=3', 3),
        ('"--net", type=float, default="0.5"', 0.5),
        ('"--net", type=int, default="5"', 5),
        ('"--net", type=str, default="5"', "5"),
        ('"--net", type=float, default=5', 5),
    ],
)
def test_other_options_have_the_default_that_the_parser_hands_out(tmp_path: Path, added: str, default: object) -> None:
    found = setting(options(tmp_path, added))
    assert found.has_default and constant(found.default) == default and type(constant(found.default)) is type(default)


def test_a_default_that_a_function_converts_is_not_the_text(tmp_path: Path) -> None:
    text = """
        import argparse
        import json
        def flag(text):
            return text.lower() in ("yes", "true")
        parser = argparse.ArgumentParser()
        parser.add_argument("--net", type=json.loads, default="{}")
        parser.add_argument("--amp", type=flag, default="no")
        args = parser.parse_args()
        value, amp = args.net, args.amp
    """
    found = run(tmp_path, text)
    assert not isinstance(setting(found).default, Const) and setting(found).has_default


@pytest.mark.parametrize(
    "given",
    [
        'import argparse\np = argparse.ArgumentParser()\np.add_argument("-n", "--net", required=True)\n'
        "net = p.parse_args().net",
        'import argparse\np = argparse.ArgumentParser()\np.add_argument("net")\nnet = p.parse_args().net',
        'from absl import flags\nflags.DEFINE_string("net", None, "")\nflags.mark_flag_as_required("net")\n'
        "net = flags.FLAGS.net",
        'import yaml\nnet = yaml.safe_load(open("config.yaml"))["net"]',
        'import json\nnet = json.load(open("config.json")).get("net")',
    ],
    ids=["required", "positional", "absl", "yaml", "json"],
)
def test_neither_side_of_a_comparison_is_the_default(tmp_path: Path, given: str) -> None:
    text = f"{given}\nif net == 'a':\n    print('left')\nelse:\n    print('right')\n"
    calls = [call for call in run(tmp_path, text).all_of(LibraryCall) if call.name == "print"]
    assert len(calls) == 2
    assert all(guard.by_default is None for call in calls for guard in call.guards)


@pytest.mark.parametrize("default", ["...", "", "help='the net'"])
def test_typer_options_without_a_default(tmp_path: Path, default: str) -> None:
    text = f"""
        import typer
        def main(net: str = typer.Option({default})):
            if net == "a":
                print("left")
            else:
                print("right")
        typer.run(main)
    """
    calls = [call for call in run(tmp_path, text).all_of(LibraryCall) if call.name == "print"]
    assert len(calls) == 2 and all(guard.by_default is None for call in calls for guard in call.guards)


def test_typer_options_with_a_default_are_settings(tmp_path: Path) -> None:
    text = """
        import typer
        def main(amp: bool = typer.Option(False, "--amp"), epochs: int = 3):
            if amp:
                print("left")
            else:
                print("right")
            range(epochs)
        typer.run(main)
    """
    found = run(tmp_path, text)
    calls = {call.name: call for call in found.all_of(LibraryCall)}
    prints = [call for call in found.all_of(LibraryCall) if call.name == "print"]
    assert [guard.by_default for call in prints for guard in call.guards] == [False, True]
    assert isinstance(calls["range"].arguments.positional[0], Setting)


@pytest.mark.parametrize("decorator", ['@click.option("--net", required=True)', '@click.argument("net")'])
def test_click_options_without_a_default(tmp_path: Path, decorator: str) -> None:
    text = f"""
        import click
        @click.command()
        {decorator}
        @click.option("--amp/--no-amp", default=False)
        def main(net, amp):
            if net == "a":
                print("left")
            else:
                print("right")
        main()
    """
    calls = [call for call in run(tmp_path, text).all_of(LibraryCall) if call.name == "print"]
    assert len(calls) == 2 and all(guard.by_default is None for call in calls for guard in call.guards)


INHERITED = """
import argparse

def common():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--net", default="a")
    parser.add_argument("--lr", default=0.1)
    return parser

parser = argparse.ArgumentParser("training", parents=[common()])
parser.add_argument("--lr", default=0.3)
args = parser.parse_args()
net, lr = args.net, args.lr
"""


def test_a_parser_has_the_options_of_its_parents(tmp_path: Path) -> None:
    found = run(tmp_path, INHERITED)
    assert [constant(setting(found, name).default) for name in ("net", "lr")] == ["a", 0.3]
