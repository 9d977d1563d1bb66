"""A variation must not change what a program does: programs are run as they are and in every variation."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dllint.files.notebook import read_notebook
from dllint.testing.variations import VARIATIONS

PROGRAMS = {
    "script with functions and classes": {
        "main.py": """
            import math
            import os.path as osp
            from collections import OrderedDict, defaultdict as dd

            class Shape:
                kind = "shape"

                def area(self):
                    return math.pi

            class Square(Shape):
                def __init__(self, side):
                    super().__init__()
                    self.side = side

                def area(self):
                    return self.side ** 2

            def describe(shape, *, digits=2):
                text = f'''{type(shape).__name__}
                    of kind {shape.kind}
                has {round(shape.area(), digits)}'''
                return text

            counts = dd(int)
            for side in range(3):
                counts[describe(Square(side))] += 1
                if side > 1: print(osp.join("a", "b"))
            print(OrderedDict(counts), describe(Shape()))
            import wsgiref.util
            print(wsgiref.util.guess_scheme({"HTTPS": "on"}))
        """
    },
    "definitions that need what the script computes": {
        "main.py": """
            from math import sqrt
            scale = sqrt(16)

            def scaled(x):
                return x * scale

            class Offset:
                start = scale + 1
                def __call__(self, x):
                    return scaled(x) + self.start

            print(Offset()(2), [scaled(i) for i in range(3)])
        """
    },
    "functions and a main guard": {
        "main.py": """
            import sys as system

            def twice(x, /, *rest, **more): return 2 * x + len(rest) + len(more)

            @staticmethod
            def unused():
                return 1

            def main() -> None:
                print(twice(3, 4, key=5), twice(twice(1)), system.maxsize > 0)
                print('''a
            b
                c''')

            if __name__ == "__main__":
                main()
        """
    },
    "imports that fail, and local ones": {
        "main.py": """
            try:
                import no_such_module as json
            except ImportError:
                import json

            def dump(value):
                from json import dumps
                import json.decoder
                return dumps(value), json.decoder.__name__

            print(dump([1]), json.loads("[2]"))
        """
    },
    "names of modules bound again": {
        "main.py": """
            import math, json
            from random import random, Random as Generator
            import string as text

            def random(): return 4

            def pick(text):
                return text.upper()

            math = json.loads("3")
            print(math, random(), pick("a"), Generator(1).randint(1, 100), text.digits)
        """
    },
    "several files": {
        "main.py": """
            import tools
            from tools import Path, base, join as j
            from package.inner import Thing
            import package.inner
            print(tools.math.sqrt(4), base(), j("a", "b"), Thing().name(), package.inner.json.dumps(1))
        """,
        "tools.py": """
            import math
            from pathlib import Path
            from posixpath import join
            def base(): return Path("x/y").name, math.floor(2.5)
        """,
        "package/__init__.py": "",
        "package/inner.py": """
            import json
            import os.path as osp
            class Thing:
                def name(self):
                    return json.dumps({osp.join("a", "b"): 1})
        """,
    },
    "names in f-strings and comprehensions": {
        "main.py": """
            import math
            import json as j
            from string import digits as d
            values = [math.sqrt(v) for v in range(4) if (last := v) > 1]
            print(f"{math.pi:.2f} {j.dumps(values)} {last} {d}")
            print(*(lambda n: [n * k for k in values])(2))
        """
    },
    "global and star imports": {
        "main.py": """
            from math import *
            count = 0
            def tick():
                global count
                count += 1
            tick()
            print(count, floor(2.5))
        """
    },
    "strings over lines, and two statements on one": {
        "main.py": """
            text = '''first
                second
            third'''
            a = 1; b = 2
            if a:
                # a comment
                print(text, (a
                    + b), \\
                  "continued")
        """
    },
    "deferred annotations": {
        "main.py": """
            from __future__ import annotations
            import typing
            def f(x: typing.Undefined = 1) -> Missing:
                return x
            print(f())
        """
    },
    "recursion, decorators and defaults": {
        "main.py": """
            import functools
            START = 3

            def down(n=START):
                return [n] + down(n - 1) if n else []

            def traced(function):
                @functools.wraps(function)
                def inner(*args):
                    print("call", args)
                    return function(*args)
                return inner

            @traced
            def add(a, b):
                return a + b

            def generic(): return [add(i, j) for i in range(2) for j in range(i)]
            print(down(), add(1, 2), generic())
        """
    },
}

APPLIES = {
    "script with functions and classes": {"function", "method", "classes", "functions", "alias", "full-names", "tabs"},
    "definitions that need what the script computes": {"function", "method", "alias"},
    "functions and a main guard": {"method", "functions", "alias", "full-names"},
    "several files": {"function", "alias", "full-names", "cell"},
    "global and star imports": {"cell", "crlf"},
}
"""Some variations that must apply, so that a test of none passes for no program."""


def run(files: Mapping[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a program prints. A notebook is run as the module it makes."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((read_notebook(text).text if name.endswith(".ipynb") else text).encode())
    main = folder / next(iter(files))
    output = io.StringIO()
    with monkeypatch.context() as patch, contextlib.redirect_stdout(output), fresh_modules():
        patch.syspath_prepend(str(folder))
        runpy.run_path(str(main), run_name="__main__")
    return output.getvalue()


@contextlib.contextmanager
def fresh_modules() -> Iterator[None]:
    """Forget the modules that are imported meanwhile."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def program(title: str) -> dict[str, str]:
    return {name: textwrap.dedent(text).strip("\n") + "\n" for name, text in PROGRAMS[title].items()}


