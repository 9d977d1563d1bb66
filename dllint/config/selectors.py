"""What ``--select`` and its relatives mean: codes, prefixes, names, categories, ``PREVIEW`` and ``ALL``.

The meaning is Ruff's: a more precise selector wins over a less precise one, at equal precision ``ignore`` wins over
``select``, and a later source (the command line after a file, a file after the one it extends) replaces the
selection if it says ``select`` and changes it if it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dllint.config.schema import did_you_mean
from dllint.dataclass import dataclass
from dllint.engine_rules import ENGINE_RULES
from dllint.rule_table import Described

ALL = "ALL"
PREVIEW = "PREVIEW"
CATEGORIES = ("correctness", "suspicious", "performance", "reproducibility", "pedantic")
ENGINE_CODES = frozenset(rule.code for rule in ENGINE_RULES)

_EXACT = 100  # precision of a code or a name; of a prefix it is the number of its characters


class UnknownSelectorError(Exception):
    """A selector that means no rule. The message says so, with a suggestion."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The selectors of one source. ``select`` is None where the source does not say which rules to run."""

    select: Sequence[str] | None = None
    extend_select: Sequence[str] = ()
    ignore: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """The rules to run, and those among them that were asked for by name, so that nothing of them is held back."""

    enabled: frozenset[str]
    explicit: frozenset[str]


class Selectors:
    """Expands selectors over one set of rules."""

    def __init__(self, rules: Iterable[Described]) -> None:
        self._rules = tuple(rules)
        self.codes = frozenset(rule.code for rule in self._rules)
        self.defaults = frozenset(rule.code for rule in self._rules if rule.default) | ENGINE_CODES
        self._exact = {key: rule.code for rule in self._rules for key in (rule.code, rule.name)}

    def expand(self, selector: str) -> frozenset[str]:
        """The codes a selector means.

        Raises:
            UnknownSelectorError: it means none.
        """
        if selector == ALL:
            return self.codes
        if selector == PREVIEW:
            return frozenset(rule.code for rule in self._rules if rule.preview)
        if selector in self._exact:
            return frozenset((self._exact[selector],))
        if selector in CATEGORIES:
            return frozenset(rule.code for rule in self._rules if rule.category == selector)
        is_prefix = selector[:2].isalpha() and selector.isalnum() and selector.isupper() and len(selector) > 1
        if is_prefix and (found := frozenset(code for code in self.codes if code.startswith(selector))):
            return found
        known = dict.fromkeys((*self._exact, *CATEGORIES, PREVIEW, ALL))
        raise UnknownSelectorError(f"unknown rule `{selector}`{did_you_mean(selector, known)}")

    def union(self, selectors: Iterable[str]) -> frozenset[str]:
        """The codes that any of the selectors means. Raises UnknownSelectorError."""
        return frozenset().union(*(self.expand(selector) for selector in selectors))

    def precision(self, selector: str) -> int:
        """How narrow a selector is: ``ALL``, a category or ``PREVIEW``, a prefix by its length, a code or a name."""
        if selector == ALL:
            return 0
        if selector in (*CATEGORIES, PREVIEW):
            return 1
        return _EXACT if selector in self._exact else len(selector)

    def select(self, layers: Iterable[Layer]) -> Selection:
        """Apply the sources in order, the default rules being what is selected before the first.

        The engine's own codes stay on whatever is selected, until they are ignored.

        Raises:
            UnknownSelectorError: a selector means no rule.
        """
        enabled, explicit = self.defaults, frozenset[str]()
        for layer in layers:
            changes = self._changes(layer)
            on = frozenset(code for code, wanted in changes.items() if wanted)
            off = changes.keys() - on
            kept = enabled if layer.select is None else enabled & ENGINE_CODES
            named = explicit if layer.select is None else frozenset[str]()
            enabled = (kept | on) - off
            explicit = (named | self._named(layer)) & enabled
        return Selection(enabled, explicit)

    def _changes(self, layer: Layer) -> dict[str, bool]:
        """What one source turns on and off, by code: the most precise selector has the last word, then ``ignore``."""
        wanted = [(self.precision(s), True, s) for s in (*(layer.select or ()), *layer.extend_select)]
        unwanted = [(self.precision(s), False, s) for s in layer.ignore]
        changes: dict[str, bool] = {}
        for _, turn_on, selector in sorted(wanted + unwanted, key=lambda item: (item[0], not item[1])):
            changes.update(dict.fromkeys(self.expand(selector), turn_on))
        return changes

    def _named(self, layer: Layer) -> frozenset[str]:
        """The rules a source asks for so plainly that their pedantic findings are wanted too."""
        plain = (s for s in (*(layer.select or ()), *layer.extend_select) if s in self._exact or s in (ALL, "pedantic"))
        return self.union(plain)
