"""Patches of what fixes change, as git and GNU patch take them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fixing import replacing
from hypothesis import given, settings
from hypothesis import strategies as st
from notebooks import BOOK, book

from dllint.files.source import read_source, source_from_text
from dllint.fixes import fix_source
from dllint.patch import diff

APPLIERS = [["git", "apply", "--whitespace=nowarn"], ["patch", "-p1", "--binary", "--silent", "--input"]]


def applied(tmp_path: Path, name: str, before: bytes, patch: bytes, command: list[str]) -> bytes:
    """What a tool makes of a file with a patch."""
    folder = tmp_path / "work"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_bytes(before)
    (tmp_path / "change.patch").write_bytes(patch)
    done = subprocess.run([*command, str(tmp_path / "change.patch")], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return (folder / name).read_bytes()


def appliers() -> list[list[str]]:
    return [command for command in APPLIERS if shutil.which(command[0])]


@pytest.mark.parametrize("name", ["a.py", "dir/b c.py", "é.py", 'q"uote\\.py', "tab\tand\nline.py"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb", "a\nc"),
        ("a\nb", "a\nb\n"),
        ("a\nb\n", "a\nb"),
        ("a\r\nb\r\nc", "a\r\nx\r\nb\r\nc\r\n"),
        ("\ufeffa\n", "\ufeffb\n"),
        ("é\x0c\u2028\x85\rx\n", "é\x0c\u2028\x85\ry\n"),
        ("".join(f"{n}\n" for n in range(40)), "".join(f"{n * (n % 17 > 1)}\n" for n in range(40))),
        ("a\n", "a\n\n\n"),
        ("x\n", "--- a\n+++ b\n"),
    ],
)
def test_patches_are_taken_by_git_and_patch(tmp_path: Path, name: str, before: str, after: str) -> None:
    patch = diff(before, after, name).encode("utf-8", "surrogateescape")
    for command in appliers():
        if command[0] == "patch" and "\n" in name:
            continue  # GNU patch refuses such names
        assert applied(tmp_path, name, before.encode(), patch, command) == after.encode()


def test_a_patch_of_a_file_in_another_encoding_fits_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    raw = b"# coding: latin-1\nx = '\xe9'\nbad\ny = '\xe8'\n"
    Path("module.py").write_bytes(raw)
    patch = fix_source(read_source(Path("module.py")), replacing("bad", "é"), unsafe=False).patch()
    for command in appliers():
        got = applied(tmp_path, "module.py", raw, patch.encode("utf-8", "surrogateescape"), command)
        assert got == raw.replace(b"bad", b"\xe9")


def test_a_patch_of_a_notebook_is_one_of_its_json(tmp_path: Path) -> None:
    raw = book("x = 1\nbad\n", "y = 2")
    patch = fix_source(source_from_text(raw, BOOK), replacing("bad", "good"), unsafe=False).patch()
    assert (
        applied(tmp_path, "book.ipynb", raw.encode(), patch.encode(), APPLIERS[0])
        == raw.replace("bad", "good").encode()
    )


def test_equal_texts_have_no_patch() -> None:
    assert diff("a\n", "a\n", "a.py") == ""


LINE = st.sampled_from(["a", "b", "", " x", "+", "--- a", "é", "\\ No newline at end of file"])
TEXT = st.lists(st.tuples(LINE, st.sampled_from(["\n", "\n", "\r\n", "\r"])), max_size=30).map(
    lambda lines: "".join(map("".join, lines))
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["a.py"]), TEXT.filter(bool), TEXT.filter(bool), st.booleans())
def test_any_patch_is_taken(
    tmp_path_factory: pytest.TempPathFactory, name: str, before: str, after: str, cut: bool
) -> None:
    after = after.rstrip("\n") or "z" if cut else after
    patch = diff(before, after, name)
    assert (patch == "") == (before == after)
    if patch:
        for command in appliers():
            assert (
                applied(tmp_path_factory.mktemp("patch"), name, before.encode(), patch.encode(), command)
                == after.encode()
            )


def test_frequent_lines_after_a_change_are_its_context() -> None:
    """``patch`` takes a hunk that ends in a change for one at the end of the file."""
    before = "".join(f"first({n})\nsecond({n})\nstep()\n\n\n" for n in range(80))
    after = re.sub(r"first\((10|70)\)\nsecond\(\1\)\n", r"second(\1)\nfirst(\1)\n", before)
    hunks = diff(before, after, "a.py").split("@@ -")[1:]
    assert len(hunks) == 2 and all(hunk.endswith("\n step()\n \n \n") for hunk in hunks)
