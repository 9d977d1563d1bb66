"""Each code that a run can print is declared, has a page, and is printed by something."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from dllint.cli import main
from dllint.confirm.evidence import Line, Settings
from dllint.confirm.rules import EXPERIMENTS, judged
from dllint.registry import load_rules

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"DL\d{3}|[a-z]+(-[a-z]+)+")
PLACES = ("probes", "comparing.py")
NO_CODES = {"dllint-confirm", "lr-range", "auto-generated"}


def told() -> Iterator[str]:
    """The codes of judgements, as the sources of the probes spell them: whole strings that have the form of one."""
    for place in PLACES:
        path = ROOT / "dllint" / "confirm" / place
        for file in [path] if path.is_file() else sorted(path.glob("*.py")):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                    yield node.value


@pytest.fixture
def explain(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs ``dllint rule``."""

    def run(*words: str) -> str:
        assert main(["rule", *words, "--isolated"]) == 0
        return capsys.readouterr().out

    return run


def test_each_code_of_a_probe_is_declared() -> None:
    codes = set(told())
    assert len(codes) > 120
    assert codes - NO_CODES <= set(judged())
    assert set(judged()) <= codes | set(EXPERIMENTS)


def test_each_code_has_a_page(explain: Callable[..., str]) -> None:
    for code, known in judged().items():
        page = explain(code)
        assert known.looks in page and known.confirmed in page and known.unreached in page, code


def test_what_no_rule_finds_says_what_to_do(explain: Callable[..., str]) -> None:
    ruled = {rule.code for rule in load_rules()}
    for code, known in judged().items():
        if code not in ruled:
            assert known.about and known.effect.endswith(".") and known.help.endswith("."), code
            assert known.help in explain(code)
            assert explain(known.name) == explain(code)


def test_each_code_says_what_its_numbers_are_compared_with() -> None:
    assert [code for code, known in judged().items() if not known.threshold] == []


def test_whatever_a_run_confirms_is_told() -> None:
    of_two_runs = {"DL703", "DL712"}
    told_as_another = {"DL821", "DL823"}  # what mixes samples is DL833, unless a finding asks
    assert {code for code, known in judged().items() if not known.speaks} == of_two_runs | told_as_another


def test_names_belong_to_one_code() -> None:
    names = [known.name for known in judged().values() if known.name and known.name != known.code]
    assert len(set(names)) == len(names)
    others = {rule.name for rule in load_rules() if rule.code not in judged()}
    assert others.isdisjoint(names)


def test_the_list_tells_of_both_kinds(explain: Callable[..., str]) -> None:
    records = {record["code"]: record for record in json.loads(explain("--all", "--output-format", "json"))}
    assert records["DL101"]["static"] and records["DL101"]["confirm"]["speaks"] == "alarm"
    assert not records["input-range"]["static"]
    assert set(records) == {rule.code for rule in load_rules()} | set(judged())


def test_the_tables_of_the_documentation_are_current() -> None:
    spec = importlib.util.spec_from_file_location("confirm_tables", ROOT / "bench" / "confirm_tables.py")
    assert spec is not None and spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    text = tables.PAGE.read_text("utf-8")
    assert tables.current(text) == text, "run `python bench/confirm_tables.py --write`"
    assert all(f"| {code} | {known.looks} |" in text for code, known in judged().items() if known.unreached)


@pytest.mark.parametrize(("smoothing", "verdict"), [(1.0, "CONFIRMED"), (0.1, "REFUTED")])
def test_the_probe_of_the_documentation_judges(smoothing: float, verdict: str) -> None:
    pytest.importorskip("torch")
    import torch

    from dllint.confirm.inside.run import Run
    from dllint.confirm.inside.stacks import place
    from dllint.confirm.probes.events import LossCall

    page = (ROOT / "docs" / "writing-rules.md").read_text("utf-8")
    (text,) = re.findall(r"^```python\n(\"\"\"DL190.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "full_smoothing"}
    exec(text, names)
    probe = names["FullSmoothing"](Run(Settings("")))
    where = place((Line("train.py", 3, "train"),))
    scores, target = torch.zeros(4, 3), torch.zeros(4, dtype=torch.long)
    for function in ("cross_entropy",) * 5 + ("nll_loss",):
        options: dict[str, Any] = {"label_smoothing": smoothing} if function == "cross_entropy" else {}
        probe.on_loss_call(
            LossCall(where, f"torch.nn.functional.{function}", scores, target, options, None, scores, frame=where.frame)
        )
    (judgement,) = probe.judge()
    assert (judgement.rule, judgement.verdict, judgement.events) == ("DL190", verdict, 5)
    assert judgement.stacks == ((Line("train.py", 3, "train"),),)


def test_words_are_about_numbers_that_probes_have() -> None:
    """What a table puts into words is counted, measured or named where its code is judged."""
    sources = {path: path.read_text("utf-8") for path in (ROOT / "dllint" / "confirm").glob("**/*.py")}
    for code, known in judged().items():
        words = Formatter().parse(known.said + known.said_refuted)
        asked = {name for _, name, _, _ in words if name} - {"looks", "wrong", "calls", "what"}
        judging = " ".join(text for text in sources.values() if f'"{code}"' in text)
        assert asked <= set(re.findall(r"\w+", judging)), code
