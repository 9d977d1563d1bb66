"""What ``from module import *`` may give a file: of the project's modules, and of the few libraries of which that is
known for every release."""

from __future__ import annotations

import math
import os.path
import random
import re
import time
import typing
from collections.abc import Set
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_OF_PYTHON = {each.__name__: each for each in (math, random, time, typing)} | {"os.path": os.path}
_LOWER = {  # the names in lower case of others; all that begin with a capital or an underscore may be there
    "torch.nn": r"\w*functional|init|modules|parallel|parameter|utils|grad|factory_kwargs|attention|common_types"
    r"|backends|intrinsic|qat|quantiz\w+",
    "torch.optim": r"lr_scheduler|swa_\w+|swap_\w+|optimizer|adam\w*|sgd|asgd|rmsprop|rprop|lbfgs|adagrad|nadam|radam",
    "torch.optim.lr_scheduler": r"math|types|warnings|bisect\w*|partial|wraps",
    "torch.autograd.variable": r"torch|collections|functools|warnings|sys|weakref|numbers",
    "torch.utils.data": r"sampler|dataset|dataloader|distributed|datapipes|graph|backward_compatibility|communication"
    r"|default_\w+|functional_datapipe|get_worker_info|random_split|runtime_\w+|argument_validation|\w*determin\w+",
    "torch.utils.data.sampler": r"torch|math|int_classes",
    "tqdm": r"\w*tqdm\w*|t\w*range|main|gui|cli|std|utils",
    "pynvml": r"nvml\w*|c_\w+|struct_\w+|py_object|pointer|byref|cast|sizeof|addressof|alignment|resize|mem\w+|w?string"
    r"|w?string_at|create_\w+|[gs]et_errno|cdll|pydll|pythonapi|find_library|wraps|sys|os|threading|convert\w*"
    r"|lib\w*|throw\w*",
}


def may_give(library: str, name: str) -> bool:
    """Whether ``from library import *`` may bind a name; that of an unknown library may bind any.

    Args:
        library: the dotted name of the module.
        name: the variable.
    """
    if library in _OF_PYTHON:
        return hasattr(_OF_PYTHON[library], name)
    known = _LOWER.get(library)
    return known is None or not name[0].islower() or re.fullmatch(known, name) is not None


def given_by(project: Project, origin: SourceModule, importer: SourceModule) -> Set[str]:
    """The names that a star import of a module of the project binds, also those that this has from other modules.

    Args:
        project: where the modules are looked up.
        origin: the module that the import names.
        importer: the file with the import; what the module has from there tells it nothing.
    """
    found: set[str] = set()
    pending = [origin]
    for module in pending:  # which grows meanwhile
        with project.reading(module):
            found |= module.top_level
            stars = module.stars
        others = (project.find(module, name, level) for name, level in stars)
        pending += [each for each in others if each is not None and each not in (*pending, importer)]
    return {each for each in found if not each.startswith("_")}
