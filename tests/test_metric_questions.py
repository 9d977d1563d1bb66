"""What rules about metrics and data ask: what loops add up and leave, what expressions stand for, what is paired."""

from __future__ import annotations

import ast

import pytest
from asking import ask

from dllint.api import Context, Site, StateSaved

LOOP = """
total, count, history = 0.0, 0, []
for epoch in range(3):
    for x, y in val_loader:
        loss = F.cross_entropy(net(x), y)
        total += loss.item()
        count = count + len(y)
        history.append(loss.item())
        running = total / count
    print(loss, running, total / count)
"""


def names_left(ctx: Context) -> list[str]:
    return [left.name for one in ctx.batch_loops for left in ctx.left_by(one)]


def test_what_a_loop_leaves_of_its_last_batch() -> None:
    assert ask(LOOP, names_left) == ["loss"]


@pytest.mark.parametrize(
    "statement",
    ["break", "loss = 0.9 * loss + 0.1 * net(x).mean()", "meter.update(y)\n        loss = meter.value(y)"],
)
def test_what_is_no_value_of_one_batch(statement: str) -> None:
    code = f"loss = 0\nfor x, y in val_loader:\n        {statement}\n        net(x)\nprint(loss)\n"
    assert ask(code, names_left) == []


def test_what_is_added_up() -> None:
    added = ask(LOOP, lambda ctx: [each.name for one in ctx.batch_loops for each in ctx.summed_in(one)])
    assert added == ["total", "count", "history"]


def test_where_a_sum_is_averaged_after_its_loop() -> None:
    def divisors(ctx: Context) -> list[str]:
        means = (mean for one in ctx.batch_loops for mean in ctx.means_after(one, "total"))
        return [ast.unparse(mean.divisor) for mean in means if mean.divisor is not None]

    assert ask(LOOP, divisors) == ["count"]


@pytest.mark.parametrize(
    ("divisor", "counted"),
    [("count", True), ("len(val_loader.dataset)", True), ("len(val_loader)", False), ("epoch", False)],
)
def test_what_counts_samples(divisor: str, counted: bool) -> None:
    node = ast.parse(divisor, mode="eval").body
    assert ask(LOOP, lambda ctx: [ctx.counts_samples(one, node) for one in ctx.batch_loops]) == [counted]


@pytest.mark.parametrize(
    ("reduction", "is_mean"), [("", True), (', reduction="mean"', True), (', reduction="sum"', False)]
)
def test_batch_means(reduction: str, is_mean: bool) -> None:
    code = LOOP.replace("net(x), y)", f"net(x), y{reduction})")
    found = ask(code, lambda ctx: [ctx.batch_mean_in(o, each) for o in ctx.batch_loops for each in ctx.summed_in(o)])
    assert (found[0] is not None) is is_mean and found[1] is None


def test_where_a_sum_begins() -> None:
    def begun(ctx: Context) -> list[bool]:
        return [
            one.outer is not None and ctx.begun_before(name, one.outer) is not None
            for one in ctx.batch_loops
            for name in ("total", "history", "loss")
        ]

    assert ask(LOOP, begun) == [True, True, False]


@pytest.mark.parametrize(
    ("name", "value", "phase"),
    [
        ("score", "total / len(val_loader)", "evaluation"),
        ("score", "train_epoch(net)", "training"),
        ("val_loss", "unknown()", "evaluation"),
        ("score", "unknown()", "unknown"),
    ],
)
def test_the_phase_of_a_score(name: str, value: str, phase: str) -> None:
    code = f"""
best = 1.0
for epoch in range(3):
    for x, y in train_loader:
        F.cross_entropy(net(x), y).backward()
    total = 0.0
    with torch.no_grad():
        for x, y in val_loader:
            total += F.cross_entropy(net(x), y).item()
    {name} = {value}
    if {name} < best:
        torch.save(net.state_dict(), "best.pt")
"""

    def phases(ctx: Context) -> list[str]:
        saved = ctx.all_of(StateSaved)[0]
        outer = ctx.loops_around(saved)[0]
        return [ctx.phase_of_score(score, outer).name for score in ctx.compared_with_best(saved)]

    assert ask(code, phases) == [phase]


def test_what_an_expression_stands_for() -> None:

    code = """
SCALE = 2**15

def show(wave):
    peak = wave / 2
    scaled = peak * SCALE
    return scaled.cpu().numpy()
"""

    def found(ctx: Context) -> tuple[list[str], float | None]:
        module = ctx.program.module
        function = next(
            node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef) and node.name == "show"
        )
        returned = function.body[-1]
        assert isinstance(returned, ast.Return) and returned.value is not None
        chain = [ast.unparse(each) for each in ctx.stands_for(Site(module, returned), returned.value)]
        scale = next(node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == "SCALE")
        return chain, ctx.number_at(Site(module, scale))

    chain, number = ask(code, found)
    assert chain[-1] == "peak * SCALE" and number == 2**15


@pytest.mark.parametrize(
    ("bounds", "count"),
    [("i:i + 30", 1), ("i:i + n", 1), ("i:i + 1", 0), ("i:30", 0), ("30:i", 0)],
)
def test_windows_that_overlap(bounds: str, count: int) -> None:
    code = f"""
from sklearn.model_selection import train_test_split
from unknown import series, n
windows = [series[{bounds}] for i in range(len(series) - 30)]
parts = train_test_split(windows)
"""

    def windows(ctx: Context) -> int:
        event = ctx.library_calls("sklearn.model_selection.train_test_split")[0]
        return len(ctx.data.windows_in(event.arguments.positional[0]))

    assert ask(code, windows) == count
