"""Whatever becomes of the files of a project, a run with results of earlier runs says what one without them says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from installing import MODEL, ROOT, TRAINING
from test_cache import GONE, PUT_BACK

from dllint import collector
from dllint.cli.project import find_project, lint
from dllint.config.load import COMMAND_LINE, ConfigError, ConfigLoader, Source
from dllint.findings import Finding, Problem

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

Step = tuple[str, ...]  # what is done, and with what

CALLED = TRAINING + "\n\ntrain(load())\n"
CLEAN_MODEL = MODEL.replace(", nn.Softmax(dim=1)", "")


def notebook(code: str) -> str:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": code}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


PROJECT = {
    "pyproject.toml": '[project]\nname = "lab"\n',
    "model.py": MODEL,
    "train.py": CALLED,
    "apps/train.py": CALLED,
    "apps/run.ipynb": notebook(CALLED),
    "apps/kept.py": f"{GONE}\n\nscaled(data)\n",
    "pkg/__init__.py": "",
    "pkg/model.py": CLEAN_MODEL,
}
MODULES = (MODEL, CLEAN_MODEL, CALLED, CALLED.replace("from model", "from pkg.model"), GONE, PUT_BACK, "")
TEXTS = {
    ".py": (*MODULES, "\0", "from .model import Net\n"),
    ".ipynb": (notebook(CALLED), notebook(PUT_BACK), "{"),
    ".toml": (
        '[project]\nname = "a"\n',
        '[tool.dllint]\nignore = ["DL101"]\n',
        "[tool.dllint]\n",
        'ignore = ["DL842"]\n',
        '[tool.uv.workspace]\nmembers = ["*"]\n',
        '[tool.uv.workspace]\nmembers = ["apps"]\n',
        '[tool.setuptools]\npackage-dir = {"" = "pkg"}\n',
        "[",
        "",
    ),
    ".txt": ("torch==1.9\n", "torch>=2.4\n"),
    "": ("", '[[package]]\nname = "torch"\nversion = "1.9"\n'),
}
FOLDERS = ("", "apps/", "pkg/", "src/", "lib/", "apps/src/", "v1.0/", "apps/deep/er/")
NAMES = (
    *("model.py", "train.py", "__init__.py", "kept.py", "run.ipynb"),
    *("pyproject.toml", "dllint.toml", "setup.py", "setup.cfg", ".git", "requirements.txt", "uv.lock", "model"),
)
PATHS = [folder + name for folder in FOLDERS for name in NAMES]
PLACES = st.sampled_from([*PATHS, *(folder.rstrip("/") for folder in FOLDERS[1:])])


@st.composite
def writings(draw: st.DrawFn) -> Step:
    path = draw(st.sampled_from(PATHS))
    suffix = Path(path).suffix
    return ("write", path, draw(st.sampled_from(TEXTS.get(suffix, TEXTS[""]))))


STEPS = st.one_of(
    writings(),
    st.tuples(st.just("remove"), PLACES),
    st.tuples(st.just("rename"), PLACES, PLACES),
    st.tuples(st.just("link"), PLACES, PLACES),
)


def take(step: Step) -> None:
    """Do what a step says, as far as the files allow it."""
    kind, path = step[0], Path(step[1])
    with suppress(OSError):
        if kind == "remove":
            _remove(path)
        elif kind == "rename":
            Path(step[2]).parent.mkdir(parents=True, exist_ok=True)
            path.rename(step[2])
        else:
            _remove(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "link":
                path.symlink_to(os.path.relpath(step[2], path.parent))
            else:
                path.write_text(step[2])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


Said = tuple[list[Finding], list[Finding], int, list[Problem]]


def said(paths: list[str], *, cache: bool) -> list[Said] | str:
    """What a run over some paths reports, in parts, or why there is none."""
    select = Source(COMMAND_LINE, Path.cwd(), {"select": ["DL101", "DL202", "DL842"]})
    try:
        project = find_project(paths, ConfigLoader(overrides=[select]))
    except ConfigError as error:
        return str(error)
    lint(project, jobs=1, cache=cache)
    reports = [part.report for part in project.parts]
    return [(each.findings, each.questions, each.suppressed, each.problems + project.problems) for each in reports]


@contextmanager
def in_project() -> Iterator[Path]:
    """A new project, as the working directory for a while."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        top = Path(os.path.realpath(name), "lab")
        for path, text in PROJECT.items():
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_text(text)
        os.chdir(top)
        try:
            yield top
        finally:
            os.chdir(here)


@pytest.fixture(autouse=True, scope="module")
def collecting() -> Iterator[None]:
    """Let garbage be collected: a run counts on the process ending soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collector, "relax_collector", lambda: None)
        yield


@settings(
    max_examples=int(os.environ.get("DLLINT_CACHE_EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@pytest.mark.slow
@given(st.lists(STEPS, min_size=1, max_size=5))
@example([("write", "apps/pyproject.toml", "[project]\n"), ("remove", "apps/pyproject.toml")])
@example([("write", "apps/setup.cfg", ""), ("remove", "apps/setup.cfg")])
@example([("write", "apps/.git", ""), ("rename", "apps/.git", "apps/git")])
@example([("write", "v1.0/predict.py", PUT_BACK), ("rename", "v1.0", "v2.0")])
@example([("remove", "model.py"), ("write", "src/model.py", MODEL), ("rename", "src", "pkg/src")])
@example([("remove", "model.py"), ("link", "model.py", "pkg/model.py"), ("link", "model.py", "apps/train.py")])
@example([("write", "deep", ""), ("remove", "deep"), ("write", "deep/er.py", PUT_BACK), ("link", "flat", "deep")])
def test_results_of_earlier_runs_change_nothing(steps: list[Step]) -> None:
    with in_project():
        said(["."], cache=True)
        for step in steps:
            take(step)
            for paths in (["."], ["model.py"], ["apps"]):
                assert said(paths, cache=True) == said(paths, cache=False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_no_run_waits_for_a_fifo() -> None:
    command = [sys.executable, "-m", "dllint", "--output-format", "concise"]
    with in_project() as top:
        for name in ("model.py", "requirements.txt", "pyproject.toml", "dllint.toml", "uv.lock", "setup.cfg"):
            (top / name).unlink(missing_ok=True)
            os.mkfifo(top / name)
        for paths in (["."], ["."], ["model.py", "train.py"]):  # the second run has results of the first
            done = subprocess.run([*command, *paths], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
            assert done.returncode == (2 if "model.py" in paths else 1), done.stderr
            assert ("model.py: not a regular file" in done.stderr) is ("model.py" in paths)
