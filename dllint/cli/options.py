"""The options that several commands share, and the configuration they amount to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from dllint.config.load import ConfigLoader, Source

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_CONFIGURATION = (
    click.option("--config", "configs", multiple=True, metavar="FILE|KEY=VALUE", help="Use this file, or this value."),
    click.option("--isolated", is_flag=True, help="Read no configuration file and no baseline."),
)
_SELECTION = (
    click.option("--select", multiple=True, metavar="RULES", help="Run these rules instead of the default ones."),
    click.option("--extend-select", multiple=True, metavar="RULES", help="Run these rules too."),
    click.option("--ignore", multiple=True, metavar="RULES", help="Do not run these rules."),
    click.option("--per-file-ignores", multiple=True, metavar="GLOB:RULE", help="Do not report a rule in some files."),
)
_POSSIBLE = (
    click.option("--possible", is_flag=True, help="Show also what is only possible; it never makes the exit code 1."),
)
_PROJECT = (
    click.argument("paths", nargs=-1, type=click.Path()),
    click.option("--baseline", type=click.Path(), metavar="FILE", help="The file of known findings."),
    click.option("--no-exclude", is_flag=True, help="Check files that the configuration excludes."),
    click.option("--no-cache", is_flag=True, help="Neither read nor write the cache."),
    click.option("--jobs", "-j", type=click.IntRange(min=1), metavar="N", help="Number of processes."),
    *_CONFIGURATION,
)


def configuration_options(command: Decorated) -> Decorated:
    """Add ``--config`` and ``--isolated``."""
    return _add(_CONFIGURATION, command)


def selection_options(command: Decorated) -> Decorated:
    """Add what says which rules run."""
    return _add(_SELECTION, command)


def possible_option(command: Decorated) -> Decorated:
    """Add ``--possible``."""
    return _add(_POSSIBLE, command)


def project_options(command: Decorated) -> Decorated:
    """Add the paths, and what says how they are linted."""
    return _add(_PROJECT, command)


def _add(options: Iterable[Callable[[Decorated], Decorated]], command: Decorated) -> Decorated:
    for option in reversed(list(options)):
        command = option(command)
    return command


def configuration(given: dict[str, Any]) -> ConfigLoader:
    """The configuration that the options of a command line ask for.

    Args:
        given: the values of the options by name; those that concern configuration are used.

    Raises:
        ConfigError: an option has a value that cannot be used.
    """
    from dllint.config.load import COMMAND_LINE, ConfigError, ConfigLoader, Source, checked, parse_override

    here = Path.cwd()
    sources: list[Source] = []
    file: Path | None = None
    if given["isolated"]:
        sources.append(Source("--isolated", here, {"baseline": ""}))
    for text in given["configs"]:
        if not Path(text).is_file():
            sources.append(parse_override(text, here))
        elif file is None:
            file = here / text
        else:
            raise ConfigError("--config: only one file can be given")
    if file is not None and given["isolated"]:
        raise ConfigError("--config FILE and --isolated cannot be combined")
    if values := _values(given):
        sources.append(checked(Source(COMMAND_LINE, here, values)))
    return ConfigLoader(file, isolated=given["isolated"], overrides=sources)


def _values(given: dict[str, Any]) -> dict[str, Any]:
    """The configuration keys that options of their own set."""
    from dllint.config.load import ConfigError

    values: dict[str, Any] = {}
    for key in ("fail-on", "baseline"):
        if (value := given.get(key.replace("-", "_"))) is not None:
            values[key] = value
    for key in ("select", "extend-select", "ignore"):
        if words := given.get(key.replace("-", "_")):
            values[key] = _split(words)
            if not values[key]:  # an empty variable of a script must not look like clean code
                raise ConfigError(f"--{key}: no rule is given")
    values |= {key: True for key in ("possible", "notes") if given.get(key)}
    if pairs := given.get("per_file_ignores"):
        values["per-file-ignores"] = _per_file_ignores(pairs)
    return values


def _split(words: Iterable[str]) -> list[str]:
    return [part for word in words for item in word.split(",") if (part := item.strip())]


def _per_file_ignores(pairs: Iterable[str]) -> dict[str, list[str]]:
    """``["tests/**:DL1,src/a.py:DL2"]`` as a table from globs to selectors."""
    from dllint.config.load import ConfigError

    table: dict[str, list[str]] = {}
    for pair in _split(pairs):
        glob, colon, selector = pair.rpartition(":")
        if not colon:
            raise ConfigError(f"--per-file-ignores: {pair!r} is not of the form GLOB:RULE")
        table.setdefault(glob.strip(), []).append(selector.strip())
    return table
