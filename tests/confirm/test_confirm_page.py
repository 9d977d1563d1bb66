"""The report as a page: well formed, complete, and safe whatever the script is called."""

from __future__ import annotations

from html.parser import HTMLParser

from test_confirm_verdicts import finding, judgement

from dllint.confirm.evidence import Judgement, ProbeError, Record
from dllint.confirm.launch import Outcome
from dllint.confirm.page import as_page
from dllint.confirm.verdicts import settle


class Reader(HTMLParser):
    """Checks that tags are closed in order, and collects text and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page(*judgements: Judgement, command: str = "train.py", **more: object) -> tuple[Reader, str]:
    record = Record(1, 0, "observe", "2.13", "cpu", "end", judgements=list(judgements), **more)  # type: ignore[arg-type]
    verdicts = settle([finding(line=10), finding("DL413")], [record])
    text = as_page(verdicts, Outcome([command], [record]))
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader, " ".join(reader.text)


def test_has_the_verdicts_with_their_numbers() -> None:
    asked = judgement(line=10, statistics={"low": 0.12345678, "computed_by": ["Softmax"], "draws": {"worker 0": "ab"}})
    _, text = page(asked, judgement("DL202", line=50, voice="alarm"))
    for expected in ("CONFIRMED", "train.py:10", "0.1235", "Softmax", "worker 0: ab", "NOT TESTABLE", "ALARM", "DL202"):
        assert expected in text


def test_has_a_curve_for_each_trace() -> None:
    traces = {"loss": [3.0, float("nan"), 1.0], "lr": [0.1, 0.01], "scale": [], "gone": [float("inf")]}
    reader, text = page(timeline="EFBS", traces=traces)
    curves = [value for tag, name, value in reader.attributes if (tag, name) == ("polyline", "points")]
    assert curves == ["6.0,6.0 634.0,154.0", "6.0,6.0 634.0,154.0", "", ""]
    assert "loss: 3 to 1, least 1, most 3; 1 not finite" in text and "lr, logarithmic: 0.1 to 0.01" in text


def test_loads_nothing_and_runs_nothing() -> None:
    broken = [ProbeError("<img src=x>", "Traceback <script>")]
    reader, text = page(command="<script>alert(1)</script>", errors=broken, error="<b>")
    assert "<script>alert(1)</script>" in text and "Traceback <script>" in text
    tags = {tag for tag, _, _ in reader.attributes}
    assert not tags & {"script", "img", "link", "iframe"}
    assert not any("http" in value for _, _, value in reader.attributes)
