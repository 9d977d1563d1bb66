"""The options that several commands share, and the configuration they amount to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dllint.cli import streams

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from dllint.config.load import ConfigLoader, Source

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def complete_rules(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The codes and names that a word may become; of words with commas between them, the last."""
    from click.shell_completion import CompletionItem

    from dllint.cli.pages import pages
    from dllint.config.load import ConfigLoader
    from dllint.config.resolve import rules_of

    before, comma, word = incomplete.rpartition(",")
    known = pages(rules_of(ConfigLoader().load(Path.cwd())))
    if parameter.name != "rule":  # the others select what is linted
        known = [page for page in known if page.is_static]
    summaries = {key: page.summary for page in known for key in (page.code, page.name)}
    near = (key for key in summaries if key.startswith((word, word.upper() or "-")))
    return [CompletionItem(f"{before}{comma}{key}", help=summaries[key]) for key in near]


def _rules(name: str, help: str) -> Callable[[Decorated], Decorated]:
    """An option that takes rules, and can be given several times."""
    return click.option(name, multiple=True, metavar="RULES", shell_complete=complete_rules, help=help)


_CONFIGURATION = (
    click.option("--config", "configs", multiple=True, metavar="FILE|KEY=VALUE", help="Use this file, or this value."),
    click.option("--isolated", is_flag=True, help="Read no configuration file and no baseline."),
)
_SELECTION = (
    _rules("--select", "Run these rules instead of the default ones."),
    _rules("--extend-select", "Run these rules too."),
    _rules("--ignore", "Do not run these rules."),
    click.option("--per-file-ignores", multiple=True, metavar="GLOB:RULE", help="Do not report a rule in some files."),
)
_POSSIBLE = (
    click.option(
        "--confidence",
        type=click.Choice(["certain", "likely", "possible"]),
        help="Show findings that are at least so sure.  [default: likely]",
    ),
    click.option("--possible", is_flag=True, help="Show also what is only possible; it never makes the exit code 1."),
)
_COLOR = (
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        callback=lambda _context, _parameter, when: streams.use_color(when),
        expose_value=False,
        help="When to use colors.  [default: auto]",
    ),
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
    """Add ``--confidence`` and ``--possible``."""
    return _add(_POSSIBLE, command)


def color_option(command: Decorated) -> Decorated:
    """Add ``--color``."""
    return _add(_COLOR, command)


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
    for key in ("fail-on", "baseline", "confidence"):
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
