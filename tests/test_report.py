"""The formats that other programs read, on one realistic report: two files, a notebook, fixes, problems."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from example_report import MODEL, TRAIN_TEXT, example_report, location, written

from dllint.assumptions import KINDS, Assumption, Kind
from dllint.findings import Edit, Finding, Fix, Hop, Location, Report
from dllint.report import FORMATS, render
from dllint.report.github import SHOWN_PER_LEVEL
from dllint.report.raw_notebook import raw_lines

SAID = {
    "concise": "nb.ipynb:cell 3:1:1: ",
    "full": "nb.ipynb:cell 3:1:1 ",
    "json": '"cell": 3',
    "jsonl": '"cell": 3',
    "sarif": '"cellLine": 1',
    "github": "Cell 3, line 1",
    "gitlab": "(cell 3, line 1)",
    "junit": "nb.ipynb:cell 3:1:1",
    "markdown": "`nb.ipynb:cell 3:1:1`",
    "html": "nb.ipynb:cell 3:1:1",
}
ASSUMED = {
    "concise": "wrong> (likely, assuming `--loss` is `bce` and 1 more; and 2 more like this)",
    "full": "= assuming: `--loss` is `bce`\n  = assuming: the batch is larger than 1",
    "json": '"text": "the batch is larger than 1"',
    "jsonl": '{"kind": "effect", "text": "the batch is larger than 1"}',
    "sarif": "This assumes that `--loss` is `bce` and that the batch is larger than 1.",
    "github": "%0AThis assumes that `--loss` is `bce` and that the batch is larger than 1.%0AAnd 2 more like this:",
    "gitlab": "(likely, assuming `--loss` is `bce` and the batch is larger than 1; and 2 more like this: src",
    "junit": "\nThis assumes that `--loss` is `bce` and that the batch is larger than 1.\nAnd 2 more like this:",
    "html": "likely, assuming that <code>--loss</code> is <code>bce</code> and that the batch is larger than 1",
    "markdown": "likely, assuming `--loss` is `bce` and the batch is larger than 1",
}


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.chdir(tmp_path)
    return example_report()


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_format_says_what_is_assumed_and_where_else_it_is(fmt: str, report: Report) -> None:
    texts = ("`--loss` is `bce`", "the batch is larger than 1", "`--loss` is `bce`")  # twice is once
    kinds: tuple[Kind, ...] = ("default", "effect", "default")
    adam = replace(
        report.findings[1],
        assumptions=tuple(Assumption(kind, text) for kind, text in zip(kinds, texts, strict=True)),
        others=(location("src/train.py", "loss = criterion"), Location("gone.py", 7, 1, 7, 9)),
    )
    text = written(Report([adam], files=4), fmt, width=120)
    assert ASSUMED[fmt] in text
    assert "gone.py" in text or fmt in ("concise", "markdown")


def test_the_kinds_of_assumptions_are_explained() -> None:
    page = (Path(__file__).parents[1] / "docs" / "confirm.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (.+) \|$", page.partition("## Assumptions")[2].partition("\n## ")[0], re.M)
    assert dict(rows) == KINDS


def test_many_other_places_are_counted(report: Report) -> None:
    softmax = replace(report.findings[2], others=tuple(Location("gone.py", n, 1, n, 9) for n in range(1, 9)))
    text = written(Report([softmax], files=1), "full", width=200)
    assert "= note: and 8 more like this: gone.py:1:1, gone.py:2:1," in text
    assert "gone.py:5:1 and 3 others\n" in text


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_format_says_cell_and_line(fmt: str, report: Report) -> None:
    assert SAID[fmt] in written(report, fmt)


def test_json_round_trip(report: Report) -> None:
    found = json.loads(written(report, "json"))
    assert [record["code"] for record in found] == ["DL303", "DL301", "DL101", None]
    assert {key: found[2][key] for key in ("path", "line", "column", "end_line", "end_column", "cell", "scope")} == {
        "path": "src/train.py", "line": 3, "column": 12, "end_line": 3, "end_column": 32, "cell": None,
        "scope": "Trainer.fit",
    }  # fmt: skip
    hop = found[2]["trace"][0]
    assert (hop["path"], hop["line"], hop["message"]) == (MODEL, 6, "softmax is applied here")
    assert found[0]["cell"] == 3
    assert found[0].keys() == {
        "code", "name", "message", "effect", "help", "severity", "category", "confidence", "assumptions", "path",
        "line", "column", "end_line", "end_column", "cell", "scope", "fingerprint", "trace", "others", "fixes",
        "confirmable", "url",
    }  # fmt: skip
    assert (found[1]["severity"], found[1]["confidence"], found[1]["confirmable"]) == ("info", "likely", True)
    assert len({record["fingerprint"] for record in found[:3]}) == 3
    assert found[3].keys() == found[0].keys(), "an unreadable file has the shape of a finding"
    assert (found[3]["name"], found[3]["path"], found[3]["message"]) == ("unreadable", "gone.py", "no such file")


def test_edits_in_json_have_both_offsets_and_lines(report: Report) -> None:
    [fix] = json.loads(written(report, "json"))[1]["fixes"]
    [edit] = fix["edits"]
    assert (fix["message"], fix["safety"], edit["text"]) == ("use `AdamW`", "unsafe", "AdamW")
    assert TRAIN_TEXT[edit["start"] : edit["end"]] == "Adam"
    assert edit["start_line"] == edit["end_line"] == 4
    line = TRAIN_TEXT.splitlines()[3]
    assert line[edit["start_column"] - 1 : edit["end_column"] - 1] == "Adam"


def test_jsonl_has_the_objects_of_json_and_nothing_else(report: Report) -> None:
    lines = written(report, "jsonl").splitlines()
    assert [json.loads(line) for line in lines] == json.loads(written(report, "json"))


def test_unreadable_source_leaves_lines_of_edits_null(report: Report) -> None:
    Path("src/train.py").unlink()
    [edit] = json.loads(written(report, "json"))[1]["fixes"][0]["edits"]
    assert edit["start"] > 0
    assert edit["start_line"] is None


def test_empty_reports() -> None:
    report = Report(files=3)
    assert json.loads(written(report, "json")) == json.loads(written(report, "gitlab")) == []
    assert written(report, "jsonl") == ""
    assert written(report, "concise") == written(report, "full") == written(report, "github")
    assert written(report, "concise") == "Found nothing in 3 files\n"
    [test] = ElementTree.fromstring(written(report, "junit")).iter("testcase")
    assert list(test) == []


def test_machine_paths_are_relative_to_the_root(report: Report, tmp_path: Path) -> None:
    above = render(report, "gitlab", root=tmp_path.parent)
    assert json.loads(above)[1]["location"]["path"] == f"{tmp_path.name}/src/train.py"
    below = json.loads(render(report, "sarif", root=tmp_path / "src"))["runs"][0]["results"]
    uris = [result["locations"][0]["physicalLocation"]["artifactLocation"] for result in below]
    assert uris == [
        {"uri": (tmp_path / "nb.ipynb").as_uri()},
        {"uri": "train.py", "uriBaseId": "SRCROOT"},
        {"uri": "train.py", "uriBaseId": "SRCROOT"},
    ]


def test_gitlab_has_the_documented_shape(report: Report) -> None:
    twin = Finding(**{name: getattr(report.findings[2], name) for name in Finding.__slots__} | {
        "location": Location("src/copy of train.py", 3, 12, 3, 32)
    })  # fmt: skip
    report.findings.append(twin)
    issues = json.loads(written(report, "gitlab"))
    for issue in issues:
        assert issue.keys() == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert re.fullmatch("[0-9a-f]{32}", issue["fingerprint"])
        assert isinstance(issue["location"]["lines"]["begin"], int)
    assert issues[2]["location"] == {"path": "src/train.py", "lines": {"begin": 3}}
    assert issues[2]["description"].startswith("DL101 softmax-before-cross-entropy: softmax output")
    assert len({issue["fingerprint"] for issue in issues}) == 4, "a copied file must not hide the original"


def test_html_is_one_page_that_loads_nothing(report: Report) -> None:
    text = written(report, "html")
    assert not re.findall(r"(?:src|href)=\"(?!#)[^\"]*|@import|url\((?!#)", text)
    assert "<script" not in text
    page = ElementTree.fromstring(re.sub(r"<!doctype html>|<meta[^>]*>", "", text))
    headings = ["".join(heading.itertext()) for heading in page.iter("h2")]
    assert headings == ["nb.ipynb", "src/train.py"], "findings stand with the script in which they take effect"


def test_html_draws_the_trace_across_files(report: Report) -> None:
    page = ElementTree.fromstring(re.sub(r"<!doctype html>|<meta[^>]*>", "", written(report, "html")))
    [drawing] = page.iter("svg")
    texts = ["".join(text.itertext()) for text in drawing.iter("text")]
    assert texts[:2] == [MODEL, "src/train.py"], "a column for each file"
    assert texts[2].startswith("1. softmax is applied") and "F.softmax" in texts[3]
    boxes = [(box.get("x"), box.get("class")) for box in drawing.iter("rect")]
    assert len(boxes) == len(report.findings[2].trace) and boxes[-1][1] == "last"
    assert len({x for x, _ in boxes}) == 2
    said = "".join(page.itertext())
    assert "The loss still falls, but not to zero." in said and "Return the scores." in said


def test_html_shows_fixes_and_escapes(report: Report) -> None:
    text = written(report, "html")
    assert 'class="add">+ ' in text and "AdamW" in text and "unsafe: it changes the numbers of a run" in text
    assert "100% &lt;wrong&gt;" in text and "<wrong>" not in text


def test_markdown_is_a_table(report: Report) -> None:
    rows = [line for line in written(report, "markdown").splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(report.findings)
    assert {row.replace("\\|", "").count("|") for row in rows} == {6}
    assert "- gone.py: no such file" in written(report, "markdown")


def test_junit_counts_and_escapes(report: Report) -> None:
    report.findings[2] = Finding(
        "DL101", "softmax-before-cross-entropy", "bad \x1b[31m \0 <&> ]]> \ud800", Location("a\x07.py", 1, 1, 1, 1),
        "error", "correctness",
    )  # fmt: skip
    text = written(report, "junit")
    top = ElementTree.fromstring(text.encode("utf-8"))
    assert [top.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["5", "2", "2", "0"]
    assert [suite.get("name") for suite in top] == ["nb.ipynb", "src/train.py", "a\ufffd.py", "dllint"]
    assert sum(int(suite.get("tests", "")) for suite in top) == 5
    failure = top.findall(".//failure")[1]
    assert failure.get("type") == "error"
    assert "<&> ]]>" in failure.get("message", "")
    assert not set(text) & {"\x1b", "\0", "\x07", "\ud800"}
    assert [error.get("type") for error in top.iter("error")] == ["unreadable", "config"]


def test_github_escapes_and_ranks(report: Report) -> None:
    lines = written(report, "github").splitlines()
    assert lines[0] == "::error file=gone.py,title=dllint%3A unreadable::gone.py: no such file"
    assert lines[2].startswith(
        "::error file=src/train.py,line=3,endLine=3,col=12,endColumn=32,title=DL101 softmax-before-cross-entropy::"
    )
    assert "log-softmax.%0AThe loss still falls, but not to zero.%0AReturn the scores.%0Asrc/ünet model" in lines[2]
    assert lines[3].startswith("::warning file=nb.ipynb,line=")
    assert "col=" not in lines[3]
    assert "::Cell 3, line 1:%0A" in lines[3]
    assert lines[4].startswith("::notice ")
    assert "100%25 <wrong>" in lines[4]
    assert lines[5].startswith("Found 1 error, 1 warning, 1 note")


def test_github_property_escaping() -> None:
    report = Report([Finding("DL101", "x", "m", Location("a,b:c%.py", 1, 1, 2, 1), "error", "correctness")], files=1)
    assert written(report, "github").startswith("::error file=a%2Cb%3Ac%25.py,line=1,endLine=2,title=DL101 x::M.\n")


def test_github_folds_what_would_be_dropped() -> None:
    def finding(number: int, severity: str) -> Finding:
        place = Location("::error ##[x].py", number, 1, number, 2)
        return Finding("DL101", "x", "m", place, severity, "correctness")  # type: ignore[arg-type]

    report = Report([*(finding(n, "warning") for n in range(1, 14)), finding(99, "error")], files=1)
    lines = written(report, "github").splitlines()
    assert lines[0].startswith("::error ")
    assert "line=99" in lines[0]
    assert sum(line.startswith("::warning ") for line in lines) == SHOWN_PER_LEVEL
    start = lines.index("::group::3 more findings (GitHub shows 10 annotations per level in a step)")
    assert lines[start + 4] == "::endgroup::"
    assert lines[start + 1] == "- ::error ## [x].py:11:1: warning[DL101] x: m"


def test_unknown_format() -> None:
    with pytest.raises(ValueError, match=r"unknown output format 'xml'; choose from concise, full, json"):
        render(Report(), "xml", root=Path())


def test_every_format_survives_hostile_text(report: Report) -> None:
    nasty = "\x1b]0;owned\x07 \u202e \udcff \0 `|<script>` ::error::"
    report.findings = [
        Finding("DL101", "x", nasty, Location(nasty, 7, 9, 3, 1, 2), "error", "correctness", effect=nasty, help=nasty,
                scope=nasty, statement=nasty, trace=(Hop(Location("a.py", 10**9, 1, 10**9, 1), nasty),),
                fixes=(Fix(nasty, (Edit(5, 10**9, nasty),), "safe"),)),
    ]  # fmt: skip
    for fmt in FORMATS:
        text = written(report, fmt)
        assert not set(text) & {"\x1b", "\x07", "\0"}, fmt
        assert fmt == "junit" or "\u202e" not in text
        text.encode("utf-8")


def test_concise_loads_only_what_it_needs(report: Report) -> None:
    script = (
        "import sys; from pathlib import Path; from dllint.findings import Report; from dllint.report import render; "
        "render(Report(), 'concise', root=Path()); print(*sys.modules)"
    )
    repository = Path(__file__).parent.parent
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=repository
    ).stdout.split()
    assert "dllint.report.concise" in loaded
    heavy = {"json", "difflib", "textwrap", "unicodedata", "xml", "dllint.files.source", "dllint.report.full"}
    assert not heavy & set(loaded)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('["a\\n", "b"]', [1, 1]),
        ('[\n"a\\n",\n"b\\n"\n]', [2, 3]),
        ('[\n"a",\n"b\\n",\n"",\n"c\\nd"\n]', [2, 5, 5]),
        ('"a\\nb\\n"', [1, 1]),
        ("[]", []),
    ],
)
def test_raw_lines_of_a_cell(source: str, lines: list[int]) -> None:
    before = '{"metadata": {"cells": [{"source": ["no"]}]}, "cells": [{"source": "x]}"},\n {"source": '
    raw = f'{before}{source}, "outputs": []}}]}}'
    json.loads(raw)
    assert raw_lines(raw, 2) == [line + 1 for line in lines]
    assert raw_lines(raw, 3) == []


def test_raw_lines_of_format_3() -> None:
    raw = '{"worksheets": [\n{"cells": [{"input": "a"}]},\n{"cells": [\n{"input": ["b"]}]}]}'
    assert [raw_lines(raw, cell) for cell in (1, 2)] == [[2], [4]]
