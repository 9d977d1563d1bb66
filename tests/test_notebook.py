"""Notebooks as modules: magics, positions both ways, and edits that leave everything else as it is."""

from __future__ import annotations

import ast
import json
from typing import Any

import nbformat
import pytest
from notebooks import BOOK, book

from dllint.files.notebook import EditRefused, Notebook, read_notebook
from dllint.files.source import SourceError, source_from_text, syntax_problem
from dllint.findings import Edit, Location


def read(*cells: str | list[str] | dict[str, Any], **top: Any) -> Notebook:
    return read_notebook(book(*cells, **top))


def python(cell: str) -> str:
    """What a cell becomes in the module."""
    notebook = read(cell)
    assert not notebook.broken
    assert syntax_problem(notebook.text) is None
    return "".join(notebook.cells[0].lines)


MARKDOWN = {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "x = (\n"]}


def test_code_cells_make_one_module() -> None:
    notebook = read("import torch\nx = 1", MARKDOWN, ["y = x\n"], "")
    assert notebook.text == "# %%\nimport torch\nx = 1\n# %%\ny = x\n# %%\n\n"
    assert [cell.number for cell in notebook.cells] == [1, 3, 4]


def test_a_source_may_be_one_string() -> None:
    cell = {"cell_type": "code", "execution_count": 2, "metadata": {}, "outputs": [], "source": "a = 1\nb = 2"}
    assert read(cell).text == "# %%\na = 1\nb = 2\n"


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1\n"),
        ("% matplotlib inline", "pass\n"),
        ("!pip install it's \\\n   torch\nx = 1", "pass\n\nx = 1\n"),
        ("if gpu:\n\t!nvidia-smi\nelse:\n    %env A=1\n", "if gpu:\n\tpass\nelse:\n    pass\n"),
        ("files = !ls *.pt\nfiles[0]", "files = get_ipython()\nfiles[0]\n"),
        ("for n in r:\n  d[n], e = %sql select * \\\n from x\n", "for n in r:\n  d[n], e = get_ipython()\n\n"),
        ("?torch.nn\n??f\nobj?\nobj.method??\n%timeit?\n", "pass\npass\npass\npass\npass\n"),
        (",print a b\n/f 1\n", "pass\npass\n"),
        ("%time loss = step()\r\nx = 1\r\n", "pass\r\nx = 1\r\n"),
        ("cd x\npip install y\nimport torch\nls", "pass\npass\nimport torch\nls\n"),
        ("time model.fit(x)\nrun = 3\nrun.log(1)\n", "pass\nrun = 3\nrun.log(1)\n"),
    ],
)
def test_line_magics(cell: str, expected: str) -> None:
    assert python(cell) == expected


@pytest.mark.parametrize(
    "cell",
    [
        "x = (a\n% b\n)\n",
        "s = '''\n%matplotlib inline\n!ls\nwhat?\n'''\n",
        "x = 7 \\\n% 4\n",
        "# why?\nx = 1  # what?\n",
        "ls\nls -la\ncd = 1\n",
        "x = 1;\nx;\nx",
        "await step()\nasync with a as b:\n    pass\n",
    ],
)
def test_python_is_left_alone(cell: str) -> None:
    assert python(cell) == (cell if cell.endswith("\n") else f"{cell}\n")


def test_python_next_to_magics_is_left_alone() -> None:
    cell = "!ls\ns = '''\n%x\n'''  # it's\nt = (1\n% 2, '(')\n# what?\nu = 'a\\\n!ls'\nprint('why?')\nf(x=1)  # \\\n%y"
    assert python(cell) == cell.replace("!ls\ns", "pass\ns").replace("%y", "pass\n")


def test_cell_magics_that_run_python_keep_their_body() -> None:
    for magic in ("%%time", "%%capture out --no-stderr", "%%prun -s cumulative", "%%timeit -n 3", "%%wandb"):
        assert python(f"\n{magic}\n!ls\nx = 1") == "\n\npass\nx = 1\n"
    assert python("%%time\n%%capture\nx = 1") == "\n\nx = 1\n"


def test_cells_in_other_languages_are_blank() -> None:
    for magic in ("%%bash", "%%html", "%%writefile a.py", "%%python3", "%%unknown_magic"):
        assert python(f"{magic}\nx = 1\n\nfor (\n") == "\n\n\n\n"
    sql = {"cell_type": "code", "metadata": {"vscode": {"languageId": "sql"}}, "outputs": [], "source": ["select 1"]}
    assert read("x = 1", sql, "y = 2").text == "# %%\nx = 1\n# %%\ny = 2\n"


