"""Each way of installing dllint works: wheel, editable, from a repository, and not at all."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from installing import FINDING, ROOT, Environment, copy_checkout, make_repository, run, write_project

from dllint import __version__
from dllint.registry import load_rules

NEW_RULE = '''\
"""Something new.

It was not there before.
"""

from dllint.api import Rule


class SomethingNew(Rule):
    code = "DL199"
    name = "something-new"
    category = "pedantic"
    triggers = (("something",),)
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project")


def check_installation(environment: Environment, project: Path) -> None:
    """The installed command, run in a folder that has nothing to do with dllint, has all rules and finds a bug."""
    assert environment.dllint("--version", cwd=project) == f"dllint {__version__}\n"
    listed = environment.dllint("rule", "--all", cwd=project).partition("What `dllint confirm` alone")[0]
    assert [line.split()[0] for line in listed.splitlines() if line.startswith(("DL", "AXC"))] == [
        rule.code for rule in load_rules()
    ]
    assert FINDING in environment.dllint("--output-format", "concise", "train.py", cwd=project, expect=1)


def files_below(folder: Path) -> dict[str, bytes]:
    """The content of all files in a folder, by path relative to it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }


@pytest.mark.slow
def test_wheel(tmp_path: Path, project: Path) -> None:
    source = copy_checkout(tmp_path / "source")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, source, cwd=tmp_path)
    [sdist], [wheel] = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")

    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    rules = {f"dllint/rules/{name}": content for name, content in files_below(ROOT / "rules").items()}
    package = {f"dllint/{name}": content for name, content in files_below(ROOT / "dllint").items()}
    assert packed == rules | package
    with tarfile.open(sdist) as archive:
        packed_files = {name.partition("/")[2] for name in archive.getnames()}
    shipped = {"dllint", "rules", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO"}
    assert {name.partition("/")[0] for name in packed_files} - {".gitignore"} == shipped
    assert [name for name in packed_files if name.endswith(".md") and "/" in name] == [], "stray pages"
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    assert "License-Expression: MIT" in metadata and "OWNER" not in metadata

    environment = Environment(tmp_path / "environment")
    environment.install(wheel)
    check_installation(environment, project)


@pytest.mark.slow
def test_editable_installation_sees_a_new_rule_at_once(tmp_path: Path, project: Path) -> None:
    source = copy_checkout(tmp_path / "source")
    environment = Environment(tmp_path / "environment")
    environment.install("--editable", source)
    check_installation(environment, project)
    (source / "rules" / "loss" / "dl199_something_new.py").write_text(NEW_RULE)
    assert "Something new." in environment.dllint("rule", "DL199", cwd=project)


@pytest.mark.slow
def test_installation_from_a_repository(tmp_path: Path, project: Path) -> None:
    source = copy_checkout(tmp_path / "source")
    revision = make_repository(source)
    environment = Environment(tmp_path / "environment")
    environment.install(f"git+{source.as_uri()}@{revision}")
    check_installation(environment, project)


def test_checkout_that_is_not_installed(tmp_path: Path, project: Path) -> None:
    source = copy_checkout(tmp_path / "source")
    found = run(sys.executable, "-m", "dllint", "--output-format", "concise", project, cwd=source, expect=1)
    assert FINDING in found


def test_an_installation_without_rules_is_broken(tmp_path: Path, project: Path) -> None:
    source = copy_checkout(tmp_path / "source")
    for path in (source / "rules").rglob("*.py"):
        path.unlink()
    said = run(sys.executable, "-m", "dllint", project, cwd=source, expect=2)
    assert "the installation is broken" in said
