"""Any notebook: its lines and offsets map one to one, and an edit changes nothing else."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from notebooks import BOOK, book

from dllint.files.notebook import EditRefused
from dllint.files.source import SourceFile, source_from_text, syntax_problem
from dllint.findings import Edit

LINES = st.sampled_from(
    [
        "",
        "x = 1",
        "%time",
        "!ls 'a",
        "if x:",
        "    y = 2",
        "    %env A",
        "é = '🎉'",
        "s = '''",
        "'''",
        "z = (",
        ")",
        "ls -l",
        "pip install q",
        "f?",
        "%%time",
        "%%bash",
        "  ind = 1",
        "# c",
        "a = !ls \\",
        "b = 3 \\",
        "\x0c",
        "",
    ]
)
CELLS = st.lists(
    st.lists(st.tuples(LINES, st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"])), max_size=6)
    .map(lambda lines: "".join(text + end for text, end in lines))
    .flatmap(lambda text: st.sampled_from([text, text.rstrip("\r\n")])),
    max_size=5,
)


def source_of(cells: list[str]) -> SourceFile:
    return source_from_text(book(*([cell] for cell in cells)), BOOK)


@given(CELLS)
def test_any_notebook_is_a_module_whose_lines_map_one_to_one(cells: list[str]) -> None:
    source = source_of(cells)
    notebook = source.notebook
    assert notebook is not None
    assert syntax_problem(source.text) is None
    seen = set()
    for cell, text in zip(notebook.cells, cells, strict=True):
        assert "".join(cell.original).removesuffix("\n") == text.removesuffix("\n")
        for index, (original, line, kept) in enumerate(zip(cell.original, cell.lines, cell.kept, strict=True)):
            module_line = notebook.module_line(cell.number, index + 1)
            seen.add(module_line)
            assert notebook.locate(module_line) == (cell.number, index + 1)
            assert source.line_text(module_line) == line.rstrip("\r\n")
            assert kept == (original == line)
    lines = range(1, len(source.line_starts))
    assert {source.line_text(line) for line in lines if line not in seen} <= {"# %%", "if True:"}
    assert len(seen) == sum(len(cell.lines) for cell in notebook.cells)


@given(CELLS)
def test_offsets_of_kept_lines_map_one_to_one(cells: list[str]) -> None:
    notebook = source_of(cells).notebook
    assert notebook is not None
    for cell in notebook.cells:
        source = "".join(cell.original)
        for offset in range(len(source)):
            place = cell.to_module(offset)
            assert notebook.cell_at(place) is cell
            line, _ = cell.line_at(place)
            if cell.kept[line]:
                assert cell.to_source(place) == offset
                assert notebook.text[place] == source[offset]


@given(CELLS, st.data())
def test_edits_change_nothing_else(cells: list[str], data: st.DataObject) -> None:
    source = source_of(cells)
    notebook = source.notebook
    assert notebook is not None
    places = st.integers(0, len(source.text))
    start, end = sorted((data.draw(places), data.draw(places)))
    new = data.draw(st.sampled_from(["", "q = 9", "q = 9\n", "é", "\n"]))
    try:
        after = notebook.apply_edits([Edit(start, end, new)]).decode()
    except EditRefused:
        return
    cell = notebook.cell_at(start)
    expected = json.loads(notebook.raw)
    got = json.loads(after)
    changed = "".join(got["cells"][cell.number - 1].pop("source"))
    original = "".join(expected["cells"][cell.number - 1].pop("source"))
    assert got == expected
    head = cell.to_source(start)
    tail = "".join(cell.original)[cell.to_source(end) :]
    ended = original.endswith(("\n", "\r"))
    assert changed.startswith(original[:head])
    assert changed.endswith(tail if ended else tail.removesuffix("\n"))
    if "\r" not in original:
        whole = "".join(cell.original)[:head] + new + tail
        assert changed == (whole if ended else whole.removesuffix("\n"))
    # the raw text around the cell's source is untouched
    first = next(i for i, (a, b) in enumerate(zip(notebook.raw + "\0", after + "\1", strict=False)) if a != b)
    assert notebook.raw.count('"source"', 0, first) == cell.number or after == notebook.raw