def test_notebooks_of_other_kernels_have_no_cells() -> None:
    assert read("x <- 1", metadata={"kernelspec": {"language": "R", "name": "ir"}}).text == ""
    assert read("x <- 1", metadata={"language_info": {"name": "julia"}}).text == ""
    assert read("x = 1", metadata={"language_info": {"name": "ipython"}}).text == "# %%\nx = 1\n"
    source = source_from_text(book("x", metadata={"language_info": {"name": "R"}}), BOOK)
    assert source.location(1, 0, 1, 0) == Location("book.ipynb", 1, 1, 1, 1, 1)


def test_an_indented_cell_is_what_ipython_takes_it_for() -> None:
    notebook = read("  # first\n  x = 1\n  y = 2", "z = 3")
    assert notebook.text == "# %%\nif True:\n  # first\n  x = 1\n  y = 2\n# %%\nz = 3\n"
    assert syntax_problem(notebook.text) is None
    assert notebook.locate(4) == (1, 2)


def test_a_broken_cell_is_reported_and_the_others_are_read() -> None:
    notebook = read("x = 1", MARKDOWN, "!ls\ny = (\nz", "w = 2")
    assert notebook.text == "# %%\nx = 1\n# %%\n\n\n\n# %%\nw = 2\n"
    (broken,) = notebook.broken
    assert (broken.cell, broken.line, broken.column) == (3, 2, 5)
    assert "never closed" in broken.message


def test_a_cell_that_ends_in_a_backslash_or_half_a_character_is_broken() -> None:
    raw = book("x = 1 \\", "x = 'SURROGATE'", "y = 'NUL'").replace("SURROGATE", r"\ud800").replace("NUL", r"\u0000")
    assert [broken.cell for broken in read_notebook(raw).broken] == [1, 2, 3]


def test_format_3_is_read_and_edited() -> None:
    code = {"cell_type": "code", "language": "python", "prompt_number": 7, "outputs": [], "input": ["x = 1\n", "y"]}
    raw = json.dumps({"worksheets": [{"cells": [MARKDOWN, code]}], "nbformat": 3, "nbformat_minor": 0, "metadata": {}})
    notebook = read_notebook(raw)
    assert notebook.text == "# %%\nx = 1\ny\n"
    assert notebook.execution_order_hint() == [2]
    edited = notebook.apply_edits([Edit(9, 10, "22")]).decode()
    assert edited == raw.replace('"x = 1\\n"', '"x = 22\\n"')


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("{\n 'cells': []}", "line 2, column 2"),
        ("[1]", "the JSON is no object"),
        ("{}", "no list of cells"),
        ('{"cells": 3}', "no list of cells"),
        ('{"cells": [3]}', "no list of cells"),
        ('{"cells": [{"cell_type": "code"}]}', "cell 1 has no source"),
        ('{"cells": [{"cell_type": "code", "source": [1]}]}', "cell 1 has no source"),
        ('{"cells": ' + "[" * 200_000, "not a notebook"),
        ('{"cells": [], "n": ' + "1" * 5000 + "}", "not a notebook"),
    ],
)
def test_what_is_no_notebook(raw: str, message: str) -> None:
    with pytest.raises(SourceError, match=r"^not a notebook") as caught:
        read_notebook(raw)
    assert message in str(caught.value)


@pytest.mark.parametrize("raw", ["", " \n"])
def test_a_file_with_nothing_in_it(raw: str) -> None:
    notebook = read_notebook(raw)
    assert notebook.text.strip() == ""
    assert notebook.apply_edits([]).decode() == raw


def test_execution_order() -> None:
    cells = [{"cell_type": "code", "execution_count": n, "outputs": [], "source": ""} for n in (5, None, 2)]
    notebook = read(*cells)
    assert notebook.execution_order_hint() == [3, 1]
    assert notebook.order_note().startswith("the cells were last run in the order 3, 1;")
    assert read(*reversed(cells)).order_note() == ""


def test_locations_are_in_cells() -> None:
    source = source_from_text(book("import torch", MARKDOWN, "%time\né = f(1)\n"), BOOK)
    call = next(node for node in ast.walk(ast.parse(source.text)) if isinstance(node, ast.Call))
    place = source.location(call.lineno, call.col_offset, call.end_lineno or 0, call.end_col_offset or 0)
    assert place == Location("book.ipynb", 2, 5, 2, 9, 3)
    start, end = source.span(place)
    assert source.text[start:end] == "f(1)"
    assert source.notebook is not None
    assert source.notebook.cell_lines(3) == ["%time", "é = f(1)"]


def test_a_range_over_two_cells_ends_with_the_first() -> None:
    source = source_from_text(book("a = 1\nbc = 2", "d = 3"), BOOK)
    assert source.location_of(5, len(source.text)) == Location("book.ipynb", 1, 1, 2, 7, 1)
    last = source.text.index("d = 3")
    assert source.location_of(last, len(source.text)) == Location("book.ipynb", 1, 1, 1, 6, 2)


