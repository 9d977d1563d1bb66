"""The command line in this process: findings that are new since a commit or a baseline."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cli_support import BOTH, Run, write


class TestSince:
    def test_only_what_has_changed_is_reported_and_fixed(self, dllint: Run, project: Path) -> None:
        shutil.rmtree(project / ".git")
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        path = write(project / "a.py", "b = nozero(y)\n")
        for arguments in (["init"], ["add", "."], [*identity, "commit", "-m", "base"]):
            subprocess.run(["git", *arguments], check=True, capture_output=True)
        path.write_text("b = nozero(y)\nc = nozero(z)\n")
        write(project / "new.py", "softmax(1)\n")
        assert dllint("--since", "HEAD").lines == ["a.py:2 DL202", "new.py:1 DL101"]
        assert dllint("--since", "HEAD", "--fix").lines == ["new.py:1 DL101"]
        assert path.read_text() == "b = nozero(y)\nc = zero(z)\n"

    def test_a_revision_that_is_not_there(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "x = 1\n")
        shutil.rmtree(project / ".git")
        subprocess.run(["git", "init"], check=True, capture_output=True)
        result = dllint("--since", "nowhere")
        assert (result.code, result.out) == (2, "") and "nowhere" in result.err


class TestBaseline:
    def test_from_making_it_to_pruning_it(self, dllint: Run, project: Path) -> None:
        path = write(project / "a.py", BOTH)
        made = dllint("baseline")
        assert made.code == 0 and "2 added, 0 removed, 2 in all" in made.err
        known = dllint()
        assert (known.code, known.lines) == (0, [])
        assert "2 in the baseline" in known.out

        path.write_text("\n\nnew = softmax(z)\n" + BOTH)
        assert dllint().lines == ["a.py:3 DL101"]
        assert dllint("baseline", "--check").code == 1
        assert dllint("--isolated").lines == ["a.py:3 DL101", "a.py:4 DL101", "a.py:5 DL202"]

        path.write_text("b = nozero(y)\n")
        stale = dllint()
        assert stale.code == 0 and "1 entry is no longer needed in the baseline" in stale.err
        assert dllint("--strict-baseline").code == 1
        assert dllint("--select", "DL202").err == ""
        assert "0 added, 1 removed, 1 in all" in dllint("baseline", "prune").err
        assert dllint("--strict-baseline").code == 0
        assert dllint("baseline", "--check").code == 0

    def test_prune_takes_nothing_in_and_lets_gone_files_go(self, dllint: Run, project: Path) -> None:
        for name in ("a.py", "b.py"):
            write(project / name, "b = nozero(y)\n")
        dllint("baseline")
        (project / "b.py").unlink()
        write(project / "a.py", BOTH)
        assert "0 added, 1 removed, 1 in all" in dllint("baseline", "prune").err
        assert dllint().lines == ["a.py:1 DL101"]

    def test_an_update_of_a_part_leaves_the_rest_alone(self, dllint: Run, project: Path) -> None:
        for name in ("a.py", "b.py"):
            write(project / name, "b = nozero(y)\n")
        dllint("baseline")
        write(project / "a.py", "x = 1\n")
        assert "0 added, 1 removed, 1 in all" in dllint("baseline", "a.py").err
        assert dllint().code == 0

    def test_a_part_without_a_configuration_shares_the_baseline_of_the_whole(
        self, dllint: Run, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("a.py", "lab/b.py", "lab/c.py"):
            write(project / name, "b = nozero(y)\n")
        write(project / "lab" / "pyproject.toml", "[project]\n")
        dllint("baseline")
        for paths in (["lab"], ["lab/b.py"]):
            assert dllint(*paths).code == 0
            assert "0 added, 0 removed, 3 in all" in dllint("baseline", *paths).err
        monkeypatch.chdir(project / "lab")
        assert dllint("c.py").code == 0
        write(project / "lab" / "c.py", BOTH)
        assert "1 added, 0 removed, 4 in all" in dllint("baseline", ".").err
        assert not (project / "lab" / ".dllint_baseline.json").exists()
        monkeypatch.chdir(project)
        assert dllint().code == 0

    def test_so_does_a_folder_that_nothing_marks(self, dllint: Run, project: Path) -> None:
        shutil.rmtree(project / ".git")
        for name in ("a.py", "lab/b.py"):
            write(project / name, "b = nozero(y)\n")
        dllint("baseline")
        assert dllint("lab").code == 0
        assert "0 added, 0 removed, 2 in all" in dllint("baseline", "lab/b.py").err

    def test_a_part_with_a_configuration_has_its_own(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "b = nozero(y)\n")
        write(project / "lab" / "b.py", "b = nozero(y)\n")
        write(project / "lab" / "dllint.toml", "baseline = 'known.json'\n")
        dllint("baseline")
        assert (project / "lab" / "known.json").exists() and (project / ".dllint_baseline.json").exists()
        assert dllint("lab").code == dllint().code == 0

    def test_a_file_that_cannot_be_read_keeps_its_entries(self, dllint: Run, project: Path) -> None:
        path = write(project / "a.py", "b = nozero(y)\n")
        dllint("baseline")
        path.write_text("def f(:\n")
        result = dllint("--strict-baseline")
        assert (result.code, result.lines, result.err) == (1, ["a.py:1 DL001"], "")
        assert "0 added, 0 removed, 1 in all" in dllint("baseline").err

    def test_a_named_baseline(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "b = nozero(y)\n")
        assert dllint("baseline", "--baseline", "known.json").code == 0
        assert dllint().code == 1
        assert dllint("--baseline", "known.json").code == 0
        write(project / "dllint.toml", "baseline = 'known.json'\n")
        assert dllint().code == 0
        (project / "known.json").unlink()
        result = dllint()
        assert result.code == 2 and "known.json: No such file" in result.err

    def test_a_problem_while_making_it(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "b = nozero(y)\n")
        result = dllint("baseline", ".", "nowhere.py")
        assert result.code == 2 and "nowhere.py" in result.err
        assert (project / ".dllint_baseline.json").exists()
