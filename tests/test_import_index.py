"""The index of imports: read without parsing, kept between runs, and never older than the files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from importing_projects import FLAT, write

from dllint.files.discovery import find_files
from dllint.import_index import ImportIndex
from dllint.interp.source.import_statements import Import, imports_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a", [Import(0, "a")]),
        ("import a.b as c, d", [Import(0, "a.b"), Import(0, "d")]),
        ("x = 1; import a", [Import(0, "a")]),
        ("if x: import a", [Import(0, "a")]),
        ("    from a import b", [Import(0, "a", ("b",))]),
        ("if x: from a import b", [Import(0, "a", ("b",))]),
        ("from . import b", [Import(1, "", ("b",))]),
        ("from ..a.b import *", [Import(2, "a.b", ("*",))]),
        ("from .. a import(b)", [Import(2, "a", ("b",))]),
        ("from a import (b, # c\n  d)\nprint(e)", [Import(0, "a", ("b", "c", "d"))]),
        ("from a import b, \\\n  c\nprint(d)", [Import(0, "a", ("b", "c"))]),
        ("from a import b\r\nfrom a import b\r\n", [Import(0, "a", ("b",))]),
        ("importlib.reload(a)\nreimport = 1", []),
    ],
)
def test_imports_are_read_without_parsing(text: str, expected: list[Import]) -> None:
    assert imports_of(text) == expected


def index_of(project: Path) -> ImportIndex:
    index = ImportIndex.open(project / ".dllint_cache")
    index.refresh(find_files([project], exclude=(), root=project).files, {})
    return index


def importers(project: Path, name: str) -> list[str]:
    index = index_of(project)
    index.save()
    return [path.relative_to(project).as_posix() for path in index.importers([project / name], project)]


def test_packages_that_pass_on_names_lead_only_by_these(tmp_path: Path) -> None:
    lazy = {
        "pkg/__init__.py": "from .a import f\nfrom .b import g\n",
        "pkg/a.py": "def f(): ...\n",
        "pkg/b.py": "g = 1\n",
    }
    users = {"use_f.py": "from pkg import f\n", "use_g.py": "from pkg import g\n", "use_all.py": "import pkg\n"}
    project = write(tmp_path, {**lazy, **users})
    assert importers(project, "pkg/a.py") == ["pkg/__init__.py", "use_all.py", "use_f.py"]
    (project / "pkg" / "__init__.py").write_text(lazy["pkg/__init__.py"] + "\n\ndef g():\n    return f()\n")
    assert importers(project, "pkg/a.py") == ["pkg/__init__.py", "use_all.py", "use_f.py", "use_g.py"]


def test_the_index_is_kept_and_follows_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = write(tmp_path, FLAT)
    long_ago = time.time() - 1000
    for name in FLAT:
        os.utime(project / name, (long_ago, long_ago))
    assert importers(project, "net.py") == ["main.py"]
    read: list[str] = []
    monkeypatch.setattr("dllint.import_index.imports_of", lambda text: read.append(text) or imports_of(text))
    assert importers(project, "net.py") == ["main.py"] and read == []
    (project / "other.py").write_text("import net\n")
    assert importers(project, "net.py") == ["main.py", "other.py"] and read == ["import net\n"]
    (project / "other.py").write_text("import ten\n")  # of the same size, perhaps within the same tick of the clock
    assert importers(project, "net.py") == ["main.py"]
    (project / "main.py").unlink()
    assert importers(project, "net.py") == []


@pytest.mark.parametrize(
    "damage", ["", "[]", "{", "{}", '{"format": 2}', '{"format": 2, "written": 1, "files": {"a": 3}}']
)
def test_a_damaged_index_is_made_again(tmp_path: Path, damage: str) -> None:
    project = write(tmp_path, FLAT)
    assert importers(project, "net.py") == ["main.py"]
    (project / ".dllint_cache" / "imports.index").write_text(damage)
    assert importers(project, "net.py") == ["main.py"]


def test_unsaved_text_counts(tmp_path: Path) -> None:
    project = write(tmp_path, FLAT)
    index = index_of(project)
    files = [project / name for name in FLAT]
    new = project / "new.py"
    overlay = {project / "main.py": "import new\n", new: "import net\n"}
    index.refresh([*files, new], overlay)
    assert index.importers([project / "net.py"], project) == [project / "main.py", new]
    assert index.fits(overlay)
    assert index.fits({**overlay, new: "import net  # again\n"})
    assert not index.fits({**overlay, new: "import engine\n"})
