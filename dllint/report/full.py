"""``full``: each finding with its code, the way that led to it, and how to mend it."""

from __future__ import annotations

from textwrap import wrap

from dllint.findings import Finding, Hop, Report, Safety
from dllint.report.columns import Row, left_margin
from dllint.report.context import Context
from dllint.report.diff import Hunk, hunks
from dllint.report.frame import Layout, frame
from dllint.report.style import TONES, Style
from dllint.report.summary import summary_line
from dllint.report.text import assumed, more_like_this, one_line, place

_LONGEST_DIFF = 40  # rows

_FIX_LABELS: dict[Safety, str] = {
    "safe": "safe, applied by --fix",
    "unsafe": "unsafe, applied by --fix --unsafe-fixes",
    "suggestion": "suggestion, never applied for you",
}

_BARS = {" ": "|", "-": "-", "+": "+"}


def render(report: Report, context: Context) -> str:
    """The report as blocks for reading on a terminal, and a summary."""
    blocks = ["\n".join(_Block(finding, context).lines()) for finding in report.findings]
    return "\n\n".join([*blocks, summary_line(report)]) + "\n"


class _Block:
    """The text of one finding."""

    def __init__(self, finding: Finding, context: Context) -> None:
        self.finding = finding
        self.sources = context.sources
        self.style = Style(context.color)
        self.fixes = [(fix, hunks(finding.location.path, fix, context.sources)) for fix in finding.fixes]
        digits = self._digits()
        self.layout = Layout(digits, context.width, self.style)
        self.nested = Layout(digits, context.width, self.style, indent=digits + 6)  # under a numbered hop

    def _digits(self) -> int:
        """Digits of the longest line number in the block, so that all its frames line up."""
        places = [self.finding.location, *(hop.location for hop in self.finding.trace)]
        numbers = [max(location.line, location.end_line) + 1 for location in places]
        numbers += [line.number for _, found in self.fixes for hunk in found for line in hunk.lines]
        return len(str(max(numbers)))

    def lines(self) -> list[str]:
        lines = [*self._head(), *self._main_frame(), *self._note("effect", self.finding.effect)]
        for text in assumed(self.finding):
            lines += self._note("assuming", text)
        lines += self._trace()
        lines += self._note("help", self.finding.help)
        for fix, found in self.fixes:
            lines += self._note(f"fix ({_FIX_LABELS[fix.safety]})", fix.message)
            lines += self._diff(found)
        if self.finding.confidence != "certain" and self.finding.confirmable:
            doubt = f"{self.finding.confidence}, not certain"
            lines += self._note("note", f"{doubt}: `dllint confirm` can settle it by running the script")
        lines += self._note("note", more_like_this(self.finding))
        lines += self._note("note", self.sources.order_note(self.finding.location.path))
        return lines

    def _head(self) -> list[str]:
        finding, paint = self.finding, self.style.paint
        tone = TONES[finding.severity]
        label = self.style.link(paint(f"{finding.severity}[{finding.code}]", "bold", tone), finding.url)
        doubt = "" if finding.confidence == "certain" else f", {finding.confidence}"
        arrow = paint(f"{' ' * self.layout.digits}-->", "bold", "blue")
        return [
            f"{label}{paint(f': {one_line(finding.message)}', 'bold')}",
            f"{arrow} {place(finding.location)} ({finding.name}{doubt})",
        ]

    def _main_frame(self) -> list[str]:
        finding = self.finding
        lines = self.sources.lines(finding.location)
        rows = frame(lines, finding.location, self.layout, mark="^", tone=TONES[finding.severity], around=1)
        return [self._bar(), *rows, self._bar()] if rows else []

    def _trace(self) -> list[str]:
        """The way that led to the finding; of one that is just there, what there is to say of the place."""
        trace = self.finding.trace
        if len(trace) == 1 and trace[0].location == self.finding.location:
            return self._note("note", trace[0].message)
        lines = self._note("trace", "how it comes about") if trace else []
        for number, hop in enumerate(trace, start=1):
            lines += self._hop(number, hop)
        return lines

    def _hop(self, number: int, hop: Hop) -> list[str]:
        where = self.style.paint(place(hop.location), "bold")
        head = f"{' ' * self.layout.digits}   {number}. {where}  {one_line(hop.message)}"
        if hop.location == self.finding.location:
            return [head]
        lines = self.sources.lines(hop.location)
        return [head, *frame(lines, hop.location, self.nested, mark="~", tone="cyan", around=0)]

    def _diff(self, found: list[Hunk]) -> list[str]:
        rows: list[str] = []
        for hunk in found:
            if hunk.cell != self.finding.location.cell:
                rows.append(f"{self.nested.margin}cell {hunk.cell}:")
            elif rows:
                rows.append(self.nested.gap("").rstrip())
            rows += self._hunk(hunk)
        if len(rows) > _LONGEST_DIFF:
            rows = [*rows[:_LONGEST_DIFF], f"{self.nested.margin}... {len(rows) - _LONGEST_DIFF} more lines"]
        return rows

    def _hunk(self, hunk: Hunk) -> list[str]:
        width = self.nested.code_width
        changed = next((line.text for line in hunk.lines if line.sign != " "), "")
        drop = left_margin(changed, hunk.column, hunk.column + width // 2, width)
        rows = []
        for line in hunk.lines:
            text = Row(line.text, drop, width).text
            tone = {"-": "red", "+": "green"}.get(line.sign)
            rows.append(self.nested.row(line.number, self.style.paint(text, tone) if tone else text, _BARS[line.sign]))
        return rows

    def _bar(self) -> str:
        return self.layout.row(None, "")

    def _note(self, label: str, text: str) -> list[str]:
        """A labeled paragraph, wrapped to the width; nothing for an empty text."""
        if not text:
            return []
        indent = " " * self.layout.digits
        first, *rest = wrap(
            one_line(text),
            self.layout.width - self.layout.digits - 5,
            initial_indent=" " * (len(label) + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
        head = f"{indent} {self.style.paint('=', 'bold', 'blue')} {self.style.paint(label, 'bold')}:"
        return [f"{head} {first.lstrip()}", *(f"{indent}     {line}" for line in rest)]
