"""Programs that need a module of the project which is not there: what is found in them rests on its being there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dllint.config.settings import Settings
from dllint.engine import Engine
from dllint.findings import Finding
from dllint.interp.source.facts import load_facts
from dllint.interp.source.project import Project
from dllint.merging import by_file
from dllint.outcomes import Analysis
from dllint.registry import load_rules
from dllint.testing.checking import find_rules

USE = """
{}
import torch.nn.functional as F

def loss(model, x, y):
    return F.cross_entropy(F.softmax(model(x), 1), y)

def main(model, x, y):
    loss(model, x, y).backward()

if __name__ == "__main__":
    main(None, None, None)
"""
MOVED = {"models/__init__.py": "", "models/old/__init__.py": "", "models/old/net.py": "class Net:\n    pass\n"}

RENAMED = "from student_code.runner import Net\nfrom student_code.data import Images"
SOURCES = {"src/runner.py": "class Net: ...\n", "src/data.py": "class Images: ...\n"}
ABOVE = (
    "sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))",
    "sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))  # the project",
    "sys.path.append(str(Path(__file__).parents[1]))",
    "sys.path.append(os.getcwd())",
)


def analyses(folder: Path, files: Mapping[str, str], *programs: str) -> list[Analysis]:
    """What came of some programs of a project."""
    for name, text in {"README.md": "# Models\n", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return analyses_of(folder, *programs)


def analyses_of(folder: Path, *programs: str) -> list[Analysis]:
    """What comes of some programs of a project as it is."""
    engine = Engine(load_facts(), find_rules(["DL101"], load_rules()), Settings(folder, frozenset(["DL101"])))
    project = Project(folder)
    return [engine.analyse(project.load(folder / program), project) for program in programs]


def assumes_a_module(finding: Finding) -> bool:
    return any("is not in the project" in each.text for each in finding.assumptions)


@pytest.mark.parametrize(
    ("imports", "files"),
    [
        ("from models.transformer import Net", MOVED),
        ("from models.transformer.model import Net", MOVED),
        ("import models.transformer", MOVED),
        ("from models.transformer import Net", {"models/old/net.py": ""}),
        ("import tools", {**MOVED, "tools.py": "from models.transformer import Net\n"}),
        ("import sys\nsys.path.insert(0, '../..')\nfrom models.transformer import Net", MOVED),
        ("from .transformer import Net", {}),
        ("from Trainer_small import Trainer", {"Trainer_large.py": "class Trainer: ...\n"}),
        ("from models.net import Net", {"models/net2.py": "", "models/other.py": ""}),
        ("from models.net import Net", {"models/weights.txt": ""}),
        ("from dataset import Net", {}),
        ("from dataset import Net", {"other/dataset.py": "class Net: ...\n"}),
        ("from models import Net", {"models/old.py": "class Net: ...\n"}),
        ("import utils", {"tools.py": ""}),
        ("from GoogLeNet.model import Net", {"GoogleNet/model.py": "class Net: ...\n"}),
        ("from unet import Net", {"UNet.py": "class Net: ...\n"}),
        (RENAMED, SOURCES),
        ("from PatchNets import Net", {"modeling/PatchNets.py": "class Net: ...\n"}),
        ("from c_dataset import ImageData", {"dataset.py": "class ImageData: ...\n"}),
        ("from net.model import Net", {"nets/model.py": "class Net: ...\n"}),
        ("from own_layers import PatchNet, conv", {"parts.py": "class PatchNet: ...\ndef conv(): ...\n"}),
        ("import mymodel", {}),
        ("from my_loss import Net", {"loss.py": ""}),
        ("from scorers import Net", {"scorer.py": "def score(): ...\n"}),
        ("from scorer import Net", {"scorers.py": "def score(): ...\n"}),
        ("if __name__ == '__main__':\n    from dataset import Net", {}),
        ("import sys\nsys.path.append('./data.py')\nfrom dataset import Net", {}),
        *((f"import os, sys\n{path}\nfrom models.transformer import Net", MOVED) for path in ABOVE),
    ],
)
def test_without_it_the_program_does_not_start(tmp_path: Path, imports: str, files: Mapping[str, str]) -> None:
    (analysis,) = analyses(tmp_path, {"main.py": USE.format(imports), **files}, "main.py")
    (finding,) = analysis.findings
    assert assumes_a_module(finding)
    assert finding.confidence == "possible"


@pytest.mark.parametrize(
    ("imports", "files"),
    [
        ("from models.old.net import Net", MOVED),
        ("from models.old import net", MOVED),
        ("from models import transformer", MOVED),
        ("import transformer", MOVED),
        ("from elsewhere.transformer import Net", MOVED),
        ("from torch.elsewhere import Net", {"torch/net.py": ""}),
        ("from gym.envs import Env", {"gym/net.py": "", "requirements.txt": "gym==0.21\n"}),
        ("from data.cifar import Net", {"data/net.py": "", ".gitignore": "/data/cifar\n"}),
        ("from data.cifar import Net", {"data/net.py": "", ".gitignore": "data/\n"}),
        ("from models.net import Net", {"models/old.py": "", "package/models/net.py": ""}),
        ("from models.net import Net", {"models/old.py": "", "models/net.pyx": ""}),
        ("from models.net import Net", {"models/old.py": "", "models/net.cpython-310-x86_64-linux-gnu.so": ""}),
        ("from models.net_pb2 import Net", {"models/old.py": ""}),
        ("from models.wandb_creds import KEY", {"models/old.py": ""}),
        ("from models.version import __version__", {"models/old.py": ""}),
        ("from nets.net import Net", {"nets/weights.txt": ""}),
        ("from utils import Net", {"package/utils.py": "", "run.sh": "PYTHONPATH=package python main.py\n"}),
        ("import tools", {"tools.py": "from utils import Net\n", "package/utils.py": ""}),
        ("from models import Net", {"models/Net.py": ""}),
        ("from models import Net", {"models/Net/old.py": ""}),
        ("from datasets import load_dataset", {"datasets/old.py": ""}),
        ("from utils import Net", {"requirements.txt": "utils\n"}),
        ("from Trainer_small import Trainer", {"trainer.py": "class Trainer: ...\n"}),
        ("from trainer_small import Trainer", {"trainer_large.py": "class Trainer: ...\n"}),
        ("import myhdl", {}),
        ("from scorers import Net", {"lib/scorer.py": "def score(): ...\n"}),
        ("from datasets import Net", {"dataset.py": ""}),
        ("if __name__ == '__main__':\n    try:\n        from dataset import Net\n    except ImportError: ...", {}),
        ("from models.parts import net", {"models/old.py": "", "models/parts/net.py": ""}),
        ("try:\n    from models.net import Net\nexcept ImportError:\n    Net = None", MOVED),
        ("def load():\n    from models.net import Net\n    return Net", MOVED),
        ("from student_code.runner import Net", SOURCES),
        ("from library.model import Net", {"nets/model.py": "class Net: ...\n"}),
        ("from net.model import Net", {"nets/model.py": "class Other: ...\n"}),
        (RENAMED, {**SOURCES, "src/data.py": "class Other: ...\n"}),
        (RENAMED, {**SOURCES, "src/data.py": "from elsewhere import Images\n"}),
        (RENAMED, {name.removeprefix("src/"): text for name, text in SOURCES.items()}),
        (RENAMED, {**SOURCES, "runner.py": "class Net: ...\n", "data.py": "class Images: ...\n"}),
        (RENAMED, {**SOURCES, "setup.py": "setup()\n"}),
        (RENAMED, {**SOURCES, "requirements.txt": "student_code\n"}),
        (RENAMED, {**SOURCES, "tools.py": "import student_code.more\n"}),
        ("from c_dataset import ImageData", {"dataset.py": "from c_dataset import ImageData\n"}),
        ("from c_dataset import ImageData, more", {"dataset.py": "class ImageData: ...\n"}),
        ("from patch_net_lib import PatchNet", {"net.py": "class PatchNet: ...\n"}),
        ("from c_dataset import Data", {"dataset.py": "class Data: ...\n"}),
        ("from c_dataset import ImageData", {"parts/dataset.py": "class ImageData: ...\n"}),
        ("from c_dataset import ImageData", {"dataset.py": "class ImageData: ...\n", "requirements.txt": "c_dataset"}),
        ("from PatchNets import Net", {"modeling/PatchNets.py": "from elsewhere import Net\n"}),
        ("from PatchNets import Net", {"modeling/PatchNets.py": "class Other: ...\n"}),
        ("import sys\nsys.path.append(HERE)\nfrom models.transformer import Net", MOVED),
        ("import os, sys\nsys.path.append(os.environ['A'])\nfrom models.transformer import Net", MOVED),
        ("import sys\nsys.path.append('vendor')\nfrom models.net import Net", MOVED),
        ("from monai import Net", {"Monai/net.py": "class Net: ...\n"}),
        ("from monai.net import Net", {"Monai/net.py": "class Other: ...\n"}),
        ("from monai import Net", {"Monai.py": "class Other: ...\n"}),
        ("import tools", {**MOVED, "tools.py": "import sys\nsys.path.append('vendor')\nfrom models.net import Net\n"}),
    ],
)
def test_anything_else_may_be_there(tmp_path: Path, imports: str, files: Mapping[str, str]) -> None:
    (analysis,) = analyses(tmp_path, {"main.py": USE.format(imports), **files}, "main.py")
    (finding,) = analysis.findings
    assert not assumes_a_module(finding)


STRAY = "from beside itself"
BESIDE = {"nets/__init__.py": "", "nets/net.py": "from blocks import Block\n", "nets/blocks.py": "class Block: ...\n"}


@pytest.mark.parametrize(
    ("program", "files"),
    [
        ("main.py", BESIDE),
        ("main.py", {**BESIDE, "nets/__init__.py": "import blocks\n", "nets/net.py": ""}),
        ("runs/main.py", BESIDE),
        ("main.py", {**BESIDE, "nets/net.py": "import sys\nsys.path.append('..')\nimport blocks\n"}),
    ],
)
def test_what_lies_beside_a_module_is_not_found_from_elsewhere(
    tmp_path: Path, program: str, files: Mapping[str, str]
) -> None:
    """Python looks in the folder of the script, not in that of the file that imports."""
    (analysis,) = analyses(tmp_path, {program: USE.format("import nets.net"), **files}, program)
    (finding,) = analysis.findings
    assert any(STRAY in each.text for each in finding.assumptions)
    assert finding.confidence == "possible"


@pytest.mark.parametrize(
    ("program", "imports", "files"),
    [
        ("nets/main.py", "import net", BESIDE),
        ("main.py", "import nets.net", {**BESIDE, "nets/net.py": "from .blocks import Block\n"}),
        ("main.py", "import nets.net", {**BESIDE, "nets/net.py": "from nets.blocks import Block\n"}),
        ("main.py", "import nets.net", {**BESIDE, "nets/net.py": "def make():\n    import blocks\n"}),
        ("main.py", "import nets.net", {**BESIDE, "blocks.py": "class Block: ...\n"}),
        ("runs/main.py", "import nets.net", {**BESIDE, "blocks.py": "class Block: ...\n"}),
        ("main.py", "import sys\nsys.path.append('nets')\nimport nets.net", BESIDE),
        ("main.py", "import nets.net", {**BESIDE, "nets/__init__.py": "import sys\nsys.path.append('nets')\n"}),
        ("main.py", "import nets.net", {**BESIDE, "run.sh": "PYTHONPATH=nets python main.py\n"}),
        ("main.py", "import nets.net", {**BESIDE, "nets/net.py": "import datasets\n", "nets/datasets.py": ""}),
        ("main.py", "import nets.net", {**BESIDE, "nets/net.py": "import queue\n", "nets/queue.py": ""}),
        ("main.py", "import nets.net", {**BESIDE, "requirements.txt": "blocks\n"}),
    ],
)
def test_whatever_else_lies_beside_a_module_is_found(
    tmp_path: Path, program: str, imports: str, files: Mapping[str, str]
) -> None:
    (analysis,) = analyses(tmp_path, {program: USE.format(imports), **files}, program)
    (finding,) = analysis.findings
    assert not any(STRAY in each.text for each in finding.assumptions)


ABOVE = "lies in a folder above the script"


@pytest.mark.parametrize("imports", ["from losses import Dice", "import losses", "from losses.dice import Dice"])
def test_what_lies_in_a_folder_above_a_script_is_not_found(tmp_path: Path, imports: str) -> None:
    files = {
        "seg/losses/__init__.py": "",
        "seg/losses/dice.py": "class Dice: ...\n",
        "seg/old/run.py": USE.format(imports),
    }
    (analysis,) = analyses(tmp_path, files, "seg/old/run.py")
    (finding,) = analysis.findings
    assert any(ABOVE in each.text for each in finding.assumptions)
    assert finding.confidence == "possible"


@pytest.mark.parametrize(
    ("imports", "files"),
    [
        ("import losses", {"losses.py": ""}),  # in the folder of the project
        ("import losses", {"seg/old/losses.py": "", "seg/losses.py": ""}),
        ("from .. import losses", {"seg/losses.py": ""}),
        ("import losses", {"seg/losses.py": "", "run.sh": "PYTHONPATH=seg python seg/old/run.py\n"}),
        ("import losses", {"seg/losses.py": "", "run.sh": "cd seg && python -m old.run\n"}),
        ("import losses", {"seg/losses.py": "", "seg/main.py": "import old.run\n"}),
        ("import sys\nsys.path.append('seg')\nimport losses", {"seg/losses.py": ""}),
        ("import losses", {"seg/losses.py": "", "requirements.txt": "losses\n"}),
    ],
)
def test_whatever_else_lies_above_a_script_is_found(tmp_path: Path, imports: str, files: Mapping[str, str]) -> None:
    (analysis,) = analyses(tmp_path, {"seg/old/run.py": USE.format(imports), **files}, "seg/old/run.py")
    (finding,) = analysis.findings
    assert not any(ABOVE in each.text for each in finding.assumptions)


PARTS = {
    "a/main.py": USE.format("from networks.net import Net"),
    "a/networks/net.py": "class Net: ...\n",
    "b/main.py": USE.format("from networks.net import Net\nfrom networks.other import loss as other"),
    "b/networks/other.py": USE.format("").partition("if __name__")[0],
}


def test_a_script_in_a_folder_has_the_package_beside_it_and_no_other(tmp_path: Path) -> None:
    """What only a script imports that does not start is used by nobody."""
    there, lost, unused = analyses(tmp_path, PARTS, "a/main.py", "b/main.py", "b/networks/other.py")
    assert [finding.confidence for finding in there.findings] == ["certain"]
    assert [finding.confidence for finding in lost.findings] == ["possible"] and assumes_a_module(lost.findings[0])
    assert [finding.confidence for finding in unused.findings] == ["possible"]
    assert any("does not start" in each.text for each in unused.findings[0].assumptions)


def test_what_a_script_imports_that_starts_is_used(tmp_path: Path) -> None:
    files = {**PARTS, "b/networks/net.py": "class Net: ...\n"}
    lost, unused = analyses(tmp_path, files, "b/main.py", "b/networks/other.py")
    assert [finding.confidence for finding in lost.findings] == ["certain"]
    assert not any("does not start" in each.text for each in unused.findings[0].assumptions)


def test_a_part_of_a_project_lacks_nothing(tmp_path: Path) -> None:
    """Modules alone, without any other file around them: what they import may be where the rest is."""
    files = {"tools/main.py": USE.format("from models.transformer import Net"), **MOVED}
    (analysis,) = analyses(tmp_path, {"notes.txt": "", **files}, "tools/main.py")
    assert any(map(assumes_a_module, analysis.findings))
    for left in ("README.md", "notes.txt"):
        (tmp_path / left).unlink()
    for traces in (".dllint_cache", "__pycache__"):
        (tmp_path / traces).mkdir()
    (analysis,) = analyses_of(tmp_path, "tools/main.py")
    assert analysis.findings
    assert not any(map(assumes_a_module, analysis.findings))


LACKING = "does not have"


@pytest.mark.parametrize(
    ("imports", "files"),
    [
        ("from utils.nets import Net", {"utils/nets.py": "class Network:\n    pass\n"}),
        ("from utils import Net", {"utils/__init__.py": "", "utils/network.py": ""}),
        ("import tools", {"tools.py": "from .nets import Net\n", "nets.py": "# class Net:\n"}),
        ("from parts.nets import Net", {"parts/nets.py": "class Net: ...\n", "parts.py": ""}),
        ("import tools", {"parts/nets.py": "", "parts.py": "", "tools.py": "import parts.nets\n"}),
        (
            "from utils import Net",
            {"utils/__init__.py": "from .nets import *\n", "utils/nets.py": "class Other: ...\n"},
        ),
    ],
)
def test_a_name_that_its_module_lacks_keeps_a_program_from_starting(
    tmp_path: Path, imports: str, files: Mapping[str, str]
) -> None:
    """The file is found from the root of the project: nothing says that the script is run from elsewhere."""
    (analysis,) = analyses(tmp_path, {"runs/main.py": USE.format(imports), **files}, "runs/main.py")
    (finding,) = analysis.findings
    assert any(LACKING in each.text for each in finding.assumptions)
    assert finding.confidence == "possible"


@pytest.mark.parametrize(
    ("imports", "files"),
    [
        ("from utils.nets import Net", {"utils/nets.py": "class Net:\n    pass\n"}),
        ("from utils.nets import Net", {"utils/nets.py": "from nets import *\n"}),
        ("from utils.nets import Net", {"utils/nets.py": "globals()['Net'] = None\n"}),
        ("from utils.nets import Net", {"utils/nets.py": "if FAST:\n    import fast as Net\n"}),
        ("from utils.nets import Net", {"utils/nets.py": "def make():\n    global Net\n    Net = 1\n"}),
        ("from utils.nets import Net", {"utils/nets.py": "", "old/utils/nets.py": "class Net:\n    pass\n"}),
        ("from utils import Net", {"utils/__init__.py": "", "utils/Net.py": ""}),
        ("from utils import Net", {"utils/__init__.py": "", "utils/Net.so": ""}),
        ("import parts.nets", {"parts/nets.py": "", "parts/__init__.py": "", "parts.py": ""}),
        ("import parts.nets", {"parts/nets.py": "", "parts.py": "__path__ = ['parts']\n"}),
        ("from utils import Net", {"utils/__init__.py": "from .nets import *\n", "utils/nets.py": "class Net: ...\n"}),
        ("try:\n    from utils.nets import Net\nexcept ImportError:\n    Net = None", {"utils/nets.py": ""}),
    ],
)
def test_any_other_name_may_be_in_its_module(tmp_path: Path, imports: str, files: Mapping[str, str]) -> None:
    (analysis,) = analyses(tmp_path, {"runs/main.py": USE.format(imports), **files}, "runs/main.py")
    (finding,) = analysis.findings
    assert not any(LACKING in each.text for each in finding.assumptions)


def test_what_a_program_that_starts_has_found_stands(tmp_path: Path) -> None:
    """The definition is in a file that is a program itself, and cannot start; another one calls it."""
    losses = "import torch.nn.functional as F\n\ndef loss(p, y):\n    return F.cross_entropy(F.softmax(p, 1), y)\n"
    use = "{}from losses import loss\n\ndef main(model, x, y):\n    loss(model(x), y).backward()\n\nmain(1, 2, 3)\n"
    files = {
        **MOVED,
        "losses.py": losses,
        "a.py": use.format("from models.transformer import Net\n"),
        "b.py": use.format(""),
        "c.py": use.format("from models.gone import Net\n"),
    }
    for programs in (("a.py", "b.py", "c.py"), ("b.py", "a.py", "losses.py"), ("losses.py", "c.py", "b.py")):
        found = [each for findings in by_file(analyses(tmp_path, files, *programs)).values() for each in findings]
        (finding,) = found
        assert not assumes_a_module(finding)


@pytest.mark.parametrize(
    ("files", "assumed"),
    [
        (("lib/setup.py", "train.py"), True),
        (("lib/setup.py",), False),  # which is the project, in a folder
        (("setup.py", "train.py"), False),
        (("lib/README.md", "train.py"), False),
    ],
)
def test_the_tests_of_a_library_that_is_kept_are_run_by_nobody(
    tmp_path: Path, files: tuple[str, ...], assumed: bool
) -> None:
    test = "lib/tests/extensions.py"
    (analysis,) = analyses(tmp_path, {test: USE.format(""), **dict.fromkeys(files, "")}, test)
    (finding,) = analysis.findings
    assert ("somebody runs the tests of `lib`, which is kept here" in [a.text for a in finding.assumptions]) is assumed


UNBOUND = "unbound"


@pytest.mark.parametrize(
    "module",
    [
        "class Net:\n    def loss(self, x, weight=self.weight):\n        return x\n",
        "def load(self, size=SIZE):\n    return size\n\ndef other():\n    SIZE = 3\n",
        "class Net(Base):\n    pass\n",
        "import torch\n\n@jit.script\ndef load(jit):\n    return jit\n",
        "class Net:\n    size = [width]\n\n    def build(self):\n        width = 3\n",
        "print(f'{size}')\nload = reduce\n",
        "sizes = [i for i in range(3)]\nlast = i\n",
    ],
)
def test_an_imported_file_that_reads_what_nothing_binds(tmp_path: Path, module: str) -> None:
    files = {"main.py": USE.format("import nets"), "nets.py": module}
    (analysis,) = analyses(tmp_path, files, "main.py")
    (finding,) = analysis.findings
    assert any(UNBOUND in each.text for each in finding.assumptions)
    assert finding.confidence == "possible"


@pytest.mark.parametrize(
    "module",
    [
        "class Net:\n    size = 3\n    sizes = [size]\n\n    def loss(self, x, size=size):\n        return self\n",
        "from sizes import *\n\ndef load(size=SIZE):\n    return size\n",
        "globals().update(SIZE=3)\n\ndef load(size=SIZE):\n    return size\n",
        "def fill():\n    global SIZE\n    SIZE = 3\n\nfill()\nload = SIZE\n",
        "try:\n    load = SIZE\nexcept NameError:\n    load = 3\n",
        "if False:\n    load = SIZE\n",
        "load = False and SIZE\n",
        "load = lambda: SIZE\n",
        "load = [size for size in range(3)]\n",
        "if (size := len('a')):\n    load = size\n",
        "try:\n    load = 3\nexcept OSError as error:\n    pass\n\ndef load(): return reduce\n",
        "load = reduce(max, [3])\n",
        "def load(x: Size) -> Size:\n    return SIZE\n",
        "class Net(metaclass=make()):\n    load = SIZE\n\ndef make(): pass\n",
    ],
)
def test_an_imported_file_that_reads_what_may_be_there(tmp_path: Path, module: str) -> None:
    files = {"main.py": USE.format("import nets"), "nets.py": module}
    (analysis,) = analyses(tmp_path, files, "main.py")
    (finding,) = analysis.findings
    assert not any(UNBOUND in each.text for each in finding.assumptions)


@pytest.mark.parametrize(
    ("module", "ends"),
    [
        ("raise Exception('deprecated')\n\nclass Net: ...\n", True),
        ("import sys\n\nsys.exit('use nets2')\n", True),
        ("if __name__ == '__main__':\n    print('a test')\nelse:\n    raise ImportError('run it')\n", True),
        ("import sys\n\nif sys.platform == 'win32':\n    raise ImportError('use another system')\n", False),
        ("if __name__ == '__main__':\n    raise SystemExit(0)\n", False),
        ("def load():\n    raise NotImplementedError\n", False),
        ("try:\n    raise ImportError\nexcept ImportError:\n    pass\n", False),
    ],
)
def test_an_imported_file_that_ends_the_run(tmp_path: Path, module: str, ends: bool) -> None:
    files = {"main.py": USE.format("import nets"), "nets.py": module}
    (analysis,) = analyses(tmp_path, files, "main.py")
    (finding,) = analysis.findings
    assert (finding.confidence == "possible") is ends
