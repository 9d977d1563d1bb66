"""Names that libraries have no more, by a table read off their releases (``bench/library_names.py`` writes it).

It is read when somebody asks for a name of a library that is in it, and of each library only its own part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

from dllint.dataclass import dataclass
from dllint.interp.source.imported import prefixes

TABLE = Path(__file__).resolve().parents[2] / "knowledge" / "library_names.txt"

_HEADER = re.compile(r"(?m)^== (\S+) (\S+)\n")


@dataclass(frozen=True, slots=True)
class Gone:
    """A name that no release of a package has from a version on."""

    name: str
    package: str
    version: str


# Modules at the top that no release has any more, and methods, of which the table knows nothing. `pl_bolts` asks for
# Lightning below 2, and was never released for a later one.
_MORE = {
    **{name: Gone(name, "gdal", "3.2") for name in ("gdal", "gdalconst", "ogr", "osr")},
    "pl_bolts": Gone("pl_bolts", "pytorch-lightning", "2.0"),
    "pl_examples": Gone("pl_examples", "pytorch-lightning", "2.0"),
    **{
        f"{module}.Trainer.{name}": Gone(f"{module}.Trainer.{name}", "pytorch-lightning", "2.0")
        for module in ("pytorch_lightning", "lightning.pytorch", "lightning")
        for name in ("add_argparse_args", "from_argparse_args", "parse_argparser")
    },
}


def gone(dotted: str) -> Gone | None:
    """What a dotted name needs that its library has no more: the shortest part of it that is gone."""
    more = next((_MORE[part] for part in prefixes(dotted) if part in _MORE), None)
    if more is not None:
        return more
    library, *rest = dotted.split(".")
    package, names = _names_of(library) if rest else ("", {})
    for size in range(1, len(rest) + 1) if names else ():
        name = ".".join(rest[:size])
        if name in names:
            return Gone(f"{library}.{name}", package, names[name])
    return None


@lru_cache(maxsize=1)
def _parts() -> Mapping[str, tuple[str, str]]:
    """Of each library its package and the lines about it, which few programs ask for."""
    _, *parts = _HEADER.split(TABLE.read_text("utf-8"))
    return {library: (package, lines) for library, package, lines in zip(*[iter(parts)] * 3, strict=True)}


@cache  # there are some forty libraries
def _names_of(library: str) -> tuple[str, Mapping[str, str]]:
    """The package of a library, and its names that are gone, each with the first release without it."""
    package, lines = _parts().get(library, ("", ""))
    names: dict[str, str] = {}
    for line in lines.splitlines():
        module, version, *found = line.split(" ")
        inside = "" if module == "." else f"{module}."
        names.update((f"{inside}{name}", version) for name in found)
    return package, names
