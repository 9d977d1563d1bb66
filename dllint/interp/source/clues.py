"""What code tells about the releases it was written for: what later ones refuse, or have no more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from dllint.interp.source.imported import dotted_uses
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.patterns import AnyOf
from dllint.interp.source.positions import enclosing_definition
from dllint.sites import Site

_OF_EARLY_TORCHTEXT = (  # in `torchtext.data`
    *("BucketIterator", "Dataset", "Example", "Field", "Iterator", "LabelField", "TabularDataset"),
)
# What may be a clue, found fast; whether it is one is told by the syntax tree.
_STATEMENT = r"(?m)^[ \t]*(?:print|exec)[ \t]+[\w'\"%(]"
MAY_BE_CLUE = AnyOf(
    *((text, _STATEMENT) for text in ("print ", "print\t", "exec ", "exec\t")),
    *((name, rf"\b{name}\b") for name in ("xrange", "raw_input", "unicode")),
    ("async", r"\basync\s*="),
    (".data[0]", r"\.data\[0\]"),
    ("except ", r"except .*,.*:"),
    ("raise ", r"(?m)^[ \t]*raise \w[\w.]*[ \t]*,"),
    (
        "tf.",
        r"\btf\.(?:placeholder|Session|ConfigProto|contrib|app|GPUOptions|get_variable|global_variables_initializer)\b",
    ),
    ("python3.", r"\bpython3\.[5-8]\b"),
    ("hparams", r"\bself\.hparams\s*="),
    ("scipy.misc", r"\bfrom[ \t]+scipy\.misc\b"),
    ("torchtext", rf"\b(?:{'|'.join(_OF_EARLY_TORCHTEXT)})\b"),
)
_EARLY_PYTHON = re.compile(r"^#!.*\bpython3\.([5-8])\b|\bpython3\.([5-8])/(?:site|dist)-packages\b")
_NAMES_OF_PYTHON_2 = frozenset(("unicode", "xrange", "raw_input"))
_FOR_BOTH = frozenset(("version_info", "six", "PY2", "PY3", "builtins", "past", "future"))
_OF_TENSORFLOW_1 = frozenset(("placeholder", "Session", "ConfigProto", "contrib", "GPUOptions", "get_variable"))
_OF_EARLY_SCIPY = frozenset(
    ("bytescale", "fromimage", "imfilter", "imread", "imresize", "imrotate", "imsave", "imshow", "toimage")
)  # in `scipy.misc`
_ASYNC = re.compile(r"[(,]\s*async\s*=\s*(?:True|False)\b")
_TENSORFLOW = re.compile(r"(?m)^[ \t]*import tensorflow as tf\b")
_COMPATIBLE = re.compile(r"tensorflow\.compat|tf\.compat|disable_v2_behavior|tf\.__version__")
_ENTROPY = re.compile(r"cross_entropy|nll", re.IGNORECASE)
_OF_TORCH = ("F.", "nn.functional.", "torch.nn.functional.")
_NUMBER_OF = re.compile(r"loss|cost|err|criterion", re.IGNORECASE)


_known: WeakKeyDictionary[SourceModule, frozenset[str]] = WeakKeyDictionary()  # all of a project are asked again


def clues_in(module: SourceModule) -> frozenset[str]:
    """The last Python that can run a file, as ``python 2``, and ``item`` for `loss.data[0]`.

    What only Python 3.6 can read is a clue of that name, and names that only TensorFlow 1 has, or scipy before 1.3, are
    one of Python 3.7. ``hparams`` is a module of Lightning that sets what is a property today, ``fields`` a use of
    what `torchtext.data` had before 0.9.

    Names that the file binds itself are none, nor is anything in a file that is for both versions of Python.
    """
    found = _known.get(module)
    if found is None:
        found = _known[module] = _clues_in(module)
    return found


def _clues_in(module: SourceModule) -> frozenset[str]:
    if not module.contains(MAY_BE_CLUE):
        return frozenset()
    nodes = nodes_of(module.tree)
    found = {*_refused(module), *_pythons_named(module)}
    if any(map(_is_number_read, nodes.of(ast.Subscript))):
        found.add("item")
    is_tensorflow = module.contains(_TENSORFLOW) and not module.contains(_COMPATIBLE)
    is_of_tensorflow_1 = is_tensorflow and any(map(_is_of_tensorflow_1, nodes.of(ast.Attribute)))
    if is_of_tensorflow_1 or ("scipy" in module.words and _imports_early_scipy(module.tree)):
        found.add("python 3.7")
    if "hparams" in module.words and any(map(_sets_hparams, nodes.of(ast.ClassDef))):
        found.add("hparams")
    if "torchtext" in module.words and _uses_fields(module.tree):
        found.add("fields")
    names = nodes.names.keys() & _NAMES_OF_PYTHON_2
    if module.words.isdisjoint(_FOR_BOTH) and any(not module.binds(name) for name in names):
        found.add("python 2")
    return frozenset(found)


def _pythons_named(module: SourceModule) -> Iterator[str]:
    """The early Python that a file is run with, by its first line or by the path of what is installed for it."""
    for groups in _EARLY_PYTHON.findall(module.source.text):
        yield f"python 3.{max(6, *(int(minor) for minor in groups if minor))}"


def _refused(module: SourceModule) -> frozenset[str]:
    """The clue in what Python cannot parse."""
    error = module.parse_error
    if module.is_of_python_2:
        return frozenset(["python 2"])
    is_early = isinstance(error, SyntaxError) and _ASYNC.search(error.text or "")
    return frozenset(["python 3.6"]) if is_early else frozenset()


def _is_of_tensorflow_1(node: ast.Attribute) -> bool:
    return node.attr in _OF_TENSORFLOW_1 and getattr(node.value, "id", "") == "tf"


def _imports_early_scipy(tree: ast.Module) -> bool:
    """Whether a file imports what scipy has no more since 1.3, and not in a ``try`` that has another way.

    What a function reads of `scipy.misc` tells nothing: it may be one that nobody calls.
    """
    imported = (dotted for node, dotted in dotted_uses(tree) if isinstance(node, ast.alias))
    return any(dotted.startswith("scipy.misc.") and dotted[11:] in _OF_EARLY_SCIPY for dotted in imported)


def _uses_fields(tree: ast.Module) -> bool:
    """Whether a file uses what was in `torchtext.data` before release 0.9."""
    uses = (dotted.rpartition(".") for _, dotted in dotted_uses(tree))
    return any(library == "torchtext.data" and name in _OF_EARLY_TORCHTEXT for library, _, name in uses)


def _sets_hparams(cls: ast.ClassDef) -> bool:
    """Whether a module of Lightning is given ``self.hparams = …``, which later releases do not let anybody set."""
    if not any(ast.unparse(base).endswith("LightningModule") for base in cls.bases):
        return False
    targets = (target for each in nodes_of(cls).of(ast.Assign) for target in each.targets)
    return any(ast.unparse(target) == "self.hparams" for target in targets)


def numbers_read(module: SourceModule) -> Iterator[ast.Subscript]:
    """Where a file reads by an index what is certainly one number: ``loss.data[0]`` of what a loss function returned.

    That is what goes backward, or what a function of torch returns that is not told to keep a number for each sample.
    """
    if "item" not in clues_in(module):
        return
    for node in nodes_of(module.tree).of(ast.Subscript):
        if _is_number_read(node) and isinstance(node.value, ast.Attribute):
            made = _assigned(node.value.value, Site(module, node))
            if made and all(_is_of_a_loss(each) for each in made):
                goes_backward = _goes_backward(node.value.value, Site(module, node))
                if goes_backward or all(ast.unparse(each.func).startswith(_OF_TORCH) for each in made):
                    yield node


def _assigned(variable: ast.expr, site: Site) -> list[ast.Call]:
    """The calls whose results a function assigns to a variable, if it assigns nothing else to it."""
    scope, name = enclosing_definition(site) or site.module.tree, ast.unparse(variable)
    nodes = nodes_of(scope)
    added = (each.target for each in nodes.of(ast.AugAssign, ast.AnnAssign))
    assigned = [(target, each.value) for each in nodes.of(ast.Assign) for target in each.targets]
    unpacked = (inner for target, _ in assigned if not isinstance(target, ast.Name) for inner in ast.walk(target))
    if name.partition(".")[0] != name or any(ast.unparse(each) == name for each in (*added, *unpacked)):
        return []
    values = [value for target, value in assigned if ast.unparse(target) == name]
    calls = [value for value in values if isinstance(value, ast.Call)]
    return calls if len(calls) == len(values) else []


def _is_of_a_loss(call: ast.Call) -> bool:
    """Whether a function is called that is named as a loss, and is told nothing of what it makes of the numbers."""
    is_told = any(each.arg in (None, "reduce", "reduction") for each in call.keywords)
    return not is_told and bool(_NUMBER_OF.search(ast.unparse(call.func)) or _ENTROPY.search(ast.unparse(call.func)))


def _goes_backward(variable: ast.expr, site: Site) -> bool:
    name = ast.unparse(variable)
    calls = nodes_of(enclosing_definition(site) or site.module.tree).of(ast.Call)
    sent = (call.func for call in calls if isinstance(call.func, ast.Attribute) and not call.args)
    return any(each.attr == "backward" and ast.unparse(each.value) == name for each in sent)


def _is_number_read(node: ast.Subscript) -> bool:
    """Whether the number of a loss is read by an index: ``loss.data[0]``, ``self.total_loss.data[0]``."""
    data = node.value
    if not (isinstance(data, ast.Attribute) and data.attr == "data" and isinstance(node.ctx, ast.Load)):
        return False
    is_first = isinstance(node.slice, ast.Constant) and node.slice.value == 0 and node.slice.value is not False
    owner = getattr(data.value, "attr", getattr(data.value, "id", ""))
    return is_first and bool(_NUMBER_OF.search(str(owner)))