def edit(raw: str, old: str, new: str) -> str:
    """The notebook's text after the only ``old`` in the module has been replaced by ``new``."""
    notebook = read_notebook(raw)
    start = notebook.text.index(old)
    assert notebook.text.count(old) == 1
    result = notebook.apply_edits([Edit(start, start + len(old), new)]).decode()
    nbformat.validate(nbformat.reads(result, as_version=4))
    return result


def test_an_edit_changes_only_its_line() -> None:
    raw = book("a = 1\nb = 2\nc = 3", MARKDOWN, "é = '\u2028/<'").replace("</", "<\\/")
    assert edit(raw, "b = 2", "b = 'é'") == raw.replace('"b = 2\\n"', "\"b = 'é'\\n\"")
    assert edit(raw, "c = 3", "c = 4\nd = 5") == raw.replace('"c = 3"', '"c = 4\\n",\n    "d = 5"')
    assert edit(raw, "b = 2\n", "") == raw.replace('\n    "b = 2\\n",', "")
    assert edit(raw, "c = 3\n", "") == raw.replace('2\\n",\n    "c = 3"', '2"')
    assert edit(raw, "a = 1\nb = 2\nc = 3\n", "") == raw.replace(
        '[\n    "a = 1\\n",\n    "b = 2\\n",\n    "c = 3"\n   ]', "[]"
    )


def test_insertions_at_the_ends_of_a_cell() -> None:
    raw = book("%time\na = 1\nb = 2", "c = 3\n", "")
    notebook = read_notebook(raw)
    after_b = notebook.text.index("b = 2\n") + 6
    inserted = notebook.apply_edits([Edit(after_b, after_b, "x()\n")]).decode()
    assert inserted == raw.replace('"b = 2"', '"b = 2\\n",\n    "x()"')
    before_magic = notebook.text.index("pass")
    inserted = notebook.apply_edits([Edit(before_magic, before_magic, "x()\n")]).decode()
    assert inserted == raw.replace('"%time\\n"', '"x()\\n",\n    "%time\\n"')
    end = len(notebook.text) - 1
    assert json.loads(notebook.apply_edits([Edit(end, end, "x()")]))["cells"][2]["source"] == ["x()"]


def test_styles_of_writing_are_kept() -> None:
    compact = json.dumps(json.loads(book("a = 'é'\nb = 1", "c = 2")), separators=(",", ":"))
    assert edit(compact, "b = 1", "b = 'ü'") == compact.replace("b = 1", "b = '\\u00fc'")
    string = json.dumps(
        json.loads(book("a = 1"))
        | {
            "cells": [
                {
                    "cell_type": "code",
                    "id": "x",
                    "metadata": {},
                    "execution_count": None,
                    "outputs": [],
                    "source": "a = 1\nb = 2",
                }
            ]
        },
        indent=4,
    )
    assert edit(string, "a = 1", "a = 3") == string.replace("a = 1", "a = 3")
    windows = book(["a = 1\r\n", "b = 2"]).replace("\n", "\r\n")
    assert edit(windows, "b = 2", "b = 3\nc = 4") == windows.replace('"b = 2"', '"b = 3\\r\\n",\r\n    "c = 4"')


def test_a_byte_order_mark_stays() -> None:
    notebook = read_notebook(book("a = 1"), "utf-8-sig")
    assert notebook.apply_edits([Edit(5, 6, "b")]).startswith(b'\xef\xbb\xbf{\n "cells"')


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1\n# %%\n", ""),  # crosses cells
        ("# %%\nb", ""),
        ("pass", "x"),  # a magic
        ("ass", "x"),
        ("d = 2; e = 3\n", "d = 2; "),  # joins a line to a magic
        ("; e = 3\n", ""),
        ("get_ipython()", "x"),
    ],
)
def test_edits_that_cannot_be_brought_back_are_refused(old: str, new: str) -> None:
    with pytest.raises(EditRefused):
        edit(book("a = 1", "b = 2\nd = 2; e = 3\n%time\n", "y = !ls"), old, new)


@pytest.mark.parametrize(
    ("cell", "line"),
    [("%%bash\nls\n", 1), ("%%bash\nls\n", 2), ("x = (\n", 1), ("%%time\nx = 1", 1), ("%time a \\\n b", 2)],
)
def test_nothing_is_put_into_other_languages_or_before_a_cell_magic(cell: str, line: int) -> None:
    notebook = read(cell)
    start = notebook.cells[0].start + sum(map(len, notebook.cells[0].lines[: line - 1]))
    with pytest.raises(EditRefused):
        notebook.apply_edits([Edit(start, start, "y = 1\n")])


def test_every_notebook_module_survives_a_no_op_edit_unchanged() -> None:
    raw = book("a = 1\n%time\nb = 'é\\u2028'", MARKDOWN, ["c = 1\nd = 2\n", "e", "f = 3"])
    notebook = read_notebook(raw)
    assert notebook.apply_edits([]).decode() == raw
    place = notebook.text.index("b =")
    assert notebook.apply_edits([Edit(place, place, "")]).decode() == raw
