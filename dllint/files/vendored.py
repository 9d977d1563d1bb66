"""Copies of known distributions in a repository: code of others, who mend it elsewhere."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from pathlib import Path

_DISTRIBUTIONS = frozenset(
    ("apex", "cirtorch", "detectron2", "efficientnet_pytorch", "fairseq", "maskrcnn_benchmark", "pretrainedmodels",
     "pycocoevalcap", "pycocotools", "pytorch_pretrained_bert", "pytorch_transformers", "segmentation_models_pytorch",
     "tensorboardX", "timm", "torchvision")
)  # fmt: skip
_PACKAGING = ("setup.py", "setup.cfg", "pyproject.toml")
_NAME = re.compile(r"""^\s*(?:["']?name["']?|\w*NAME)\s*[=:]\s*["']?([\w.-]+)""", re.MULTILINE)


def is_vendored(folder: str, name: str) -> bool:
    """Whether a folder in another one is a copy of a distribution, by its name: the project itself is none."""
    return name in _DISTRIBUTIONS and _comparable(name) not in _named_by(folder)


@cache
def _named_by(folder: str) -> frozenset[str]:
    """What the files for installation in a folder call their project."""
    found: set[str] = set()
    for file in _PACKAGING:
        with suppress(OSError):  # most are missing; one that cannot be read says nothing
            found.update(map(_comparable, _NAME.findall(Path(folder, file).read_text("utf-8", "replace"))))
    return frozenset(found)


def _comparable(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
