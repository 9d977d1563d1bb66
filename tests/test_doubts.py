"""Doubtful twins of small cases: what is rewritten, where nothing can be, and what counts as too sure."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from dllint.assumptions import Assumption
from dllint.registry import load_rules
from dllint.testing import check
from dllint.testing.cases import Case, parse_fixture, read_fixture
from dllint.testing.checking import find_rules
from dllint.testing.doubts import DOUBTS, NAMES, doubt_faults, twins_of
from dllint.testing.doubts.subject import Strength, Subject, Twin
from dllint.testing.linting import Setup
from dllint.testing.marks import FixtureError

FIXTURES = [
    path
    for path in sorted((Path(__file__).resolve().parent.parent / "fixtures").rglob("*.py"))
    if re.fullmatch(r"(dl|axc)\d+_\w+\.py", path.name)
]

SCRIPT = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

criterion = nn.CrossEntropyLoss()
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(dataset):
    probabilities = F.softmax(model(x), dim=1)
    loss = criterion(probabilities, y)  # DL101
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FUNCTION = """
import torch.nn.functional as F

def train(model, loader, optimizer, *, clip=None):
    for x, y in loader:
        loss = F.cross_entropy(F.softmax(model(x), dim=1), y)  # DL101
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def subject_of(source: str, code: str = "DL101", **given: object) -> Subject:
    files = {"main.py": textwrap.dedent(source), **given.pop("files", {})}  # type: ignore[dict-item]
    return Subject(Case("case", files, **given), Setup(find_rules([code], load_rules())))  # type: ignore[arg-type]


def twins(name: str, source: str, code: str = "DL101", **given: object) -> list[Twin]:
    return list(twins_of(subject_of(source, code, **given), name))


def main_of(twin: Twin) -> str:
    return twin.files["main.py"]


class TestValues:
    """The decisive value is one of several."""

    def test_what_is_decisive_is_tried(self) -> None:
        texts = [main_of(twin) for twin in twins("choice", SCRIPT)]
        assert len(texts) == 2
        assert "probabilities = (F.softmax(model(x), dim=1) if decide() else other_value())\n" in texts[0]
        assert "criterion = (nn.CrossEntropyLoss() if decide() else other_value())\n" in texts[1]
        assert all(text.count("from labtools import") == 2 for text in texts)

    def test_what_is_not_decisive_is_left_alone(self) -> None:
        assert not any("other_value()(" in main_of(twin) for twin in twins("choice", FUNCTION))
        assert not twins("choice", "import torch.nn.functional as F\nloss = F.cross_entropy(model(x), y)\n")

    def test_what_is_there_for_what_it_does_is_no_value(self) -> None:
        source = SCRIPT.replace("  # DL101", "").replace("    optimizer.zero_grad()\n", "")
        texts = [main_of(twin) for twin in twins("choice", source.replace("step()", "step()  # DL202"), "DL202")]
        assert texts and not any("loss.backward() if" in text for text in texts)

    def test_factory(self) -> None:
        text = main_of(twins("factory", SCRIPT)[0])
        factory = """\
    def made_value(kind):
        if kind == "first":
            return F.softmax(model(x), dim=1)
        return other_value(kind)
    probabilities = made_value(decide())
"""
        assert factory in text

    def test_no_factory_for_a_part_of_an_expression(self) -> None:
        assert not twins("factory", FUNCTION)

    def test_registry_and_config_and_setting(self) -> None:
        softmax = "F.softmax(model(x), dim=1)"
        first = {name: main_of(twins(name, SCRIPT)[0]) for name in ("registry", "config", "required")}
        assert f'{{"first": {softmax}, "second": other_value()}}[decide()]' in first["registry"]
        assert f'load_settings("settings.yaml").get("value", {softmax})' in first["config"]
        assert f'({softmax} if args_.which == "first" else other_value())' in first["required"]
        assert 'parser_.add_argument("--which", required=True)' in first["required"]

    def test_names_that_are_taken(self) -> None:
        text = main_of(twins("choice", SCRIPT.replace("dataset", "decide"))[0])
        assert "from labtools import decide_\n" in text and "if decide_() else" in text


