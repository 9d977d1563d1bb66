"""Programs that import what the project has, while Python looks elsewhere, or finds something else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from test_missing_modules import USE, analyses, assumes_a_module

PACKAGE = {"package/src/data/__init__.py": "", "package/src/data/cells.py": "class Net: ...\n", "package/a.txt": ""}
PATHS = "import os, sys\nfrom os import path as osp\nfrom pathlib import Path\n"
ONE_SHORT = (
    "sys.path.append(os.path.normpath(os.path.join(os.path.dirname(__file__), '..', 'package', 'src')))",
    "sys.path.insert(0, osp.join(osp.dirname(osp.abspath(__file__)), '../package/src'))",
    "sys.path.append(str(Path(__file__).resolve().parent.parent / 'package' / 'src'))",
    "HERE = Path(__file__).parents[1]\nsys.path.append(f'{HERE}/package/src')",
    "HERE = os.path.dirname(__file__)\nsys.path.append(HERE + '/../package/src')",
    "sys.path.append(os.path.join(os.path.dirname(__file__), '..', '..'))",
    "if '..' not in sys.path:\n    sys.path.append('..')\nprint(sys.path)",
)
RIGHT = (
    "sys.path.append(os.path.join(os.path.dirname(__file__), '..', '..', 'package', 'src'))",
    "sys.path.append(str(Path(__file__).resolve().parents[2] / 'package' / 'src'))",
    "sys.path.append('package/src')",
    "sys.path.append(os.path.join(os.getcwd(), 'package', 'src'))",
)
UNKNOWN = (
    "sys.path.append('/home/me/package/src')",
    "sys.path.append('D:\\\\me\\\\package')",
    "sys.path.append(os.environ['SOURCES'])",
    "sys.path.append('../../../other')",
    "sys.path.append('third_party/cells')",
    "sys.path.append(find('src'))",
    "sys.path = sys.path + find('src')",
    "import site\nsite.addsitedir('..')",
    "os.chdir('package/src')",
    "for HERE in ('package', 'src'):\n    sys.path.append(HERE)",
)


@pytest.mark.parametrize("change", ONE_SHORT)
def test_a_script_that_says_where_to_look_finds_nothing_elsewhere(tmp_path: Path, change: str) -> None:
    """The folder that it works out is another one than that in which the module lies."""
    files = {**PACKAGE, "scripts/first/main.py": USE.format(f"{PATHS}{change}\nfrom data.cells import Net")}
    (analysis,) = analyses(tmp_path, files, "scripts/first/main.py")
    (finding,) = analysis.findings
    assert assumes_a_module(finding)


@pytest.mark.parametrize("change", ["", *RIGHT, *UNKNOWN])
def test_a_module_may_be_where_it_looks(tmp_path: Path, change: str) -> None:
    files = {**PACKAGE, "scripts/first/main.py": USE.format(f"{PATHS}{change}\nfrom data.cells import Net")}
    (analysis,) = analyses(tmp_path, files, "scripts/first/main.py")
    (finding,) = analysis.findings
    assert not assumes_a_module(finding)


@pytest.mark.parametrize(
    ("imports", "text", "assumed"),
    [
        ("import tools\n", "import sys\nif __name__ == '__main__':\n    sys.path.append(sys.argv[1])\n", True),
        ("import tools\n", "import sys\nsys.path.append(sys.argv[1])\n", False),
        ("import added\n", "", False),  # which is found by the change, and makes another one
    ],
)
def test_what_is_imported_may_say_where_to_look(tmp_path: Path, imports: str, text: str, assumed: bool) -> None:
    files = {**PACKAGE, "tools.py": text, "scripts/added.py": "import sys\nsys.path.append('package/src')\n"}
    change = f"import sys\nsys.path.append('scripts')\n{imports}from data.cells import Net\n"
    (analysis,) = analyses(tmp_path, {"main.py": USE.format(change), **files}, "main.py")
    (finding,) = analysis.findings
    assert assumes_a_module(finding) is assumed


def test_going_to_a_folder_after_the_imports_finds_nothing_more(tmp_path: Path) -> None:
    files = {"models/old.py": "class Net: ...\n"}
    use = USE.format("import os\nfrom models.net import Net") + "    os.chdir('data')\n"
    (analysis,) = analyses(tmp_path, {"main.py": use, **files}, "main.py")
    (finding,) = analysis.findings
    assert assumes_a_module(finding)


WRAPPER = {
    "src/scores/lpips.py": "import lpips\ndef score(a, b):\n    return lpips.LPIPS()(a, b)\n",
    "src/scores/all.py": "import lpips\n",
}


@pytest.mark.parametrize(
    ("files", "assumed"),
    [
        (WRAPPER, False),  # which is a library, as the file of its name says that imports it
        ({**WRAPPER, "src/scores/lpips.py": "import torch\n"}, True),
        ({**WRAPPER, "src/scores/lpips.py": "from . import lpips\n"}, True),
    ],
)
def test_a_file_that_imports_its_own_name_means_a_library(
    tmp_path: Path, files: Mapping[str, str], assumed: bool
) -> None:
    (analysis,) = analyses(tmp_path, {"main.py": USE.format("import src.scores.all"), **files}, "main.py")
    (finding,) = analysis.findings
    assert any("from beside itself" in each.text for each in finding.assumptions) is assumed


BEYOND = "above its outermost package"
SETS = {"data/__init__.py": "", "data/sets.py": "from ..tools import read\n", "tools.py": "def read(): ...\n"}


@pytest.mark.parametrize(
    ("imports", "files"),
    [
        ("from data.sets import read", SETS),
        ("from data.sets import read", {name: text for name, text in SETS.items() if name != "data/__init__.py"}),
        ("import data", {**SETS, "data/__init__.py": "from . import sets\n"}),
        ("import data", {**SETS, "data/__init__.py": "from .. import tools\n", "data/sets.py": ""}),
        ("import sets", {"sets.py": "from .tools import read\n", "tools.py": "def read(): ...\n"}),
    ],
)
def test_a_relative_import_out_of_the_outermost_package(tmp_path: Path, imports: str, files: Mapping[str, str]) -> None:
    (analysis,) = analyses(tmp_path, {"run/main.py": USE.format(imports), **_below("run", files)}, "run/main.py")
    (finding,) = analysis.findings
    assert any(BEYOND in each.text for each in finding.assumptions)
    assert finding.confidence == "possible"


@pytest.mark.parametrize(
    ("imports", "files"),
    [
        ("from run.data.sets import read", {}),
        ("from data.sets import read", {"run/data/sets.py": "from .tools import read\n", "run/data/tools.py": ""}),
        ("from data.sets import read", {"run/data/sets.py": "def read():\n    from ..tools import read\n"}),
        ("from data.sets import read", {"data/sets.py": "def read(): ...\n"}),  # where it may be started
        ("from datasets.sets import read", {"run/datasets/sets.py": "from ..tools import read\n"}),
        ("from .data.sets import read", {}),
    ],
)
def test_any_other_relative_import_is_found(tmp_path: Path, imports: str, files: Mapping[str, str]) -> None:
    all_files = {**_below("run", SETS), **files, "run/main.py": USE.format(imports)}
    (analysis,) = analyses(tmp_path, all_files, "run/main.py")
    (finding,) = analysis.findings
    assert not any(BEYOND in each.text for each in finding.assumptions)


def _below(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in files.items()}


LACKING = "which its module does not have"
TWICE = {
    "src/loader.py": "class Loader: ...\n",
    "src/code/loader.py": "class Sharded: ...\n",
    "src/code/loss.py": "from loader import Sharded\n",
}


@pytest.mark.parametrize(
    ("files", "assumed"),
    [
        (TWICE, True),
        ({**TWICE, "src/loader.py": "class Sharded: ...\n"}, False),
        ({**TWICE, "src/code/loss.py": "from .loader import Sharded\n"}, False),
        ({**TWICE, "src/code/loss.py": "from src.code.loader import Sharded\n"}, False),
        ({**TWICE, "loader.py": "class Sharded: ...\n"}, False),  # where it may be started
        ({**TWICE, "src/code/__init__.py": "import sys\nsys.path.insert(0, 'src/code')\n"}, False),
        ({**TWICE, "run.sh": "PYTHONPATH=src/code python src/main.py\n"}, False),
    ],
)
def test_the_module_beside_the_script_is_found_first(tmp_path: Path, files: Mapping[str, str], assumed: bool) -> None:
    """Not that beside the file which imports it, whose name it lacks."""
    program = USE.format("from src.code.loss import Sharded")
    (analysis,) = analyses(tmp_path, {"src/main.py": program, **files}, "src/main.py")
    (finding,) = analysis.findings
    assert any(LACKING in each.text for each in finding.assumptions) is assumed


NAMESAKES = {
    "nets/nets.py": "class Net: ...\n",
    "nets/made.py": "from nets import nets\n\ndef make():\n    return nets.Net()\n",
}


@pytest.mark.parametrize(
    ("imports", "files", "assumed"),
    [
        ("from nets.made import make", {}, False),
        ("import sys\nsys.path.append('..')\nfrom nets.made import make", {}, False),
        ("from nets.made import make", {"nets/made.py": "from nets import other\n\ndef make(): ...\n"}, True),
        ("from nets.made import make", {"nets/made.py": "from nets import io\nmake = io\n", "nets/io.py": ""}, False),
    ],
)
def test_a_folder_may_be_meant_by_the_name_of_a_file_in_it(
    tmp_path: Path, imports: str, files: Mapping[str, str], assumed: bool
) -> None:
    """`from nets import nets`, beside `nets/nets.py`, finds the folder where the program is not started in it."""
    all_files = {**NAMESAKES, **files, "run/main.py": USE.format(imports)}
    (analysis,) = analyses(tmp_path, all_files, "run/main.py")
    (finding,) = analysis.findings
    assert any(LACKING in each.text or "Python" in each.text for each in finding.assumptions) is assumed
