"""The charts of the report, as plotly draws them: each is a dict of data and layout, with a caption beside it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from dllint.confirm.evidence import Histogram, Layer, Record, Units
from dllint.dataclass import dataclass

_LOGARITHMIC = ("lr", "scale", "update_ratio", "rate")
_BLUE, _ORANGE, _RED, _GRAY = "#2f6db3", "#d9822b", "#b3261e", "#9aa3ad"
_TITLES = {
    "loss": "Loss",
    "lr": "Learning rate",
    "scale": "Scale of the gradient scaler",
    "update_ratio": "Update of the median layer, compared with its weights",
    "loss on one batch": "Loss on one batch",
}
_ORDER = list(_TITLES)
_LAYOUT = {
    "margin": {"l": 56, "r": 14, "t": 8, "b": 40},
    "font": {"family": "system-ui, sans-serif", "size": 12, "color": "#333"},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "#fff",
    "showlegend": False,
    "hoverlabel": {"font": {"size": 12}},
}
_AXES = {"gridcolor": "#e8ebee", "zerolinecolor": "#d5d9dd", "linecolor": "#c4c9ce", "ticks": "outside", "ticklen": 3}
_MOST_ROWS = 60  # of a heat map
_MOST_HISTOGRAMS = 8  # layers
_LONGEST = 42  # characters of a name


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure for plotly, what it is called, its numbers in words, and how high it is. A wide one has its own row."""

    title: str
    caption: str
    figure: dict[str, Any]
    height: int = 240
    is_wide: bool = False


def charts(record: Record) -> Iterator[Chart]:
    """The charts of a run, the most telling first."""
    traces = dict(record.traces)
    rates, losses = traces.pop("rate", []), traces.pop("loss by rate", [])
    if losses and len(rates) >= len(losses):
        yield _range(rates, losses)
    for name, values in sorted(traces.items(), key=lambda item: _ORDER.index(item[0]) if item[0] in _ORDER else 99):
        if values:
            yield _course(name, values)
    pictures = record.pictures
    for title, which in (("Updates by layer", "updates"), ("Gradients by layer", "gradients")):
        rows = [(_short(layer.name), dict(getattr(layer, which))) for layer in pictures.layers]
        rows = [row for row in rows if row[1]][:_MOST_ROWS]
        if rows:
            yield _by_layer(title, rows, len(pictures.layers))
    if pictures.units:
        yield _units(pictures.units)
    if pictures.orders:
        yield _orders([(f"{order.loader}, epoch {order.epoch}", order.indices) for order in pictures.orders])
    for name, bars in pictures.histograms.items():
        yield _bars(name[0].upper() + name[1:], bars, _ORANGE, "by class" in name)
    yield from _of_layers(pictures.layers, pictures.units)


def _figure(data: list[dict[str, Any]], **layout: Any) -> dict[str, Any]:
    return {"data": data, "layout": {**_LAYOUT, **layout}}


def _drawn(kind: str, hover: str, **more: Any) -> dict[str, Any]:
    """Data that is drawn in one way, and what is shown of a point that is pointed at."""
    return {"type": kind, "hovertemplate": f"{hover}<extra></extra>", **more}


def _axis(title: str = "", **more: Any) -> dict[str, Any]:
    return {**_AXES, "title": {"text": title, "standoff": 6}, "automargin": True, **more}


_NAMES = _axis(autorange="reversed", tickfont={"size": 11})