class TestObjects:
    def test_a_call_gets_the_objects_before_the_claim(self) -> None:
        (twin,) = twins("opaque", SCRIPT)
        assert "\n    adjust(criterion, model)\n    loss = criterion(probabilities, y)  # mark 1\n" in main_of(twin)

    def test_parameters_and_attributes(self) -> None:
        source = """
            import torch
            import torch.nn.functional as F

            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.optimizer = torch.optim.Adam(model.parameters())

                def train(self, loader):
                    for x, y in loader:
                        F.cross_entropy(self.model(x), y).backward()
                        self.optimizer.step()  # DL202
        """
        (twin,) = twins("opaque", source, "DL202")
        assert re.search(r"adjust\(.*self\.optimizer.*\)\n +self\.optimizer\.step\(\)", main_of(twin))

    def test_a_claim_about_no_object(self) -> None:
        assert not twins("opaque", FUNCTION)  # F.cross_entropy(F.softmax(...)) is wrong with any model


class TestCalls:
    @pytest.mark.parametrize(
        ("name", "call"),
        [
            ("extra-argument", "train(None, None, None, None)"),
            ("unknown-keyword", "train(None, None, None, no_such_parameter=None)"),
            ("missing-argument", "train()"),
        ],
    )
    def test_a_function_that_nobody_calls(self, name: str, call: str) -> None:
        (twin,) = twins(name, FUNCTION)
        assert main_of(twin).endswith(f"\n\n\n{call}\n") and twin.total
        with pytest.raises(TypeError):
            exec(call, {"train": lambda model, loader, optimizer, *, clip=None: None})

    @pytest.mark.parametrize(
        ("name", "call"),
        [
            ("extra-argument", "train(net, data, None, None, clip=1)"),
            ("unknown-keyword", "train(net, data, clip=1, no_such_parameter=None)"),
            ("missing-argument", "train()"),
        ],
    )
    def test_calls(self, name: str, call: str) -> None:
        source = FUNCTION.replace("optimizer, *", "optimizer=None, *") + "\ntrain(net, data, clip=1)\n"
        (twin,) = twins(name, source)
        assert main_of(twin).endswith(f"\n{call}\n")

    @pytest.mark.parametrize(
        "rest", ["train(*all_of_them)", "run(train)", "train(*a)\ntrain = timed(train)", "train(train(1, 2, 3), 2, 3)"]
    )
    def test_what_is_used_in_another_way(self, rest: str) -> None:
        assert not twins("extra-argument", f"{FUNCTION}\n{rest}\n")

    def test_whatever_is_given_binds(self) -> None:
        assert not twins("extra-argument", FUNCTION.replace("optimizer, *", "optimizer, *rest"))
        assert not twins("unknown-keyword", FUNCTION.replace("clip=None", "clip=None, **rest"))
        assert not twins("missing-argument", FUNCTION.replace("model, loader, optimizer, *, clip=None", ""))

    def test_a_class(self) -> None:
        source = """
            import torch.nn.functional as F

            class Trainer:
                def __init__(self, net):
                    self.net = net

                def train(self, loader):
                    for x, y in loader:
                        F.cross_entropy(F.softmax(self.net(x), dim=1), y).backward()  # DL101

            Trainer(net).train(loader)
        """
        (twin,) = twins("unknown-keyword", source)
        assert "\nTrainer(net, no_such_parameter=None).train(loader)\n" in main_of(twin)
        (twin,) = twins("extra-argument", source)
        assert "\nTrainer(net, None).train(loader)\n" in main_of(twin)

    def test_nobody(self) -> None:
        (twin,) = twins("uncalled", SCRIPT)
        assert "\ndef run():\n    criterion = nn.CrossEntropyLoss()\n" in main_of(twin)
        assert "run()\n" not in main_of(twin).replace("def run():\n", "")
        (twin,) = twins("uncalled", f'{FUNCTION}\n\nif __name__ == "__main__":\n    train(a, b, c)\n')
        assert "__main__" not in main_of(twin) and "train(a" not in main_of(twin)
        assert not twins("uncalled", FUNCTION)


