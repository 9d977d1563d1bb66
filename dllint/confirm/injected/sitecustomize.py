"""Attaches the probes to the user's process: Python imports this before anything else, since its folder is first on
``PYTHONPATH``.

It runs the ``sitecustomize`` that it hides, makes the very dllint that started the run importable, and waits for torch
to be imported. Nothing that goes wrong here may reach the user's script.
"""

import os
import sys


def _run_hidden() -> None:
    """Run the module of the same name that would have been imported without us."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if os.path.abspath(path) != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


def _load_dllint() -> None:
    """Make dllint importable, without putting what is installed beside it on the path."""
    from importlib.util import module_from_spec, spec_from_file_location

    home = os.environ["DLLINT_CONFIRM_HOME"]
    spec = spec_from_file_location("dllint", os.path.join(home, "__init__.py"), submodule_search_locations=[home])
    assert spec is not None and spec.loader is not None
    sys.modules["dllint"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["dllint"])


_run_hidden()
if "DLLINT_CONFIRM" in os.environ:
    try:
        _load_dllint()
        from dllint.confirm.inside.attach import await_torch

        await_torch(os.environ["DLLINT_CONFIRM"])
    except Exception as error:
        print(f"dllint confirm: the probes cannot be attached: {error!r}", file=sys.stderr)
