"""Loops that end by a count read a part of what they go over."""

from __future__ import annotations

import ast
import textwrap

import pytest

from dllint.interp.source.counted_loops import ends_by_count


@pytest.mark.parametrize(
    "source",
    [
        "for x in loader:\n    score(x)\n    break",
        "for i, x in enumerate(loader):\n    if i == STEPS:\n        break\n    score(x)",
        "for i, x in enumerate(tqdm(iter(loader))):\n    if i >= args.steps:\n        break\n    score(x)",
        "for i, x in tqdm(enumerate(loader)):\n    score(x)\n    if i + 1 == 10:\n        break",
        "for x in loader:\n    score(x)\n    n += 1\n    if n > 20:\n        break",
        "for x in loader:\n    with torch.no_grad():\n        score(x)\n        break",
    ],
)
def test_a_part_is_read(source: str) -> None:
    assert ends_by_count(ast.parse(source).body[0])


@pytest.mark.parametrize(
    "source",
    [
        "for x in loader:\n    score(x)",
        "for i, x in enumerate(loader):\n    if debug and i == 5:\n        break\n    score(x)",
        "for i, x in enumerate(loader):\n    if debug:\n        break\n    score(x)",
        "for i, x in enumerate(loader):\n    if i == 5:\n        show(x)\n    score(x)",
        "for i, x in enumerate(loader):\n    if debug:\n        if i == 5:\n            break\n    score(x)",
        "for i, x in enumerate(loader):\n    if i == len(loader) - 1:\n        break\n    score(x)",
        "for i, x in enumerate(loader):\n    if steps is not None and i >= steps:\n        break\n    score(x)",
        "for x in loader:\n    for y in x:\n        break\n    score(x)",
        "for x in loader:\n    if loss < 5:\n        break\n    score(x)",
        "for x in loader:\n    if patience == 5:\n        break\n    score(x)",
        "for x in loader:\n    if not ok(x):\n        continue\n    score(x)\n    break",
        "while True:\n    score(next(batches))\n    break",
    ],
)
def test_all_of_it_may_be_read(source: str) -> None:
    assert not ends_by_count(ast.parse(textwrap.dedent(source)).body[0])
