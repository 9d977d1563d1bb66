"""The report as a page: well formed, complete, and safe whatever the script is called."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from plotly.offline import get_plotlyjs
from test_confirm_verdicts import finding, judgement

from dllint.assumptions import Assumption
from dllint.confirm.evidence import Histogram, Judgement, Layer, Order, Pictures, ProbeError, Record, Units
from dllint.confirm.launch import Outcome
from dllint.confirm.page import PageError, as_page
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
        if tag not in ("meta", "link", "col"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page(*judgements: Judgement, command: str = "train.py", **more: object) -> tuple[Reader, str, str]:
    record = Record(1, 0, "observe", "2.13", "cpu", "end", judgements=list(judgements), **more)  # type: ignore[arg-type]
    verdicts = settle([finding(line=10), finding("DL413")], [record])
    text = as_page(verdicts, Outcome([command], [record]))
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader, " ".join(reader.text), text


def test_has_the_verdicts_with_their_numbers() -> None:
    asked = judgement(line=10, statistics={"low": 0.12345678, "computed_by": ["Softmax"], "of": {"worker 0": "ab"}})
    _, text, _ = page(asked, judgement("DL202", line=50, voice="alarm"))
    for expected in ("CONFIRMED", "train.py:10", "0.1235", "Softmax", "worker 0: ab", "NOT TESTABLE", "ALARM", "DL202"):
        assert expected in text


def test_says_what_was_assumed() -> None:
    record = Record(1, 0, "observe", "2.13", "cpu", "end", judgements=[judgement(line=10)])
    assumed = finding(line=10, confidence="likely", assumptions=(Assumption("default", "`--loss` < 1"),))
    text = as_page(settle([assumed], [record]), Outcome(["train.py"], [record]))
    assert '<p class="premise">settled: `--loss` &lt; 1</p>' in text


def figures(text: str) -> dict[str, list[dict[str, Any]]]:
    """The data of each chart of a page, by its title."""
    found = re.findall(r"<h3>([^<]*)</h3>.*?Plotly\.newPlot\(\s*\"[\w-]+\",\s*(\[.*?\]),\s*\{", text, re.DOTALL)
    return {title: json.loads(data) for title, data in found}


def test_has_a_chart_for_each_trace() -> None:
    traces = {"loss": [3.0, float("nan"), 1.0], "lr": [0.1, 0.01], "scale": [], "gone": [float("inf")]}
    _, text, source = page(timeline="EFBS", traces=traces)
    drawn = figures(source)
    assert [trace["y"] for trace in drawn["Loss"]] == [[3.0, None, 1.0], [1.0]]
    assert drawn["Loss"][1]["x"] == [1]  # the mark of what is not finite
    assert drawn["Learning rate"][0]["y"] == [0.1, 0.01] and list(drawn) == ["Loss", "Learning rate", "Gone"]
    assert "3 to 1, least 1, most 3; 1 not finite" in text and "0.1 to 0.01" in text and "no finite value" in text


def test_has_charts_of_layers_units_orders_and_histograms() -> None:
    bars = Histogram(-1.0, 1.0, [1, 2, 1])
    layers = [
        Layer(f"block{at}.weight", [4, 4], "SGD", [(0, 1e-2), (10, 1e-3)], [(0, 0.1)], bars, bars) for at in range(20)
    ]
    units = [Units("a.weight", "ReLU", 10, 2000, 9, 0.0, bars), Units("a.weight", "tanh", 4, 2000, 0, 0.95)]
    orders = [Order("Points[8]", epoch, [3, 1, 2]) for epoch in range(2)]
    pictures = Pictures(layers, units, orders, {"labels by class (line 3)": Histogram(0.0, 3.0, [4, 0, 2])})
    _, text, source = page(pictures=pictures)
    drawn = figures(source)
    (heat,) = drawn["Updates by layer"]
    assert heat["z"][0] == [-2.0, -3.0] and heat["x"] == ["0", "10"] and len(heat["y"]) == 20
    (bar,) = drawn["Dead and saturated units"]
    assert bar["x"] == [0.9, 0.95] and bar["text"] == ["9 of 10 dead", "95 % saturated"]
    assert drawn["Order of the samples"][0]["z"] == [[3, 1, 2], [3, 1, 2]]
    assert drawn["Labels by class (line 3)"][0]["y"] == [4, 0, 2] and "6 labels of 2 classes" in text
    assert sum(title.startswith("Weights of") for title in drawn) == 8  # of 20, from the first to the last
    assert drawn["Weights of block0.weight"] and drawn["Weights of block19.weight"]


def test_shows_random_states_side_by_side() -> None:
    draws = {"worker 0, epoch 0": ["aa0000", "bb0000"], "worker 1, epoch 0": ["aa0000", "cc0000"]}
    reader, text, _ = page(judgement("DL402", statistics={"generator": "random", "draws": draws}))
    colors = [value for tag, name, value in reader.attributes if (tag, name) == ("td", "style")]
    assert len(colors) == 4 and colors[0] == colors[2] and colors[1] != colors[3]
    assert "worker 1, epoch 0" in text and "Random states of workers" in text


def test_loads_nothing_and_runs_nothing_of_the_script() -> None:
    broken = [ProbeError("<img src=x>", "Traceback <script>")]
    layers = [Layer("</script><img src=y>", [2, 2], "SGD", [(0, 0.1)])]
    reader, text, source = page(
        command="<script>alert(1)</script>", errors=broken, error="<b>", pictures=Pictures(layers)
    )
    assert "<script>alert(1)</script>" in text and "Traceback <script>" in text
    tags = {tag for tag, _, _ in reader.attributes}
    assert not tags & {"img", "iframe"}
    assert {value for tag, name, value in reader.attributes if name in ("src", "href")} == {"data:,"}
    assert "<img" not in source.replace(get_plotlyjs(), "")


def test_without_plotly_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(PageError, match=r"pip install \"dllint\[confirm\]\""):
        page()


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
REPORT = """
<script>
addEventListener("load", () => setTimeout(() => {
  const charts = [...document.querySelectorAll(".plotly-graph-div")];
  const drawn = charts.filter(chart => chart.querySelector(".main-svg .trace, .main-svg .heatmaplayer image"));
  document.querySelectorAll("details").forEach(each => each.open = true);
  const cards = [...document.querySelectorAll(".card")];
  const spills = cards.some(card => card.scrollWidth > card.clientWidth + 1);
  const wide = spills || document.documentElement.scrollWidth > document.documentElement.clientWidth;
  document.title = JSON.stringify({charts: charts.length, drawn: drawn.length, wide, errors: window.failures,
    requests: performance.getEntriesByType("resource").map(entry => entry.name)});
}, 500));
</script>
"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome is installed")
def test_in_a_real_browser(tmp_path: Path) -> None:
    bars = Histogram(-1.0, 1.0, [1, 2, 1])
    pictures = Pictures(
        [Layer("head.weight", [4, 4], "SGD", [(0, 1e-2), (10, 1e-3)], [(0, 0.1)], bars, bars)],
        [Units("head.weight", "ReLU", 10, 2000, 9, 0.0, bars)],
        [Order("Points[8]", 0, [3, 1, 2])],
        {"input of a model": bars},
    )
    traces = {"loss": [3.0, float("nan"), 1.0], "lr": [0.1, 0.01], "rate": [1e-3, 1e-2], "loss by rate": [2.0, 1.0]}
    long = judgement(line=10, statistics={"word": "x" * 300, "numbers": [0.123456] * 200})
    _, _, source = page(long, timeline="EFBS" * 90, traces=traces, pictures=pictures, command="/folder" * 30)
    source = source.replace("train.py:10", "/a/long/path" * 20 + ".py:10")
    first = "<script>window.failures = []; addEventListener('error', event => failures.push(event.message));</script>"
    target = tmp_path / "page.html"
    target.write_text(source.replace("<head>", "<head>" + first).replace("</body>", REPORT + "</body>"))
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    words += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1000,900", target.as_uri()]
    shown = subprocess.run([str(BROWSER), *words], capture_output=True, text=True, timeout=240, check=True).stdout
    title = re.search(r"<title>(\{.*?\})</title>", shown)
    assert title is not None, shown[-2000:]
    result = json.loads(unescape(title[1]))
    assert result == {"charts": 11, "drawn": 11, "wide": False, "errors": [], "requests": []}
