"""Files to which only others lead that nothing imports: a part of a library that is kept in the project."""

from __future__ import annotations

import pytest
from engine_support import FITS, found

IMPORTS = "from torch._six import string_classes\n\ndef collate(batch):\n    return batch\n"
KEPT = {
    "lib/data/__init__.py": "from .loader import collate\n",
    "lib/data/loader.py": IMPORTS,
    "lib/layers.py": "def layer():\n    return 3\n",
    "README.md": "",
}
RUN = f"from lib.layers import layer\n{FITS}"


@pytest.mark.parametrize(
    ("files", "is_question"),
    [
        ({"run.py": RUN}, True),
        ({"run.py": RUN, "lib/data/more.py": "from .loader import collate\n"}, True),
        ({"run.py": f"from lib.data import collate\n{FITS}"}, False),
        ({"run.py": f"from lib.data.sampling import sample\n{FITS}", "lib/data/sampling.py": "sample = 3\n"}, False),
        ({"run.py": RUN, "lib/data/more.py": "from .loader import collate\nprint(collate([]))\n"}, False),
        ({"run.py": RUN, "lib/test_data.py": "from lib.data import collate\ndef test(): collate([])\n"}, False),
        ({"run.py": RUN, "conf/run.yaml": "_target_: lib.data.loader.collate\n"}, False),
        ({"run.py": RUN, "lib/setup.py": "from setuptools import setup\nsetup()\n"}, False),
        ({"run.py": f"from importlib import import_module\nimport_module(f'lib.{{3}}')\n{RUN}"}, False),
    ],
    ids=[
        "by-its-package",
        "by-another-file",
        "by-a-script",
        "by-a-file-of-its-package",
        "by-what-does-something",
        "by-a-test",
        "by-a-configuration",
        "packaged",
        "by-its-name",
    ],
)
def test_what_only_a_package_imports_that_nothing_uses(files: dict[str, str], is_question: bool) -> None:
    (finding,) = found("DL842", "", {**KEPT, **files})
    told = [each.text for each in finding.assumptions if each.kind == "effect"]
    assert any("`loader.py`" in text for text in told) is is_question
