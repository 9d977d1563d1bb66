"""``dllint config``: the configuration keys, and the values in force and where they come from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dllint.cli import streams
from dllint.cli.options import configuration, configuration_options

if TYPE_CHECKING:
    from dllint.config.load import Config
    from dllint.config.settings import Settings

Row = tuple[str, str, str]  # key, value, origin


@click.command("config", short_help="Explain the configuration.")
@click.argument("key", required=False)
@click.option(
    "--show",
    type=click.Path(),
    metavar="PATH",
    help="Show the values in force for a path, and the file and line of each.",
)
@click.option("--schema", is_flag=True, help="Print the JSON schema of the configuration.")
@configuration_options
def command(**given: Any) -> int:
    """List the configuration keys, or explain KEY."""
    from dllint.config.schema import json_schema

    if sum(map(bool, (given["key"], given["show"], given["schema"]))) > 1:
        raise click.UsageError("KEY, --show and --schema cannot be combined")
    if given["schema"]:
        streams.write(_json(json_schema(), indent=2) + "\n")
    elif given["show"]:
        path = Path(os.path.abspath(given["show"]))
        if not path.exists():
            raise click.BadParameter(f"no such file or folder: {given['show']}", param_hint="--show")
        _show(configuration(given).load(path if path.is_dir() else path.parent), path)
    else:
        _explain(given["key"])
    return 0


def _json(value: Any, indent: int | None = None) -> str:
    import json

    return json.dumps(value, indent=indent, ensure_ascii=False, default=str)


def _explain(name: str | None) -> None:
    from dllint.config.schema import BY_NAME, KEYS, did_you_mean

    if name is not None and name not in BY_NAME:
        raise click.BadParameter(f"unknown key `{name}`{did_you_mean(name, BY_NAME)}", param_hint="KEY")
    for key in KEYS if name is None else [BY_NAME[name]]:
        streams.write(f"{key.name} = {_value(key.default)}\n    {key.help}\n")


def _show(config: Config, path: Path) -> None:
    """Write each value in force for a path, and the rules that result."""
    from dllint.config.resolve import resolve

    settings = resolve(config)
    rows = [("root", str(config.root), ""), *_values(config), *_versions(config, settings)]
    width = max(len(key) for key, _, _ in rows)
    for key, value, origin in rows:
        streams.write(f"{key:{width}} = {value}{f'  # {origin}' if origin else ''}\n")
    ignored = settings.ignored_in(path)
    streams.write(f"\nrules: {' '.join(sorted(settings.enabled - ignored)) or 'none'}\n")


def _values(config: Config) -> Iterator[Row]:
    """The value of each key, one row for each source where sources add up and for each entry of a table."""
    from dllint.config.schema import KEYS

    for key in KEYS:
        if key.schema.get("type") == "object":
            entries = config.table(key.name).items()
            yield from (
                (f"{key.name}.{_bare(name)}", _json(value), s.origin(key.name, name)) for name, (value, s) in entries
            )
            if not entries:
                yield key.name, _json(key.default), "default"
        elif key.schema.get("type") == "array" and list(config.setters(key.name)):
            yield from ((key.name, _json(value), source.origin(key.name)) for source, value in config.setters(key.name))
        else:
            source, value = config.value(key.name)
            yield key.name, _value(value), source.origin(key.name) if source else "default"


def _versions(config: Config, settings: Settings) -> Iterable[Row]:
    """The versions that were found elsewhere than in the configuration."""
    from dllint.config.resolve import configured_versions

    found = settings.versions.keys() - configured_versions(config).keys()
    return [(f"versions.{name}", _json(settings.versions[name]), "found in the project") for name in sorted(found)]


def _value(value: Any) -> str:
    return "(not set)" if value is None else _json(value)


def _bare(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() else _json(name)
