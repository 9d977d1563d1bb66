"""Calls that Python would refuse, because their arguments do not fit the parameters of the function.

Only what is certain counts: a call that is written out, of a function that is what its definition says.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dllint.choices import alternatives
from dllint.events import CallRefused, Misfit
from dllint.forms import element_of
from dllint.interp.run import names
from dllint.interp.run.guards import text_of
from dllint.interp.run.missing_names import is_of_project
from dllint.interp.source.bindings import Definition
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors
from dllint.interp.source.trials import has_main_guard
from dllint.sites import Site
from dllint.values import Absent, Arguments, Class, Const, External, Function, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_IMPLICIT = frozenset(("__new__", "__post_init__", "__init_subclass__", "__class_getitem__"))
_METHODS = frozenset(("staticmethod", "classmethod"))
_ROOTS = ("object", "abc.ABC")
_PLAIN = (*_ROOTS, "torch.nn.", "torch.optim.", "torch.utils.data.", "lightning.", "pytorch_lightning.",
          "transformers.Trainer", "transformers.Seq2SeqTrainer")  # fmt: skip
_NEED_GROUP = {  # of processes, with the arguments that tell what is asked of it otherwise
    "torch.utils.data.DistributedSampler": ((1, "num_replicas"), (2, "rank")),
    "torch.nn.parallel.DistributedDataParallel": ((5, "process_group"), (None, "device_mesh")),
}
_OF_PATHS = ("os.path.join", "os.path.basename", "os.path.dirname")
_STARTS_GROUP = "init_process_group"
_STARTS_GROUP_ITSELF = re.compile(  # or is code that the project does not have
    r"(?i)init\w*_(?:dist|ddp|parallel|backend)|dist\w*_(?:init|mode|setup|start|env)|(?:setup|start)\w*_(?:dist|ddp"
    r"|parallel)|dist\w*\.(?:init(?!_process_group)|setup|launch)|accelerat|PartialState|horovod|\bhvd\b|deepspeed"
    r"|lightning|\bfabric|ignite|idist|torch_xla|catalyst|mmengine|mmcv|detectron2|fairseq|colossalai|megatron|fastai"
    r"|TrainingArguments|init_device_mesh|\bexec\(|import_module\((?!\s*f?['\"])|\binstantiate\b|composer|\bray\b|sagemaker"
)


def refusal(
    machine: Machine, function: Function, arguments: Arguments, site: Site, receiver: Value | None = None
) -> CallRefused | None:
    """What speaks against a call of a project function, if it raises ``TypeError`` before anything in it happens."""
    if machine.block is None or not arguments.exact or not _is_written_out(site.node, arguments):
        return None
    if receiver is not None and names.is_excluded(machine, receiver):
        return None
    misfit = _misfit(function.node.args, arguments, receiver is not None)
    if misfit is None or not _is_as_defined(function, receiver) or is_replaced(machine, function):
        return None
    return CallRefused(site, function, *misfit)


def fits(parameters: ast.arguments, call: ast.Call) -> bool:
    """Whether a call of a method, as it is written, fits some parameters, the first of which is the object."""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return True
    given = Const(None)
    keywords = {each.arg: given for each in call.keywords if each.arg is not None}
    return _misfit(parameters, Arguments((given,) * len(call.args), keywords), has_receiver=True) is None


def cannot_be_bound(machine: Machine, name: str, arguments: Arguments, site: Site) -> bool:
    """Whether a library is called without an argument that it needs, or with more than it has places for."""
    required, most = machine.facts.required.get(name, ()), machine.facts.most_positional.get(name)
    if not required and most is None:
        return False
    if machine.block is None or not arguments.exact or not _is_written_out(site.node, arguments):
        return False
    count = len(arguments.positional)
    return (most is not None and count > most) or any(each not in arguments.keywords for each in required[count:])


def cannot_be_entered(machine: Machine, manager: Value, site: Site) -> bool:
    """Whether a `with` block is entered by what takes nothing there, and was given something: `torch.no_grad(True)`.

    Late releases take that for the function which it is to decorate, and give another function back.
    """
    if machine.block is None or not isinstance(manager, Symbol):
        return False
    given = manager.arguments
    if manager.name not in machine.facts.entered_bare or given is None or not given.exact:
        return False
    return _is_written_out(site.node, given) and bool(given.positional or given.keywords)


def cannot_be_looked_up(node: ast.cmpop, wanted: Value, held: Value) -> bool:
    """Whether a parameter of a model is looked for among those of another one, or of a part of it, one after another.

    Python compares tensors by their numbers there, which raises for two of different shapes, and gives no single answer
    for two of one shape: with the first that is not the very one that is asked for. A set asks for the object.
    """
    if not isinstance(node, ast.In | ast.NotIn):
        return False
    while isinstance(held, Symbol) and held.name in ("list", "tuple") and len(held.inputs) == 1:
        held = held.inputs[0]
    source = "parameters"
    if isinstance(wanted, Symbol) and wanted.name == "item" and wanted.detail == 1:
        wanted, source = wanted.inputs[0], "named_parameters"
    over = element_of(wanted)
    if not isinstance(over, Symbol) or not isinstance(held, Symbol):
        return False
    return over.name == source and held.name == "parameters" and over.inputs[0] is not held.inputs[0]


def lacks_process_group(machine: Machine, name: str, arguments: Arguments) -> bool:
    """Whether a library is asked for what needs a group of processes, where no code of the project starts any.

    torch raises then: a sampler asks the group how many processes there are, unless it is told.
    """
    if name not in _NEED_GROUP or machine.block is None or machine.main.source.notebook is not None:
        return False
    told = [arguments.get(*each) for each in _NEED_GROUP[name]]
    if any(value is not None for value in told) or not arguments.exact:
        return False
    if machine.has_process_group is None:
        machine.has_process_group = not is_of_project(machine, machine.main) or _may_start_group(machine)
    return not machine.has_process_group


def is_path_of_nothing(machine: Machine, name: str, arguments: Arguments) -> bool:
    """Whether a path is put together of `None`, which nobody has given a parameter: Python raises a `TypeError`."""
    if name not in _OF_PATHS or machine.block is None or not arguments.exact:
        return False
    return any(isinstance(each, Const) and each.value is None and _is_default(each) for each in arguments.positional)


def _is_default(value: Const) -> bool:
    """Whether a constant is the default of a parameter, and no placeholder that a user is to fill in."""
    return value.site is not None and any(isinstance(each, ast.arguments) for each in ancestors(value.site))


def _may_start_group(machine: Machine) -> bool:
    """Whether code that somebody uses may start a group of processes, or a library that it is given to.

    Of a script that no other file imports, that is code which it imports; of another file, that of the whole project.
    """
    project, main = machine.project, machine.main
    is_script = has_main_guard(main) and not any(main in project.imported_by(each) for each in project.mentioning())
    modules = project.closure(main) if is_script else list(project.mentioning())
    if any(each.contains(_STARTS_GROUP_ITSELF) for each in modules):
        return True
    if not is_script and any(project.notebooks_with(_STARTS_GROUP)):
        return True
    for module in project.reading_each(each for each in modules if _STARTS_GROUP in each.words):
        nodes = nodes_of(module.tree) if module.has_tree else None
        if nodes is None:
            return True
        for node in (*nodes.names.get(_STARTS_GROUP, ()), *nodes.attributes.get(_STARTS_GROUP, ())):
            around = [each for each in ancestors(Site(module, node)) if isinstance(each, Definition)]
            if not around or project.uses(module, around[-1]):
                return True
    return False


def _is_written_out(node: ast.AST, arguments: Arguments) -> bool:
    """Whether the arguments are those written at the call: nothing was expanded, bound before or made up."""
    return (
        isinstance(node, ast.Call)
        and len(node.args) == len(arguments.positional)
        and [keyword.arg for keyword in node.keywords] == list(arguments.keywords)
        and not any(isinstance(argument, ast.Starred) for argument in node.args)
        and not any(isinstance(option, Absent) for value in arguments.all() for _, option in alternatives(value))
    )


def _misfit(
    parameters: ast.arguments, arguments: Arguments, has_receiver: bool
) -> tuple[Misfit, tuple[str, ...]] | None:
    """Why arguments cannot be bound to parameters, and the names that this is about."""
    positional = [*parameters.posonlyargs, *parameters.args]
    count = len(arguments.positional) + has_receiver
    if count > len(positional) and parameters.vararg is None:
        return "surplus", ()
    given = arguments.keywords.keys()
    by_keyword = {parameter.arg for parameter in (*parameters.args, *parameters.kwonlyargs)}
    unknown = tuple(name for name in given if name not in by_keyword)
    if parameters.kwarg is None and unknown:
        return "unknown", unknown
    twice = tuple(each.arg for each in positional[:count] if each.arg in by_keyword and each.arg in given)
    if twice:
        return "twice", twice
    required = positional[count : len(positional) - len(parameters.defaults)]
    needed = [pair[0] for pair in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True) if pair[1] is None]
    missing = tuple(parameter.arg for parameter in (*required, *needed) if parameter.arg not in given)
    return ("missing", missing) if missing else None


def _is_as_defined(function: Function, receiver: Value | None) -> bool:
    """Whether nothing stands between a call and the definition: no decorator, no condition, no unusual class."""
    node = function.node
    if isinstance(node, ast.Lambda):
        return True
    if function.name in _IMPLICIT or (function.kind == "class" and receiver is None):
        return False
    plain = [text for text in map(text_of, node.decorator_list) if text in _METHODS]
    if len(plain) + (function.grad is not None) != len(node.decorator_list):
        return False
    return function.owner is None or _is_plain(function.owner, node, receiver)


def _is_plain(owner: Class, node: ast.AST, receiver: Value | None) -> bool:
    """Whether a method is the one that the class of its object has, and the class makes its objects as usual."""
    cls = getattr(receiver, "cls", receiver)
    lineage = cls.lineage if isinstance(cls, Class) else owner.lineage
    name = getattr(node, "name", "")
    if node not in owner.node.body or sum(name in ancestor.members for ancestor in lineage) > 1 < _most_bases(lineage):
        return False  # one of several: under a condition, or as the order of resolution has it
    before = True  # what comes before the owner of the method could have another one
    for ancestor in lineage:
        before = before and ancestor is not owner
        if ancestor.node.decorator_list or ancestor.node.keywords or "__new__" in ancestor.members:
            return False
        allowed = _ROOTS if before else _PLAIN
        if not all(isinstance(base, Class) or _is_plain_base(base, allowed) for base in ancestor.possible_bases):
            return False
    return True


def _most_bases(lineage: Sequence[Class]) -> int:
    return max(len(ancestor.bases) for ancestor in lineage)


def _is_plain_base(base: Value, prefixes: tuple[str, ...]) -> bool:
    return isinstance(base, External) and base.name.startswith(prefixes) and "Parameter" not in base.name


def is_replaced(machine: Machine, function: Function) -> bool:
    """Whether somebody may have put another function in the place of this one: `setattr` of another name has not."""
    name = re.escape(function.name)
    other = rf"\s*[\w.]+\s*,\s*(['\"])(?!{name}\1)\w+\1"
    pattern = re.compile(rf"\.{name}\s*=(?!=)|\bsetattr\((?!{other})")
    return any(module.contains(pattern) for module in {machine.main, function.module})
