"""What a library offers: its package passes it on and its notes name it, so that its users call it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dllint.interp.source.project import Project
from dllint.interp.source.users import is_offered

FILES = {
    "setup.py": "from setuptools import setup\nsetup(name='library')\n",
    "README.md": "    trainer = Trainer(model)\n    trainer.fit()\n",
    "library/__init__.py": "from library.training import Trainer, helper, _hidden\n",
    "library/training.py": (
        "class Trainer:\n    def fit(self): ...\n    def _step(self): ...\n\n"
        "class Other: ...\n\ndef helper(): ...\n\ndef _hidden(): ...\n"
    ),
    "scripts/run.py": "import library\nif __name__ == '__main__':\n    print(library)\n    open('out.txt', 'w')\n",
}


def _offers(folder: Path, name: str, **changed: str | None) -> bool:
    for path, text in {**FILES, **changed}.items():
        if text is not None:
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
    project = Project(folder, {})
    return is_offered(project, project.load(folder / "library/training.py"), name)


def test_what_a_package_passes_on_and_the_notes_name_is_for_others(tmp_path: Path) -> None:
    assert _offers(tmp_path, "Trainer")


@pytest.mark.parametrize("name", ["helper", "Other", "_hidden"])
def test_what_no_notes_name_or_no_package_passes_on_is_not(tmp_path: Path, name: str) -> None:
    noted = "Use the `Trainer`, not `Other` or `_hidden`."
    assert not _offers(tmp_path, name, **{"README.md": noted})


def test_what_is_not_installed_has_no_users_but_its_own_scripts(tmp_path: Path) -> None:
    assert not _offers(tmp_path, "Trainer", **{"setup.py": None})


def test_a_package_that_imports_the_file_for_itself_passes_nothing_on(tmp_path: Path) -> None:
    assert not _offers(tmp_path, "Trainer", **{"library/__init__.py": "from library import training\n"})