def _course(name: str, values: Sequence[float | None]) -> Chart:
    """A number over the run. What is not finite leaves a gap with a mark below."""
    shown = [value if value is not None and math.isfinite(value) else None for value in values]
    finite = [value for value in shown if value is not None]
    lost = [at for at, value in enumerate(shown) if value is None]
    is_logarithmic = name in _LOGARITHMIC and bool(finite) and min(finite) > 0
    mode, line = "lines+markers" if len(values) < 60 else "lines", {"color": _BLUE, "width": 1.8}
    data = [_drawn("scatter", "%{x}: %{y:.4g}", mode=mode, y=shown, line=line, marker={"size": 4})]
    if lost:
        mark, lowest = {"symbol": "x", "color": _RED, "size": 8}, [min(finite, default=1.0)] * len(lost)
        data.append(_drawn("scatter", "%{x}: not finite", mode="markers", x=lost, y=lowest, marker=mark))
    caption = "no finite value"
    if finite:
        caption = f"{finite[0]:.4g} to {finite[-1]:.4g}, least {min(finite):.4g}, most {max(finite):.4g}"
    caption += f"; {len(lost)} not finite" if lost else ""
    along = "backward pass" if name == "loss" else "sample" if name.startswith(("update", "log ")) else "step"
    axis = _axis(type="log" if is_logarithmic else "linear")
    extreme = max(map(abs, finite), default=0.0)
    if extreme and not 1e-3 < extreme < 1e5:
        axis["tickformat"] = ".0e"
    if is_logarithmic:
        axis |= {"dtick": 1, "tickformat": ".0e"} if max(finite) > 10 * min(finite) else {"nticks": 5}
    return Chart(_TITLES.get(name, name[0].upper() + name[1:]), caption, _figure(data, xaxis=_axis(along), yaxis=axis))


def _range(rates: Sequence[float], losses: Sequence[float]) -> Chart:
    rates = rates[: len(losses)]
    hover, line = "rate %{x:.2g}: loss %{y:.4g}", {"color": _BLUE}
    data = _drawn("scatter", hover, mode="lines", x=list(rates), y=list(losses), line=line)
    lowest = min(range(len(losses)), key=losses.__getitem__)
    span = [0.9 * losses[lowest], losses[0] + 0.3 * abs(losses[0] - losses[lowest])]
    axes = {"xaxis": _axis("learning rate", type="log", dtick=1, tickformat=".0e"), "yaxis": _axis("loss", range=span)}
    caption = f"lowest, {losses[lowest]:.4g}, at a rate of {rates[lowest]:.2g}"
    return Chart("Loss by learning rate", caption, _figure([data], **axes), is_wide=True, height=300)


