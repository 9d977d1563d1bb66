"""``dllint audit``: lint many repositories, and put what is found into one table."""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from pathlib import Path
from typing import Any

import click

from dllint import __version__
from dllint.cli import streams
from dllint.cli.options import possible_option, selection_options


@click.command(
    "audit",
    short_help="Lint many repositories, and put what is found into one table.",
    epilog="Exit code: 0 all repositories were audited, whatever was found; 2 some were not.",
)
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option(
    "--output", default="dllint-audit", type=click.Path(), metavar="FOLDER", show_default=True, help="Where results go."
)
@click.option("--format", "table", type=click.Choice(["parquet", "jsonl"]), help="Of the table of findings.")
@click.option("--fresh", is_flag=True, help="Audit again what is done.")
@click.option("--timeout", default=3600.0, type=click.FloatRange(min=1), metavar="SECONDS", help="For one repository.")
@click.option("--jobs", "-j", type=click.IntRange(min=1), metavar="N", help="Number of repositories at a time.")
@click.option("--executor", default="", metavar="dask://HOST:PORT", help="Let a Dask cluster do the work.")
@click.option("--config", "configs", multiple=True, metavar="FILE|KEY=VALUE", help="Use this file, or this value.")
@selection_options
@possible_option
def command(**given: Any) -> int:
    """Lint every repository that PATHS stand for: the subfolders of a folder, or the lines of a file.

    What the repositories configure is not read. An audit that was interrupted goes on where it was.
    """
    from dllint.cli.audit.keeping import Store, has_parquet, write_table
    from dllint.cli.audit.repositories import repositories
    from dllint.cli.audit.summary import Summary

    if given["table"] == "parquet" and not has_parquet():
        raise click.UsageError("--format parquet needs pyarrow: `pip install 'dllint[scale]'`")
    options = _options(given)
    every = repositories(given["paths"])
    folder = Path(os.path.abspath(given["output"]))
    try:
        store = Store(folder, _key(options))
        todo = [each for each in every if given["fresh"] or store.get(each) is None]
        if len(todo) < len(every):
            streams.note(f"{len(every) - len(todo)} of {len(every)} repositories are done already")
        _run(todo, store, options, given)
        summary = Summary()
        for result in store.every(every):
            summary.add(result)
        table = write_table(folder, store.every(every), parquet=given["table"] != "jsonl" and has_parquet())
        (folder / "summary.md").write_text(summary.page, "utf-8")
    except OSError as error:
        raise streams.OutputError(f"{error.filename or folder} cannot be written: {error.strerror}") from error
    streams.note(f"{sum(summary.findings.values())} findings in {table}, and a summary in {folder / 'summary.md'}")
    for name, message in summary.faults:
        streams.warn(f"{name} was not audited: {message}")
    return 2 if summary.faults else 0


def _run(todo: list[Any], store: Any, options: dict[str, Any], given: dict[str, Any]) -> None:
    from dllint.cli.audit.running import run_here, run_on_cluster

    order = {"options": options, "timeout": given["timeout"]}
    tasks = [(each, {**order, "folder": str(each.folder)}) for each in todo]
    if not tasks:
        return
    executor = given["executor"]
    results = run_on_cluster(tasks, executor) if executor else run_here(tasks, given["jobs"] or os.cpu_count() or 1)
    with _progress(len(tasks)) as bar:
        for repository, result in results:
            store.put(repository, result)
            if bar is not None:
                bar.update(1, repository.name)


def _progress(length: int) -> AbstractContextManager[Any]:
    if not streams.is_terminal(sys.stderr):
        return nullcontext()
    return click.progressbar(
        length=length, label="Auditing", file=sys.stderr, show_pos=True, item_show_func=lambda name: name
    )


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """The options of ``dllint check`` for a repository: what a file of configuration says instead of its own."""
    from dllint.cli.options import configuration
    from dllint.config.resolve import resolve

    configs = [os.path.abspath(text) if os.path.isfile(text) else text for text in given["configs"]]
    has_file = any(map(os.path.isfile, configs))
    names = ("select", "extend_select", "ignore", "per_file_ignores", "confidence", "possible")
    options = {"isolated": not has_file, "configs": configs, **{name: given[name] for name in names}}
    resolve(configuration(options).load(Path.cwd()))  # what is wrong with it is told now, and not of every repository
    return options


def _key(options: dict[str, Any]) -> str:
    """What must be the same for a result to be used again: dllint, the options, and the text of the configuration."""
    texts = [Path(text).read_text("utf-8", "replace") for text in options["configs"] if os.path.isfile(text)]
    whole = json.dumps([__version__, options, texts], sort_keys=True)
    return blake2b(whole.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
