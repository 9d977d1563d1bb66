"""The formats that other programs read, on one realistic report: two files, a notebook, fixes, problems."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import jsonschema
import nbformat
import pytest

from dllint.assumptions import KINDS, Assumption, Kind
from dllint.engine_rules import ENGINE_RULES
from dllint.findings import Edit, Finding, Fix, Held, Hop, Location, Problem, Report
from dllint.report import FORMATS, render
from dllint.report.github import SHOWN_PER_LEVEL
from dllint.report.raw_notebook import raw_lines
from dllint.rule import address_of

# Version 2.1.0 of the OASIS standard, as published at
# https://raw.githubusercontent.com/oasis-tcs/sarif-spec/master/Schemata/sarif-schema-2.1.0.json
SARIF_SCHEMA = Path(__file__).parent / "data" / "sarif-2.1.0.json"

MODEL = "src/ünet model.py"
MODEL_TEXT = """\
import torch.nn.functional as F


class Net(Base):
    def forward(self, x):
        return F.softmax(self.head(x), dim=1)
"""
TRAIN_TEXT = """\
# 训练 🚀
for x, y in loader:
    loss = criterion(net(x), y)
    loss.backward(); opt = torch.optim.Adam(net.parameters(), weight_decay=0.1)
"""
CELLS = ["# Title\nwith text", "%matplotlib inline\nimport torch", 'scheduler.step()  # "first"\noptimizer.step()\n']


def location(path: str, needle: str, cell: int | None = None) -> Location:
    """Where ``needle`` is in a file (or in a cell of the notebook), for ranges within one line."""
    text = Path(path).read_text(encoding="utf-8") if cell is None else CELLS[cell - 1]
    before = text[: text.index(needle)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return Location(path, line, column, line, column + len(needle), cell)


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path(MODEL).write_text(MODEL_TEXT, encoding="utf-8")
    Path("src/train.py").write_text(TRAIN_TEXT, encoding="utf-8")
    cells = [nbformat.v4.new_markdown_cell(CELLS[0]), *(nbformat.v4.new_code_cell(cell) for cell in CELLS[1:])]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), "nb.ipynb")
    adam = TRAIN_TEXT.index("Adam")
    return Report(
        findings=[
            Finding(
                "DL303", "scheduler-before-optimizer", "`scheduler.step()` before `optimizer.step()`",
                location("nb.ipynb", "scheduler.step()", 3), "warning", "correctness",
                statement="scheduler.step()",
            ),
            Finding(
                "DL301", "adam-weight-decay", "`Adam` with weight decay: 100% <wrong>",
                location("src/train.py", "torch.optim.Adam(net.parameters(), weight_decay=0.1)"),
                "info", "suspicious", "likely", confirmable=True, statement="opt = …",
                fixes=(Fix("use `AdamW`", (Edit(adam, adam + 4, "AdamW"),), "unsafe"),),
            ),
            Finding(
                "DL101", "softmax-before-cross-entropy", "softmax output passed to a loss that applies log-softmax",
                location("src/train.py", "criterion(net(x), y)"), "error", "correctness",
                effect="the loss still falls, but not to zero", help="return the scores",
                scope="Trainer.fit", statement="loss = criterion(net(x), y)",
                trace=(
                    Hop(location(MODEL, "F.softmax(self.head(x), dim=1)"), "softmax is applied here"),
                    Hop(location("src/train.py", "criterion(net(x), y)"), "the loss receives it"),
                ),
            ),
        ],
        problems=[Problem("unreadable", "no such file", "gone.py"), Problem("config", "unknown key `selct`")],
        files=4,
        suppressed=2,
    )  # fmt: skip


def written(report: Report, fmt: str, **options: Any) -> str:
    return render(report, fmt, root=Path(), rules=ENGINE_RULES, **options)


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


def test_other_places_in_sarif_are_related_locations(report: Report) -> None:
    softmax = replace(report.findings[2], others=(Location("gone.py", 7, 1, 7, 9), Location("nb.ipynb", 1, 1, 1, 5, 3)))
    log = json.loads(written(Report([softmax], files=1), "sarif"))
    jsonschema.Draft7Validator(json.loads(SARIF_SCHEMA.read_text(encoding="utf-8"))).validate(log)
    related = log["runs"][0]["results"][0]["relatedLocations"]
    assert [place["id"] for place in related] == [1, 2, 3, 4]
    assert [place["message"]["text"] for place in related[2:]] == ["More like this."] * 2
    assert related[2]["physicalLocation"]["region"]["startLine"] == 7


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


@pytest.fixture
def sarif(report: Report) -> dict[str, Any]:
    log = json.loads(written(report, "sarif"))
    schema = json.loads(SARIF_SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(log)
    [run] = log["runs"]
    return dict(run)


def test_sarif_schema_rejects_what_is_wrong(report: Report) -> None:
    log = json.loads(written(report, "sarif"))
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    schema = json.loads(SARIF_SCHEMA.read_text(encoding="utf-8"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate(log)


def test_sarif_rules_and_results_refer_to_each_other(sarif: dict[str, Any]) -> None:
    rules = sarif["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted({rule["id"] for rule in rules})
    for result in sarif["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    unused = next(rule for rule in rules if rule["id"] == "DL004")
    assert unused["name"] == "unused-suppression"
    assert unused["shortDescription"]["text"] == "A suppression comment that suppresses nothing."
    assert unused["help"]["markdown"].startswith("A suppression comment that suppresses nothing.\n\nThe bug")
    assert unused["properties"] == {
        "tags": ["suspicious", "deep-learning"], "precision": "high", "problem.severity": "warning",
    }  # fmt: skip


def test_sarif_places(sarif: dict[str, Any], tmp_path: Path) -> None:
    assert sarif["columnKind"] == "unicodeCodePoints"
    assert sarif["originalUriBaseIds"]["SRCROOT"]["uri"] == tmp_path.as_uri() + "/"
    result = sarif["results"][2]
    [place] = result["locations"]
    assert place["logicalLocations"] == [{"fullyQualifiedName": "Trainer.fit"}]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "src/train.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 3, "startColumn": 12, "endLine": 3, "endColumn": 32},
    }
    flow = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [hop["location"]["message"]["text"] for hop in flow] == ["Softmax is applied here.", "The loss receives it."]
    uri = flow[0]["location"]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", uri)
    assert unquote(uri) == MODEL
    assert [place["id"] for place in result["relatedLocations"]] == [1, 2]
    assert result["message"]["text"].endswith("log-softmax. The loss still falls, but not to zero. Return the scores.")


def test_sarif_fix_and_fingerprints(sarif: dict[str, Any], report: Report) -> None:
    _, likely, certain = sarif["results"]
    assert likely["level"] == "note"
    [fix] = likely["fixes"]
    [replacement] = fix["artifactChanges"][0]["replacements"]
    region = replacement["deletedRegion"]
    line = TRAIN_TEXT.splitlines()[region["startLine"] - 1]
    assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == "Adam"
    assert replacement["insertedContent"] == {"text": "AdamW"}
    assert fix["description"]["text"] == "Use `AdamW` (unsafe)"
    marks = [record["fingerprint"] for record in json.loads(written(report, "json"))[:3]]
    assert [result["partialFingerprints"] for result in sarif["results"]] == [
        {"dllintFingerprint/v1": mark} for mark in marks
    ]
    assert certain["properties"] == {"confidence": "certain", "confirmable": False}


def test_sarif_tells_of_problems(sarif: dict[str, Any]) -> None:
    [invocation] = sarif["invocations"]
    assert invocation["executionSuccessful"] is False
    [execution] = invocation["toolExecutionNotifications"]
    assert execution["message"]["text"] == "No such file."
    assert execution["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "gone.py"
    [configuration] = invocation["toolConfigurationNotifications"]
    assert configuration["descriptor"] == {"id": "config"}


def test_sarif_marks_what_is_suppressed(report: Report) -> None:
    held = [Held(report.findings.pop(1), "comment", "as in the paper"), Held(report.findings.pop(1), "baseline")]
    log = json.loads(written(replace(report, held=held), "sarif"))
    jsonschema.Draft7Validator(json.loads(SARIF_SCHEMA.read_text(encoding="utf-8"))).validate(log)
    assert [result.get("suppressions") for result in log["runs"][0]["results"]] == [
        None,
        [{"kind": "inSource", "status": "accepted", "justification": "as in the paper"}],
        [{"kind": "external", "status": "accepted"}],
    ]


def test_links_come_with_the_address_of_the_documentation(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "helpUri" not in written(report, "sarif"), "without an address there are no links"
    monkeypatch.setattr("dllint.rule.SITE", "https://example.com/dllint/")
    assert address_of("DL101") == "https://example.com/dllint/rules/DL101/"
    rules = {rule["id"]: rule for rule in json.loads(written(report, "sarif"))["runs"][0]["tool"]["driver"]["rules"]}
    assert rules["DL004"]["helpUri"] == "https://example.com/dllint/rules/DL004/"


def test_sentences_of_sarif_begin_with_capitals(sarif: dict[str, Any]) -> None:
    texts = [result["message"]["text"] for result in sarif["results"]]
    texts += [rule[key]["text"] for rule in sarif["tool"]["driver"]["rules"] for key in ("help", "shortDescription")]
    assert len(texts) > 10
    assert [text for text in texts if text[0].islower()] == []
    assert [text for text in texts if re.search(r"\. [a-z]", text)] == []


def test_notebook_places_are_lines_of_its_json(report: Report, sarif: dict[str, Any]) -> None:
    region = sarif["results"][0]["locations"][0]["physicalLocation"]["region"]
    raw = Path("nb.ipynb").read_text(encoding="utf-8").splitlines()
    assert raw[region["startLine"] - 1].strip() == '"scheduler.step()  # \\"first\\"\\n",'
    assert region == {"startLine": region["startLine"], "endLine": region["startLine"]}
    assert sarif["results"][0]["properties"]["cellLine"] == 1
    assert json.loads(written(report, "gitlab"))[0]["location"]["lines"]["begin"] == region["startLine"]


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