def _by_layer(title: str, rows: list[tuple[str, dict[int, float]]], number: int) -> Chart:
    """A heat map: how long updates or gradients are compared with weights, for each layer and sampled step."""
    steps = sorted({step for _, row in rows for step in row})
    powers = [{step: math.log10(value) for step, value in row.items() if 0 < value < math.inf} for _, row in rows]
    values = [[row.get(step) for step in steps] for row in powers]
    known = [value for row in values for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    more = {"x": [str(step) for step in steps], "xgap": 1, "ygap": 1, "zmin": low, "zmax": high}
    hover, axis = "%{y}, step %{x}: 10^%{z:.2f}", _axis("step", type="category")
    caption = f"compared with the weights of the layer, from 10^{low:.1f} to 10^{high:.1f}"
    caption += " (around 10^-3 is usual)" if title.startswith("Updates") else ""
    caption += "" if len(rows) == number else f"; {len(rows)} of {number} layers are shown"
    figure = _heat_map([name for name, _ in rows], values, "10^", hover, axis, **more)
    return Chart(title, caption, figure, height=100 + 18 * len(rows), is_wide=len(rows) > 12)


def _heat_map(
    names: Sequence[str], values: Sequence[Any], unit: str, hover: str, axis: dict[str, Any], **more: Any
) -> dict[str, Any]:
    bar = {"title": {"text": unit, "side": "top"}, "thickness": 12, "outlinewidth": 0}
    data = _drawn("heatmap", hover, z=values, y=_distinct(names), colorscale="Viridis", colorbar=bar, **more)
    return _figure([data], xaxis=axis, yaxis=_NAMES)


def _units(layers: Sequence[Units]) -> Chart:
    shown = layers[:_MOST_ROWS]
    shares = [units.share for units in shown]
    names = _distinct([f"{units.kind} after {_short(units.name)}" for units in shown])
    texts = [
        f"{units.dead} of {units.units} dead" if units.kind == "ReLU" else f"{100 * units.saturated:.0f} % saturated"
        for units in shown
    ]
    colors = [_RED if share >= 0.9 else _ORANGE if share > 0.2 else _BLUE for share in shares]
    style = {"orientation": "h", "textposition": "outside", "cliponaxis": False, "marker": {"color": colors}}
    data = _drawn("bar", "%{y}: %{text}", x=shares, y=names, text=texts, **style)
    axis = _axis("share", range=[0, 1.3], tickformat=".0%", tickvals=[0, 0.25, 0.5, 0.75, 1])
    figure, samples = _figure([data], xaxis=axis, yaxis=_NAMES, bargap=0.35), min(units.samples for units in shown)
    caption = f"at worst {max(shares):.2g}; dead is a unit that was zero for each of {samples} samples or more, "
    caption += "saturated an output of tanh beyond 0.99"
    return Chart("Dead and saturated units", caption, figure, 90 + 24 * len(shown))


def _orders(orders: list[tuple[str, list[int]]]) -> Chart:
    """The first samples of each pass: equal rows are equal orders, a steady slope is no shuffling."""
    names, rows = [_short(name) for name, _ in orders[:_MOST_ROWS]], [indices for _, indices in orders[:_MOST_ROWS]]
    hover, axis = "%{y}, place %{x}: sample %{z}", _axis("place in the pass")
    caption = f"the first samples of {len(rows)} passes; rows that are equal are passes in the same order"
    figure = _heat_map(names, rows, "sample", hover, axis, ygap=2)
    return Chart("Order of the samples", caption, figure, 100 + 24 * len(rows), True)


def _bars(title: str, bars: Histogram, color: str, is_counted: bool = False) -> Chart:
    """A histogram; of numbers that are counted one by one where ``is_counted``."""
    width = (bars.high - bars.low) / len(bars.counts) or 1.0
    middles = [bars.low + (number + (0 if is_counted else 0.5)) * width for number in range(len(bars.counts))]
    data = _drawn("bar", "%{x:.3g}: %{y}", x=middles, y=bars.counts, width=width, marker={"color": color})
    total, met = sum(bars.counts), sum(count > 0 for count in bars.counts)
    caption = f"{total} labels of {met} classes" if is_counted else f"{total} values, {bars.low:.3g} to {bars.high:.3g}"
    figure = _figure([data], xaxis=_axis(nticks=6), yaxis=_axis(nticks=4), bargap=0.02)
    return Chart(escape(title), caption, figure, 180)


def _of_layers(layers: Sequence[Layer], units: Sequence[Units]) -> Iterator[Chart]:
    """Histograms of weights, gradients and activations, of some layers from the first to the last."""
    for layer in _some([layer for layer in layers if layer.weights is not None]):
        for what, bars, color in (("Weights", layer.weights, _BLUE), ("Gradient", layer.gradient, _GRAY)):
            if bars is not None:
                yield _bars(f"{what} of {_short(layer.name)}", bars, color)
    for item in _some([item for item in units if item.values is not None]):
        yield _bars(f"Outputs of {item.kind} after {_short(item.name)}", item.values, _ORANGE)


def _some(items: list[Any]) -> list[Any]:
    """Some items from all over a list, with the first and the last."""
    most = min(len(items), _MOST_HISTOGRAMS)
    return [items[round(at * (len(items) - 1) / max(most - 1, 1))] for at in range(most)]


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else "…" + name[1 - _LONGEST :]


def _distinct(names: Sequence[str]) -> list[str]:
    """The names for an axis, which joins those that are equal: escaped, and numbered where there are several."""
    all_names, met, found = Counter(names), Counter[str](), []
    for name in names:
        met[name] += 1
        found.append(escape(name if all_names[name] == 1 else f"{name} ({met[name]})"))
    return found