class TestEffects:
    def test_a_result_that_nobody_reads(self) -> None:
        (twin,) = twins("unused", SCRIPT)
        assert "loss.backward()" not in main_of(twin) and "optimizer.step()" in main_of(twin) and twin.total

    def test_what_is_made_of_it_goes_with_it(self) -> None:
        source = SCRIPT.replace("    loss.backward()\n", "    total = loss + 1\n    total.backward()\n")
        (twin,) = twins("unused", source)
        assert "total" not in main_of(twin)

    @pytest.mark.parametrize("use", ["return loss", "if loss > 3:\n        print(1)", "print(loss); x = 1"])
    def test_uses_that_cannot_go(self, use: str) -> None:
        source = "import torch.nn.functional as F\ndef f(model, x, y):\n"
        source += f"    loss = F.cross_entropy(F.softmax(model(x), dim=1), y)  # DL101\n    {use}\n"
        assert not twins("unused", source)

    def test_a_function_that_changes_what_it_is_given(self) -> None:
        source = """
            import torch
            from torch.nn.utils import clip_grad_norm_

            def train(model, loader, optimizer):
                for x, y in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                    norm = clip_grad_norm_(model.parameters(), 1.0)  # DL212
                    print(norm)
        """
        assert subject_of(source, "DL212").claims and not twins("unused", source, "DL212")

    def test_a_loader_that_nobody_iterates(self) -> None:
        source = """
            from torch.utils.data import DataLoader
            from torch.utils.data.distributed import DistributedSampler

            def main(dataset, model):
                sampler = DistributedSampler(dataset)
                loader = DataLoader(dataset, shuffle=True, sampler=sampler)  # DL413
                for epoch in range(3):
                    for x in loader:
                        model(x)
        """
        (twin,) = twins("uniterated", source, "DL413")
        assert main_of(twin).rstrip().endswith("for epoch in range(3):\n        pass") and twin.total
        assert not twins("uniterated", f"{source}            use(loader)\n", "DL413")


class TestPaths:
    def test_a_fix_under_a_condition(self) -> None:
        (twin,) = twins("sibling", SCRIPT)
        condition = "not args_.cpu and args_.count > 1"
        assert f"(model(x) if {condition} else F.softmax(model(x), dim=1))" in main_of(twin)

    def test_a_statement_that_a_fix_adds(self) -> None:
        source = FUNCTION.replace("  # DL101", "").replace("        optimizer.zero_grad()\n", "")
        source = source.replace("optimizer.step()", "optimizer.step()  # DL202")
        (twin,) = twins("sibling", source, "DL202")
        assert re.search(r"\n( +)if not args_.cpu and .*:\n\1    optimizer\.zero_grad\(\)\n", main_of(twin))

    def test_a_value_of_an_arm_that_is_not_taken(self) -> None:
        (twin,) = twins("exclusive", SCRIPT)
        text = main_of(twin)
        assert "    if args_.amp:\n        probabilities = F.softmax(model(x), dim=1)\n    else:\n" in text
        assert "    if not args_.amp:\n        loss = criterion(probabilities, y)  # mark 1\n        optimizer" in text
        (twin,) = twins("compound", SCRIPT)
        assert "if not args_.cpu and args_.count > 1:" in main_of(twin) and "if args_.count == 1:" in main_of(twin)
        assert twin.total


class TestPurposes:
    def test_a_unit_test(self) -> None:
        (twin,) = twins("test", SCRIPT)
        assert list(twin.files) == ["tests/test_main.py"]
        assert "def test_training():\n    criterion" in twin.files["tests/test_main.py"]
        assert not twins("test", SCRIPT, explicit=True)

    def test_a_benchmark(self) -> None:
        (twin,) = twins("benchmark", SCRIPT)
        text = twin.files["benchmarks/bench_main.py"]
        assert "perf_counter()\n    criterion" in text and text.endswith("    benchmark()\n")
        assert not twins("benchmark", FUNCTION)

    def test_a_probe(self) -> None:
        (twin,) = twins("probe", FUNCTION.replace("for x, y in loader", "for i, (x, y) in enumerate(loader)"))
        assert "in enumerate([(torch_.zeros(1, 3, 224, 224), torch_.zeros(1, dtype=torch_.long),)]):" in main_of(twin)
        assert not twins("probe", FUNCTION.replace("for x, y in loader", "for x in range(3)"))

    def test_a_pin(self) -> None:
        (twin,) = twins("version", SCRIPT, right_with={"torch": "1.0"})
        assert twin.versions == {"torch": "1.0"} and twin.total and not twins("version", SCRIPT)


