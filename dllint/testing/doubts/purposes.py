"""Doubts about the purpose: the same code as a unit test, as a benchmark, and as a probe of shapes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.testing.doubts.calls import unstarted
from dllint.testing.doubts.rewriting import Draft, dotted
from dllint.testing.doubts.subject import Subject, Twin
from dllint.testing.variations.scopes import main_code, movable, wrapped

_WRAPPERS = ("enumerate", "tqdm", "tqdm.tqdm")


def as_a_unit_test(subject: Subject) -> Iterator[Twin]:
    """``tests/test_main.py``, where the statements are the function ``test_training``."""
    main, code = main_code(subject.files)
    if code is not None and not subject.case.explicit:
        files = unstarted(subject.files, "test_training") or subject.files
        yield from _moved(subject, main, files[main], f"tests/test_{main.replace('/', '_')}")


def as_a_benchmark(subject: Subject) -> Iterator[Twin]:
    """``benchmarks/bench_main.py``, where the time that the statements take is measured."""
    main, code = main_code(subject.files)
    rest = movable(code) if code is not None else []
    if code is None or not rest:
        return
    name, time = code.fresh("benchmark"), code.fresh("time_")
    header = [f"import time as {time}", "", "", f"def {name}():", f"    started_ = {time}.perf_counter()"]
    text = wrapped(code, rest, header, 1)
    text += f'    print("seconds:", {time}.perf_counter() - started_)\n\n\nif __name__ == "__main__":\n    {name}()\n'
    yield from _moved(subject, main, text, f"benchmarks/bench_{main.replace('/', '_')}")


def as_a_probe(subject: Subject) -> Iterator[Twin]:
    """The loops around the marked statements run over one batch of zeros, to see whether the shapes fit."""
    for file in subject.files:
        code = subject.code(file)
        draft, marks = Draft(code), frozenset[int]()
        for loop in (node for node in code.nodes if isinstance(node, ast.For)):
            batch, inside = _batch(loop), subject.marks_in(file, loop)
            if batch is not None and inside:
                draft.replace(batch[0], f"[{_zeros(draft, len(batch[1].elts))}]")
                marks |= inside
        text = draft.text() if marks else None
        if text is not None:
            yield Twin({**subject.files, file: text}, marks, total=True)


def _moved(subject: Subject, main: str, text: str, to: str) -> Iterator[Twin]:
    others = {name: other for name, other in subject.files.items() if name != main}
    marks = frozenset(claim.mark for claim in subject.claims if claim.place.file == main)
    if "__file__" not in text:
        yield Twin({to: text, **others}, marks, total=True)


def _batch(loop: ast.For) -> tuple[ast.expr, ast.Tuple] | None:
    """The loader that a loop takes batches from, and the names for their parts."""
    data, target = loop.iter, loop.target
    while isinstance(data, ast.Call) and data.args and (wrapper := dotted(data.func)) in _WRAPPERS:
        if wrapper == "enumerate":
            if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
                return None
            target = target.elts[1]
        data = data.args[0]
    name = dotted(data.func if isinstance(data, ast.Call) else data).rpartition(".")[2]
    is_data = name.lower().endswith(("loader", "batches", "data"))
    return (data, target) if is_data and isinstance(target, ast.Tuple) else None


def _zeros(draft: Draft, parts: int) -> str:
    """One batch of zeros."""
    torch = draft.code.fresh("torch_")
    draft.head.append(f"import torch as {torch}")
    texts = [f"{torch}.zeros(1, 3, 224, 224)", *[f"{torch}.zeros(1, dtype={torch}.long)"] * (parts - 1)]
    return f"({', '.join(texts)},)"
