"""What an audit keeps: a file for each repository, from which it goes on, and in the end tables of all.

A repository that is done, with the same dllint and the same options, is not audited again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dllint.cli.audit.one import Result
from dllint.cli.audit.repositories import Repository
from dllint.files.atomic import write_atomic

Row = dict[str, Any]

_TEXTS = ("repository", "path", "code", "name", "severity", "category", "confidence", "message", "effect", "help",
          "scope", "fingerprint", "url")  # fmt: skip
_NUMBERS = ("line", "column", "end_line", "end_column", "cell")
_BATCH = 10_000  # rows
RESULTS = "repositories"


class Store:
    """The results in a folder.

    Args:
        folder: where; it is made.
        key: what must be the same for a result to be used again.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._folder = folder / RESULTS
        self._key = key
        self._folder.mkdir(parents=True, exist_ok=True)

    def get(self, repository: Repository) -> Result | None:
        """The result of a repository, if it is done."""
        try:
            kept: Result = json.loads((self._folder / repository.file_name).read_bytes())
        except (OSError, ValueError):
            return None
        return kept if kept.get("key") == self._key and kept.get("status") == "done" else None

    def put(self, repository: Repository, result: Result) -> None:
        """Keep a result, whatever it is."""
        kept = {"key": self._key, "repository": repository.name, "folder": str(repository.folder), **result}
        write_atomic(self._folder / repository.file_name, json.dumps(kept).encode())

    def every(self, repositories: Sequence[Repository]) -> Iterator[Result]:
        """The results of some repositories in their order, one after the other in memory."""
        for repository in repositories:
            try:
                yield json.loads((self._folder / repository.file_name).read_bytes())
            except (OSError, ValueError):  # not yet audited when the audit was interrupted
                continue


def rows_of(result: Result) -> Iterator[Row]:
    """One row for each finding of a repository."""
    for finding in result.get("findings", ()):
        row = {name: finding.get(name) for name in (*_TEXTS, *_NUMBERS)}
        row["repository"] = result["repository"]
        row["assumptions"] = [each["text"] for each in finding["assumptions"]]
        row["places"] = 1 + len(finding["others"])
        row["fixable"] = any(fix["safety"] != "suggestion" for fix in finding["fixes"])
        yield row


def has_parquet() -> bool:
    """Whether Parquet can be written."""
    return find_spec("pyarrow") is not None


def write_table(folder: Path, results: Iterable[Result], *, parquet: bool) -> Path:
    """Write the findings of all repositories, one row each. Returns the file."""
    write = _write_parquet if parquet else _write_lines
    other = folder / ("findings.jsonl" if parquet else "findings.parquet")
    other.unlink(missing_ok=True)  # of an audit before, which it would contradict
    return write(folder, (row for result in results for row in rows_of(result)))


def _write_lines(folder: Path, rows: Iterable[Row]) -> Path:
    file = folder / "findings.jsonl"
    with file.open("w", encoding="utf-8") as table:
        table.writelines(json.dumps(row) + "\n" for row in rows)
    return file


def _write_parquet(folder: Path, rows: Iterable[Row]) -> Path:
    import pyarrow
    from pyarrow import parquet

    file = folder / "findings.parquet"
    kinds = dict.fromkeys(_TEXTS, pyarrow.string()) | dict.fromkeys((*_NUMBERS, "places"), pyarrow.int32())
    kinds |= {"assumptions": pyarrow.list_(pyarrow.string()), "fixable": pyarrow.bool_()}
    schema = pyarrow.schema(list(kinds.items()))
    with parquet.ParquetWriter(file, schema) as table:
        batch: list[Row] = []
        for row in rows:
            batch.append(row)
            if len(batch) == _BATCH:
                table.write_table(pyarrow.Table.from_pylist(batch, schema))
                batch.clear()
        table.write_table(pyarrow.Table.from_pylist(batch, schema))
    return file
