"""Which files a run is about: folders, git, excludes, links, and the patterns themselves."""

from __future__ import annotations

import os
import re
import subprocess
import warnings
from pathlib import Path

import pathspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dllint.files.discovery import Discovery, find_files
from dllint.files.globs import Globs


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to build a project in, which is the working directory too."""
    root = tmp_path / "build" / "project"  # a project may live below a folder whose name is excluded
    root.mkdir(parents=True)
    monkeypatch.chdir(root)
    return root


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *identity, "-C", str(root), *arguments], check=True, capture_output=True)


def find(root: Path, *paths: str, exclude: tuple[str, ...] = (), respect_excludes: bool = True) -> Discovery:
    chosen = [Path(path) for path in paths or ["."]]
    return find_files(chosen, exclude=exclude, root=root, respect_excludes=respect_excludes)


def names(root: Path, *paths: str, exclude: tuple[str, ...] = (), respect_excludes: bool = True) -> list[str]:
    """The files found, relative to the project; there must be no problem."""
    found = find(root, *paths, exclude=exclude, respect_excludes=respect_excludes)
    assert found.problems == []
    assert all(path.is_absolute() for path in found.files)
    return [path.relative_to(root).as_posix() for path in found.files]


def test_modules_and_notebooks_sorted(project: Path) -> None:
    touch(project, "b.py", "a/z.py", "a/book.ipynb", "a/data.json", "a/stub.pyi", "a.py", "py", ".hidden.py")
    assert names(project) == [".hidden.py", "a.py", "a/book.ipynb", "a/z.py", "b.py"]


@pytest.mark.parametrize("with_git", [False, True])
def test_copies_of_distributions_are_passed_over(project: Path, with_git: bool) -> None:
    touch(project, "a.py", "lib/pycocotools/coco.py", "tensorboardX/b.py", "apex/c.py", "timm.py", "data/apex_x/d.py")
    if with_git:
        git(project, "init", "-q")
    assert names(project) == ["a.py", "data/apex_x/d.py", "timm.py"]
    assert names(project, "apex", "lib/pycocotools/coco.py") == ["apex/c.py", "lib/pycocotools/coco.py"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("setup.py", "setup(\n    name='detectron2',\n)\n"),
        ("setup.py", "NAME = 'Detectron2'\nsetup(name=NAME)\n"),
        ("pyproject.toml", '[project]\nname = "detectron2"\n'),
        ("setup.cfg", "[metadata]\nname = detectron2\n"),
    ],
)
def test_the_distribution_itself_is_looked_at(project: Path, file: str, text: str) -> None:
    touch(project, "detectron2/a.py", "detectron2/apex/b.py")
    (project / file).write_text(text)
    assert [name for name in names(project) if name != "setup.py"] == ["detectron2/a.py"]


def test_each_file_once(project: Path) -> None:
    touch(project, "a/b.py", "a/c.py")
    assert names(project, "a/b.py", ".", "a", "a/../a/b.py", str(project / "a")) == ["a/b.py", "a/c.py"]


def test_a_named_file_is_taken_whatever_its_suffix(project: Path) -> None:
    touch(project, "train", "build/a.py", "notes.txt")
    assert names(project, "train", "notes.txt", "build/a.py") == ["build/a.py", "notes.txt", "train"]


@pytest.mark.parametrize("in_git", [False, True])
def test_default_excludes_hold_below_what_was_named(project: Path, in_git: bool) -> None:
    touch(project, "src/a.py", "venv/lib/b.py", "src/.ipynb_checkpoints/c.ipynb", "build/lib/d.py")
    touch(project, "x/site-packages/e.py")
    if in_git:
        git(project, "init")
        git(project, "add", "-A")
    assert names(project) == ["src/a.py"]
    assert names(project, "build") == ["build/lib/d.py"]
    assert names(project, str(project.parent)) == ["src/a.py"]


@pytest.mark.parametrize("in_git", [False, True])
def test_excludes_hold_for_named_files_too(project: Path, in_git: bool) -> None:
    touch(project, "a.py", "gen/b.py", "gen/sub/c.py", "x/gen/d.py", "x/e_pb2.py")
    if in_git:
        git(project, "init")
    exclude = ("/gen", "*_pb2.py")
    assert names(project, exclude=exclude) == ["a.py", "x/gen/d.py"]
    assert names(project, "gen", "gen/sub/c.py", "a.py", "x/e_pb2.py", exclude=exclude) == ["a.py"]
    assert len(names(project, exclude=exclude, respect_excludes=False)) == 5


def test_excludes_do_not_reach_out_of_the_project(project: Path, tmp_path: Path) -> None:
    touch(tmp_path, "other/gen/a.py")
    found = find(project, str(tmp_path / "other"), exclude=("gen", "other", "build"))
    assert found.files == [tmp_path / "other" / "gen" / "a.py"]


def test_git_ignores_are_respected(project: Path) -> None:
    touch(project, "tracked.py", "new.py", "ignored.py", "runs/copy.py", "gone.py", "sp ace/é\n.py")
    (project / ".gitignore").write_text("ignored.py\nruns/\n")
    git(project, "init")
    git(project, "add", "-f", "tracked.py", "gone.py")
    (project / "gone.py").unlink()
    assert names(project) == ["new.py", "sp ace/é\n.py", "tracked.py"]
    assert names(project, "sp ace") == ["sp ace/é\n.py"]
    assert names(project, "ignored.py", "runs") == ["ignored.py", "runs/copy.py"]


def test_submodules_and_nested_repositories_are_looked_into(project: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    touch(library, "lib.py", "build/made.py")
    git(library, "init")
    git(library, "add", "-A")
    git(library, "commit", "-m", "x")
    touch(project, "a.py", "nested/b.py")
    git(project, "init")
    git(project, "submodule", "add", str(library), "third")
    git(project / "nested", "init")
    assert names(project) == ["a.py", "nested/b.py", "third/lib.py"]
    assert names(project, exclude=("third",)) == ["a.py", "nested/b.py"]


def test_repositories_below_a_plain_folder_are_asked(project: Path) -> None:
    touch(project, "loose.py", "repo/a.py", "repo/ignored.py")
    (project / "repo" / ".gitignore").write_text("ignored.py\n")
    git(project / "repo", "init")
    assert names(project) == ["loose.py", "repo/a.py"]


def test_git_variables_of_a_hook_do_not_mislead(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "other/b.py")
    git(tmp_path / "other", "init")
    touch(project, "a.py", "ignored.py")
    (project / ".gitignore").write_text("ignored.py\n")
    git(project, "init")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / ".git" / "index"))
    assert names(project) == ["a.py"]


def test_without_git_the_folder_is_walked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(project, "a.py", "ignored.py", ".git/hook.py")
    (project / ".gitignore").write_text("ignored.py\n")
    assert names(project) == ["a.py", "ignored.py"]  # a broken repository
    monkeypatch.setenv("PATH", "")
    assert names(project) == ["a.py", "ignored.py"]


def test_git_is_asked_once_for_several_folders(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(project, "a/x.py", "b/y.py", "c/z.py")
    git(project, "init")
    calls = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: calls.append(a) or run(*a, **k))
    assert names(project, "a", "b") == ["a/x.py", "b/y.py"]
    assert len(calls) == 1


def test_missing_paths_and_broken_links_are_problems(project: Path) -> None:
    touch(project, "a.py", "sub/b.py")
    (project / "sub" / "broken.py").symlink_to("nowhere.py")
    (project / "sub" / "loop.py").symlink_to("loop.py")
    for in_git in (False, True):
        if in_git:
            git(project, "init")
        found = find(project, "none.py", "a.py", "sub", "sub/loop.py")
        assert [path.name for path in found.files] == ["a.py", "b.py"]
        assert [(problem.path, problem.kind) for problem in found.problems] == [
            ("none.py", "unreadable"),
            ("sub/broken.py", "unreadable"),
            ("sub/loop.py", "unreadable"),
            ("sub/loop.py", "unreadable"),
        ]
        assert found.problems[0].message == "no such file or directory"
        assert found.problems[1].message == "broken symbolic link"


@pytest.mark.parametrize("in_git", [False, True])
def test_links_to_folders_do_not_loop_and_links_to_files_do_not_double(project: Path, in_git: bool) -> None:
    touch(project, "a/real.py")
    (project / "a" / "up").symlink_to("..")
    (project / "a" / "alias.py").symlink_to("real.py")
    (project / "a" / "folder.py").symlink_to(".")
    if in_git:
        git(project, "init")
    assert names(project) == ["a/real.py"]
    assert names(project, "a/alias.py") == ["a/alias.py"]
    assert names(project, "a/up") == ["a/up/a/real.py"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may look everywhere")
@pytest.mark.parametrize("in_git", [False, True])
def test_a_closed_folder_is_a_problem(project: Path, in_git: bool) -> None:
    touch(project, "a.py", "closed/b.py")
    if in_git:
        git(project, "init")
    (project / "closed").chmod(0)
    try:
        found = find(project)
    finally:
        (project / "closed").chmod(0o755)
    assert [path.name for path in found.files] == ["a.py"]
    assert [(problem.path, problem.message) for problem in found.problems] == [("closed", "permission denied")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
def test_what_is_no_file_is_passed_over(project: Path) -> None:
    touch(project, "a.py")
    os.mkfifo(project / "pipe.py")
    assert names(project) == ["a.py"]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", "x/a.py"], ["a.pyc", "a.py.txt"]),
        ("gen", ["gen", "x/gen", "gen/a/b.py"], ["gene", "agen/a.py"]),
        ("gen/", ["gen/a.py", "x/gen/a.py", "gen/"], ["gen", "x/gen"]),
        ("/gen", ["gen", "gen/a.py"], ["x/gen"]),
        ("a/b", ["a/b", "a/b/c"], ["x/a/b"]),
        ("a/*.py", ["a/x.py"], ["a/b/x.py", "x/a/y.py"]),
        ("**/a/b", ["a/b", "x/y/a/b/c"], ["a/x/b"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["ab", "a/xb"]),
        ("a/**", ["a/x", "a/x/y", "a/"], ["a", "b/a/x"]),
        ("test_?.py", ["test_1.py"], ["test_.py", "test_/.py"]),
        ("[a-c]x[!0-9].py", ["bxy.py"], ["dxy.py", "ax1.py", "ax/.py"]),
        ("\\*.py", ["*.py"], ["a.py"]),
        ("[]x]", ["]", "x"], ["y"]),
        ("é?.py", ["é🎉.py"], ["é.py"]),
        ("a\nb", ["a\nb"], ["a"]),
    ],
)
def test_patterns(pattern: str, yes: list[str], no: list[str]) -> None:
    globs = Globs([pattern])
    assert [path for path in yes if not globs.matches(path)] == []
    assert [path for path in no if globs.matches(path)] == []


def test_several_patterns_and_none() -> None:
    assert Globs(["a", "/b"]).matches("x/a")
    assert Globs(["a", "/b"]).matches("b")
    assert not Globs([]).matches("a")


@pytest.mark.parametrize("pattern", ["", "/", "a//b", "[ab", "a/[b", "[z-a]", "//"])
def test_patterns_that_can_match_nothing_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a valid pattern"):
        Globs([pattern])


PIECES = ["a", "b", "*", "**", "?", "/", "/", "[ab]", "[a-c]", "[]b]", ".", "\\*", "-"]
NAMES = st.text("ab.*c-]", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


def patterns(*more: str) -> st.SearchStrategy[str]:
    """Patterns of which all tools think the same: not those with ``**`` as a part of a name."""
    pieces = st.sampled_from([*PIECES, *more])
    made = st.lists(pieces, min_size=1, max_size=7).map("".join)
    return made.filter(lambda made: not re.search(r"[^/]\*\*|\*\*[^/]|//|^/$", made))


@given(patterns(), PATHS)
def test_patterns_mean_what_they_mean_to_pathspec(pattern: str, path: str) -> None:
    assume(not re.fullmatch(r"(.*/)?\*", pattern) or pattern == "*")  # a/*: git takes all that is below, pathspec not
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = pathspec.GitIgnoreSpec.from_lines([pattern]).match_file(path)
    assert Globs([pattern]).matches(path) == expected


@settings(max_examples=60, deadline=None)
@given(pattern=patterns("[!a]"), paths=st.sets(PATHS, max_size=30))
def test_patterns_mean_what_they_mean_to_git(
    pattern: str, paths: set[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    repository = tmp_path_factory.getbasetemp() / "patterns"
    if not repository.exists():
        repository.mkdir()
        git(repository, "init")
    (repository / ".gitignore").write_text(f"{pattern}\n")
    command = ["git", "-C", str(repository), "check-ignore", "--no-index", "--stdin", "-z"]
    answer = subprocess.run(command, input="\0".join(paths), capture_output=True, text=True).stdout
    globs = Globs([pattern])
    assert {path for path in paths if globs.matches(path)} == set(filter(None, answer.split("\0")))


@given(st.text())
def test_any_pattern_is_compiled_or_refused(pattern: str) -> None:
    try:
        globs = Globs([pattern])
    except ValueError:
        return
    assert globs.matches("a/b.py") in (True, False)
