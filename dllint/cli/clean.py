"""``dllint clean``: remove what dllint keeps between runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from dllint.cli import streams
from dllint.cli.options import configuration, configuration_options


@click.command("clean", short_help="Remove the cache of a project.")
@click.argument("paths", nargs=-1, type=click.Path())
@configuration_options
def command(**given: Any) -> int:
    """Remove the caches of the projects that PATHS are in, `.` by default."""
    import shutil

    from dllint.config.settings import CACHE_FOLDER

    loader = configuration(given)
    folders = (Path(os.path.abspath(name)) for name in given["paths"] or (".",))
    roots = dict.fromkeys(loader.load(path if path.is_dir() else path.parent).root for path in folders)
    for root in roots:
        cache = root / CACHE_FOLDER
        if cache.is_dir() and not cache.is_symlink():
            try:
                shutil.rmtree(cache)
            except OSError as error:
                raise streams.OutputError(f"{cache} cannot be removed: {error.strerror}") from error
            streams.note(f"removed {cache}")
        else:
            streams.note(f"nothing to remove in {root}")
    return 0
