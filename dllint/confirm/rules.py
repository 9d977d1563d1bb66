"""What a run can say, code by code: what a probe looks at, what confirms it, and what to do about it.

The tables of ``dllint/confirm/judged/*.toml`` are the one declaration. ``dllint rule CODE`` prints them, reports take
from them why a finding was not reached, and ``bench/confirm_tables.py`` writes those of ``docs/confirm.md``. They are
read without importing torch, as the probes themselves cannot be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import Any, cast

from dllint.confirm.evidence import Judgement, Mode, Voice
from dllint.dataclass import dataclass
from dllint.files import toml

FOLDER = Path(__file__).resolve().parent / "judged"

EXPERIMENTS: dict[str, tuple[Mode, int]] = {
    "overfit-one-batch": ("overfit", 200),
    "lr-range": ("lr-range", 100),
    "resume-check": ("resume", 0),
}
"""What a run of its own can be made for, by the name of its judgement: the mode, and the steps that it takes; 0 for
those of any run."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One code that a probe judges."""

    code: str  # what reports call it: the code of a rule, or a name where it is about no finding
    looks: str  # what the probe looks at
    confirmed: str  # from where on the run confirms it
    threshold: str  # the same in full, and what refutes it
    said: str = ""  # the words for what was seen, with its numbers in braces; empty where the probe finds them itself
    said_refuted: str = ""  # all words where the run refutes it, if they are others
    unreached: str = ""  # why a finding was not reached; empty where no finding can be about it
    speaks: str = ""  # ``alarm`` or ``note``, or both, where no finding asks; empty where the probe only answers
    line: bool = False  # what is seen elsewhere in the same function says nothing about it
    name: str = ""  # of the rule that will find it in code; like the next three, empty where there is such a rule
    about: str = ""  # what is wrong, as the first line of a rule's page
    effect: str = ""  # what it does to training
    help: str = ""  # what to do, as an imperative
    causes: tuple[str, ...] = ()  # codes that it is not told of beside, where the run confirms one of them


@lru_cache(maxsize=1)
def words() -> dict[str, Any]:
    """What reports say of how a run went; the file tells of what."""
    return toml.parse(Path(__file__).with_name("words.toml").read_text("utf-8"))


@lru_cache(maxsize=1)
def judged() -> dict[str, Judged]:
    """All codes that a probe judges, those of rules first."""
    tables: dict[str, Judged] = {}
    for path in FOLDER.glob("*.toml"):
        for code, values in toml.parse(path.read_text("utf-8")).items():
            tables[code] = Judged(code, **{**values, "causes": tuple(values.get("causes", ()))})
    rules = sorted(code for code, known in tables.items() if known.unreached)
    return {code: tables[code] for code in (*rules, *tables)}


def declare(judgement: Judgement) -> Judgement:
    """Add what the table of its code says: its words, what it was compared with, and how it speaks unless that depends.

    This is done once for each judgement.
    """
    known = judged().get(judgement.rule)
    if known is not None:
        numbers = {"looks": judgement.events, **judgement.statistics}
        if judgement.verdict == "REFUTED" and known.said_refuted:
            judgement.message = _Words().vformat(known.said_refuted, (), numbers)
        else:
            judgement.message = _Words().vformat(known.said, (), numbers) + judgement.message
        judgement.threshold = known.threshold
        judgement.voice = cast(Voice, known.speaks) if judgement.voice == "declared" else judgement.voice
    return judgement


class _Words(Formatter):
    """Puts numbers into words: of lists their ``range``, ``count``, first ``names``, or all; 0 for what is missing."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The number of a name."""
        return kwargs.get(str(key), 0)

    def format_field(self, value: Any, format_spec: str) -> str:
        """A value by what is asked of it."""
        if format_spec in ("range", "names", "count") and not value:
            return {"range": "none", "names": "", "count": "0"}[format_spec]
        if not isinstance(value, list):
            return str(super().format_field(value, format_spec))
        if format_spec == "range":
            low, high = f"{min(value):.3g}", f"{max(value):.3g}"
            return low if low == high else f"{low} to {high}"
        if format_spec == "names":
            return f" ({', '.join(map(str, value[:3]))}{', …' * (len(value) > 3)})"
        return str(len(value)) if format_spec == "count" else " and ".join(map(str, value))
