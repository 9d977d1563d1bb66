"""Methods of constant strings."""

from __future__ import annotations

from dllint.sites import Site
from dllint.values import Arguments, Const, Symbol, Value

_PURE = frozenset(
    ("lower", "upper", "strip", "lstrip", "rstrip", "startswith", "endswith", "replace", "title", "removeprefix",
     "removesuffix", "isdigit", "capitalize")
)  # fmt: skip


def string_method(base: Const, name: str, arguments: Arguments, site: Site) -> Value:
    """Call a method of a constant string; the result is constant when the arguments are."""
    given = [value.value for value in arguments.positional if isinstance(value, Const)]
    if name in _PURE and len(given) == len(arguments.positional) and not arguments.keywords and len(base.value) < 1000:
        try:
            return Const(getattr(base.value, name)(*given), site)
        except (TypeError, ValueError):
            return Symbol("unknown", site=site)
    return Symbol(f".{name}", (base, *arguments.positional), site, arguments=arguments)