@pytest.mark.parametrize("name", VARIATIONS)
@pytest.mark.parametrize("title", PROGRAMS)
def test_variation_keeps_the_output(title: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = program(title)
    varied = VARIATIONS[name](files)
    assert varied is None or varied != files
    assert varied is not None or name not in APPLIES.get(title, ())
    if varied is not None:
        expected = run(files, tmp_path / "as_written", monkeypatch)
        assert expected and run(varied, tmp_path / "varied", monkeypatch) == expected


def varied(name: str, text: str) -> dict[str, str] | None:
    return VARIATIONS[name]({"main.py": textwrap.dedent(text)})


class TestForms:
    def test_alias(self) -> None:
        text = """\
            import torch  # a comment
            import torch.nn as nn, torch.nn.functional as F
            from torch import optim
            from torch.optim import Adam
            import torch.nn.functional as functional
            model = nn.Linear(torch.tensor(1), optim.lr, Adam, F.relu, functional.relu)  # DL101
        """
        assert varied("alias", text) == {
            "main.py": textwrap.dedent("""\
            import torch as th  # a comment
            import torch.nn as tnn, torch.nn.functional as FX
            import torch.optim as topt
            from torch.optim import Adam as Adam_
            from torch.nn import functional as functional_
            model = tnn.Linear(th.tensor(1), topt.lr, Adam_, FX.relu, functional_.relu)  # DL101
        """)
        }

    def test_full_names(self) -> None:
        text = """\
            import torch
            import torch.nn.functional as F
            from torch import nn
            from torch.optim import Adam, SGD as Sgd
            from tqdm import tqdm
            model = nn.Linear(torch.tensor(1), Adam, Sgd, F.relu, tqdm)  # DL101
        """
        assert varied("full-names", text) == {
            "main.py": textwrap.dedent("""\
            import torch
            import torch.nn.functional
            import torch.nn
            import torch.optim
            import tqdm
            model = torch.nn.Linear(torch.tensor(1), torch.optim.Adam, torch.optim.SGD, torch.nn.functional.relu, tqdm.tqdm)  # DL101
        """)  # noqa: E501
        }

    def test_function_and_method(self) -> None:
        text = "import torch\n\nx = 1\nfor i in range(3):\n    print(x)  # DL101\n"
        body = ["x = 1", "for i in range(3):", "    print(x)  # DL101"]
        call = ['if __name__ == "__main__":']
        for name, header, depth, end in (
            ("function", ["def main():"], 4, "    main()"),
            ("method", ["class Runner:", "    def run(self):"], 8, "    Runner().run()"),
        ):
            files = varied(name, text)
            assert files is not None
            lines = [line for line in files["main.py"].split("\n") if line]
            assert lines == ["import torch", *header, *(" " * depth + line for line in body), *call, end]

    def test_method_for_functions(self) -> None:
        text = "def train_all(\n    model, loader\n):  # x\n    return 1\n\n\ndef main():\n    train_all(1, 2)\n"
        body = "class TrainAllRunner:\n    def train_all(self, \n        model, loader\n    ):  # x\n        return 1\n"
        main = "class MainRunner:\n    def main(self):\n        TrainAllRunner().train_all(1, 2)\n"
        assert varied("method", text) == {"main.py": f"{body}\n\n{main}"}

    def test_cells(self) -> None:
        files = varied("cells", "import a\nimport b\n\n# about x\nx = 1\n\n\nfor i in x:\n    y = 1\n\n    z = 2\n")
        assert files is not None
        cells = ["".join(cell["source"]) for cell in json.loads(files["main.ipynb"])["cells"]]
        assert cells == ["import a\nimport b", "# about x\nx = 1", "for i in x:\n    y = 1\n\n    z = 2"]

    def test_classes_and_functions_elsewhere(self) -> None:
        text = """\
            import torch

            class A(torch.nn.Module):  # DL101
                pass

            limit = 3

            class B(A):
                top = limit

            def use():
                return A()
        """
        files = varied("classes", text)
        assert files is not None and files["models_.py"].split("\n\n\n") == [
            "import torch",
            "class A(torch.nn.Module):  # DL101\n    pass\n",
        ]
        assert "from models_ import A\n" in files["main.py"] and "class B(A):" in files["main.py"]
        files = varied("functions", text)
        assert files is not None and "from helpers_ import A, use\n" in files["main.py"]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("alias", "from torch.nn import *\nimport torch\ntorch.x\n"),
            ("alias", "import torch\nprint(globals()['torch'])\n"),
            ("full-names", "import torch\ntorch.x\n"),
            ("full-names", "import torch.nn as nn\ndef f(torch): return nn\n"),
            ("function", "def f(): return 1\n"),
            ("function", "x = 1\ndef f():\n    global x\n    x = 2\n"),
            ("function", "SIZE = 3\ndef not_called(): return SIZE\n"),
            ("function", "a = 1; b = 2\n"),
            ("method", "def f(): return 1\nhandlers = {}\nif __name__ == '__main__': print(f, handlers)\n"),
            ("method", "@register('f')\ndef f(): return 1\n"),
            ("classes", "limit = 3\nclass A:\n    top = limit\n"),
            ("classes", "class A: pass\nA = wrap(A)\n"),
            ("tabs", "if x:\n  y = 1\n"),
            ("tabs", "x = 1\n"),
            ("cells", "x = 1\ny = 2\n"),
        ],
    )
    def test_does_not_apply(self, name: str, text: str) -> None:
        assert varied(name, text) is None