class TestJudging:
    entry, opaque = Assumption("entry", "it is called"), Assumption("opaque", "it is left alone")

    def test_strengths(self) -> None:
        certain, likely = Strength(2, frozenset()), Strength(1, frozenset({self.entry}))
        assert certain.exceeds(certain) and certain.exceeds(likely) and not likely.exceeds(certain)
        assert likely.exceeds(likely) and not Strength(1, likely.assumptions | {self.opaque}).exceeds(likely)

    def test_a_claim_that_does_not_care(self) -> None:
        """A rule that reports whatever is called with wrong arguments is told so, with the code."""
        subject = subject_of(SCRIPT)
        same = Twin(subject.files, subject.marks)
        assert list(subject.faults(same)) == [1] and list(subject.faults(Twin(subject.files, frozenset()))) == []
        gone = Twin({"main.py": "x = 1\n"}, subject.marks, total=True)
        assert list(subject.faults(gone)) == []

    def test_a_finding_on_another_line(self) -> None:
        subject = subject_of(SCRIPT)
        moved = subject.files["main.py"].replace("  # mark 1", "")
        assert list(subject.faults(Twin({"main.py": moved}, subject.marks, total=True))) == [0]

    def test_faults_show_the_code(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(DOUBTS, "choice", lambda subject: iter([Twin(subject.files, subject.marks)]))
        setup = Setup(find_rules(["DL101"], load_rules()))
        (fault,) = doubt_faults(Case("case", {"main.py": SCRIPT}), ["choice"], setup)
        assert "with the doubt 'choice':\n# mark 1 is as sure as without the doubt" in fault
        assert "loss = criterion(probabilities, y)  # mark 1" in fault
        assert not list(doubt_faults(Case("", {"main.py": SCRIPT}, undoubted={"choice": "so"}), ["choice"], setup))
        with pytest.raises(AssertionError, match="with the doubt 'choice'"):
            check("DL101", SCRIPT, vary=(), doubt=["choice"])

    def test_a_broken_twin_is_the_fault_of_the_doubt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(DOUBTS, "choice", lambda subject: iter([Twin({"main.py": "("}, subject.marks)]))
        with pytest.raises(AssertionError, match="the doubt 'choice' breaks the code"):
            twins("choice", SCRIPT)


class TestDirectives:
    def test_for_one_case_and_for_all(self) -> None:
        text = "# doubt: no-uncalled -- about a literal\n# right-with: torch=1.0 -- before\n\n# case: one\n"
        text += "# doubt: no-test, no-probe -- made up\nx = 1\n\n# case: two\nx = 2\n"
        one, two = parse_fixture(text, Path("dl190_a.py")).cases
        assert set(one.undoubted) == {"uncalled", "test", "probe"} and set(two.undoubted) == {"uncalled"}
        assert one.right_with == two.right_with == {"torch": "1.0"}

    @pytest.mark.parametrize(
        "line", ["# doubt: no-test", "# doubt: test -- so", "# doubt: no-such -- so", "# right-with: torch=1"]
    )
    def test_refused(self, line: str) -> None:
        with pytest.raises(FixtureError):
            parse_fixture(f"# case: one\n{line}\nx = 1\n", Path("dl190_a.py"))


@pytest.mark.slow
def test_each_doubt_applies_to_some_cases() -> None:
    """One that never does would test nothing."""
    applied: Counter[str] = Counter()
    for path in FIXTURES:
        fixture = read_fixture(path)
        rules = find_rules([fixture.code], load_rules())
        for case in [case for case in fixture.cases if case.is_marked()][::10]:
            subject = Subject(case, Setup(rules, case.versions, case.explicit, notes=case.notes))
            applied.update(name for name in NAMES for _ in twins_of(subject, name))
    assert {name for name in NAMES if not applied[name]} <= {"uniterated", "version"}
