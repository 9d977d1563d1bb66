"""The state dict of a wrapper, whose keys begin with the wrapper's prefix.

`DataParallel` and `DistributedDataParallel` put `module.` before every key, `torch.compile` puts `_orig_mod.` there. A
model that is not wrapped in the same way cannot load such a checkpoint: on another machine, for evaluation, after
`compile` was switched off.

Measured on torch 2.13: loading the state dict of a `DataParallel` or of a compiled model into the plain model reports
all of its 4 keys as missing. With `strict=False` there is no error either: 0 of 4 tensors are loaded, and the model
keeps its initial weights.

## Bad
    model = torch.nn.parallel.DistributedDataParallel(model)
    train(model, loader, optimizer)
    torch.save(model.state_dict(), "model.pt")

## Good
    model = torch.nn.parallel.DistributedDataParallel(model)
    train(model, loader, optimizer)
    torch.save(model.module.state_dict(), "model.pt")

## Not reported
What nothing in the project loads into a model that is not wrapped: that somebody does is a question (`--possible`).
It is reported where the program puts the state back before it wraps the model, or into the module inside, or where
another file takes it straight from `torch.load`, under the same key and from a file that may be this one, and loads it
into a model that its class, or a function that wraps nothing, has just made. Weights of others that training begins
with do not count, nor what is loaded in a `try`.

Projects that strip the prefix, or where all that loads wraps in the same way; models that are unwrapped where it
matters (`isinstance`, `hasattr(model, "module")`, the name of their class, `accelerator.unwrap_model`, a `try`); what
Accelerate prepares in a notebook that launches no processes; FSDP, which adds no prefix; averaged models, which are
loaded into averaged models. Where both the wrapping and the loading depend on the machine (one GPU or several), the
checkpoint does not move between machines; that is reported only when the rule is selected by name.

## Fix (unsafe)
Saves the state dict of the module inside the wrapper. Unsafe because checkpoints that were saved before have other
keys, and code that loads into the wrapper has to be changed with it.

## On real code
742 public repositories: 36 findings in 18 of them, all true. In others that were read later, 18 of 34 were true: the
rest were 5 false ones, of models that are unwrapped in another way, and 11 that nobody is hurt by, as every loader
wraps or strips, or as no such file arises. Since then it asks for code that loads the state as it is: 16 of the true
ones are reported, and 2 of the others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    SAVERS,
    Assumption,
    Context,
    Edits,
    Finding,
    Guard,
    Guards,
    Part,
    Program,
    Rule,
    Saved,
    Site,
    Symbol,
    Value,
    Where,
    Wrapping,
    assumed_under,
    is_same_path,
    key_loaded,
    receiver_of,
    replace_range,
)

_ATTRIBUTES = {"module.": "module", "_orig_mod.": "_orig_mod"}
_WRAPPERS = ("DataParallel", "DistributedDataParallel")
_OF_CLASS = ("typename", "__class__", "__name__", "__qualname__", "_get_name")
_AVERAGED = "torch.optim.swa_utils.AveragedModel"
_PREPARED = "accelerate.PreparedModel"


def taken_of_something_else(place: Site, saved: Saved, part: Part, state: Symbol, ctx: Context) -> bool:
    """the state is that of an optimizer, a scheduler or a gradient scaler"""
    return ctx.guessed_role(state.inputs[0]) in ("optimizer", "scheduler", "scaler")


def unwrapped_by_a_framework(place: Site, saved: Saved, part: Part, state: Symbol, ctx: Context) -> bool:
    """a framework runs the loop, and unwraps the model itself"""
    return ctx.is_managed(saved.event)


def unwrapped_otherwise(place: Site, saved: Saved, part: Part, state: Symbol, ctx: Context) -> bool:
    """the model is unwrapped on another path, so that this one is for when it is not wrapped"""
    for other in ctx.checkpoints.saved:
        for each in other.parts:
            if each is part or not isinstance(each.value, Symbol) or each.value.name != "state_dict":
                continue
            if other is saved and each in _of_one_call(saved, state):
                continue  # as it is where the model is the other one
            guards = (saved.event.guards + part.guards, other.event.guards + each.guards)
            is_wrapped = any(wrapping.prefix for wrapping in ctx.checkpoints.wrappings(each.value.inputs[0]))
            if not is_wrapped and ctx.is_same(each.value.inputs[0], state.inputs[0]) and not ctx.consistent(*guards):
                return True
    return False


def unwrapped_first(place: Site, saved: Saved, part: Part, state: Symbol, ctx: Context) -> bool:
    """`model.module` is tried first, and this is reached only where there is none"""
    for attempt in ctx.ancestors(place, ast.Try):
        handled = (node for handler in attempt.handlers for node in ast.walk(handler))
        tried = (node for statement in attempt.body for node in ast.walk(statement))
        unwraps = any(isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES.values() for node in tried)
        if unwraps and any(node is place.node for node in handled):
            return True
    return False


def sharded(place: Site, saved: Saved, part: Part, state: Symbol, ctx: Context) -> bool:
    """the state is taken under `FSDP.state_dict_type(model, ...)`: that wrapper puts no prefix"""
    around = ctx.ancestors(place, ast.With)
    return any("state_dict_type" in ast.unparse(item.context_expr) for node in around for item in node.items)


class WrappedStateDict(Rule):
    code = "DL717"
    name = "wrapped-state-dict"
    category = "suspicious"
    severity = "warning"
    default = False
    preview = True
    triggers = (
        ("save", "state_dict", "step", "prepare", "compile", "DataParallel", "DistributedDataParallel"),
        SAVERS,
        ("state_dict",),
        ("DataParallel", "DistributedDataParallel", "compile", "Accelerator"),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html#save-and-load-checkpoints",)

    excuses = (taken_of_something_else, unwrapped_by_a_framework, unwrapped_otherwise, unwrapped_first, sharded)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for saved in ctx.checkpoints.saved:
            for part in saved.parts:
                state = part.value
                if isinstance(state, Symbol) and state.name == "state_dict" and state.site is not None:
                    finding = self._judge(saved, part, state, ctx)
                    if finding is not None:  # of each object whose method saves, as it may be any of several
                        yield finding

    def _judge(self, saved: Saved, part: Part, state: Symbol, ctx: Context) -> Finding | None:
        alike = _of_one_call(saved, state)
        possible = [way for each in alike for way in _possible(saved, each, each.value, ctx)]
        wrapped = [each for each in possible if each.prefix and not _is_averaged(each) and not _is_alone(each, ctx)]
        if not wrapped or ctx.excused(self, state.site, saved, part, state):
            return None
        bare = ctx.loaded_bare(saved, part, state.inputs[0])
        loaded: set[frozenset[str]] = set()
        if bare is None:
            loaded = _loaded_as(saved, part, state, ctx) or _loaded_by_name(part, state, wrapped[0], possible, ctx)
            if not loaded and _is_wrapped_elsewhere(ctx):
                return None
        is_same = bare is None and (loaded == {_prefixes(possible)} or _is_loaded_into_copy(part, state, ctx))
        where: Where = "here" if bare is not None and bare.module is saved.site.module else "related"
        wrapped = [wrapping for wrapping in wrapped if not _is_stripped(wrapping, where, ctx)]
        is_conditional = len(wrapped) < len(possible) or any(_is_prepared(wrapping) for wrapping in wrapped)
        if not wrapped or (is_same and not is_conditional):
            return None
        return self._report(saved, state, wrapped[0], is_conditional, is_same, bare, ctx)

    def _report(
        self,
        saved: Saved,
        state: Symbol,
        wrapping: Wrapping,
        is_conditional: bool,
        pedantic: bool,
        bare: Site | None,
        ctx: Context,
    ) -> Finding:
        assert state.site is not None
        made = wrapping.wrappers[0].site
        assumed = assumed_under(_asked_later(wrapping, state, ctx))
        edits = _of_module(state.site, wrapping, is_conditional, ctx)
        depends = " depending on how the program is run" if is_conditional else ""
        return ctx.finding(
            self,
            state.site,
            f"the keys of the saved state dict begin with `{wrapping.prefix}`{depends}",
            on=[saved.event, state.inputs[0]],
            assuming=[*assumed, *([] if pedantic else _loads_bare(bare, ctx))],
            effect="a model that is not wrapped in the same way cannot load it: all its keys are missing, and with "
            "`strict=False` nothing is loaded",
            help=f"save the state of the module inside the wrapper: {_advice(wrapping)}",
            trace=[
                *([(made, "the model is wrapped here")] if made is not None else []),
                (state.site, "the state dict is that of the wrapper"),
                (saved.event.site, "and is saved"),
                *([(bare, "it is loaded into a model that is not wrapped here")] if bare is not None else []),
            ],
            fix=("Save the state of the module inside the wrapper", edits),
            severity="info" if pedantic else None,
            pedantic=pedantic,
        )


# ------------------------------------------------------------------------------------------------ what is wrapped


def _of_one_call(saved: Saved, state: Symbol) -> list[Part]:
    """The parts of what is saved that one call returns, for each of several models of which it may take the state."""
    return [
        part
        for part in saved.parts
        if isinstance(part.value, Symbol) and part.value.name == "state_dict" and _is_of_call(part.value, state)
    ]


def _is_of_call(value: Symbol, state: Symbol) -> bool:
    return value is state or (value.site is not None and state.site is not None and value.site.node is state.site.node)


def _possible(saved: Saved, part: Part, state: Value, ctx: Context) -> list[Wrapping]:
    """How the model may be wrapped where it is saved; nothing where a test asks just that."""
    around = saved.event.guards + part.guards
    every = ctx.checkpoints.wrappings(state.inputs[0]) if isinstance(state, Symbol) else []
    found = [each for each in every if ctx.consistent(each.guards, each.guards + around)]
    asked = [guard for wrapping in found for guard in wrapping.guards + around]
    return [] if any(_asks_for_a_wrapper(guard) for guard in asked) else found


def _asks_for_a_wrapper(guard: Guard) -> bool:
    """Whether a test asks what an object is, or has: ``isinstance(model, DDP)``, ``is_parallel(model)``, or its class
    is called: ``"DataParallel" in torch.typename(model)``."""
    nodes = list(ast.walk(guard.node)) if guard.node is not None else []
    if any(isinstance(node, ast.Attribute) and node.attr in _OF_CLASS for node in nodes):
        return True
    called = (getattr(node.func, "id", "") for node in nodes if isinstance(node, ast.Call))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant))
    return any(name in ("isinstance", "hasattr", "type", "typename") or "parallel" in name for name in called) or any(
        text in ("module", "_orig_mod") for text in texts
    )


def _loads_bare(bare: Site | None, ctx: Context) -> Iterator[Assumption]:
    """That somebody loads what is saved into a model that is not wrapped, where nothing is seen to do so."""
    if bare is not None:
        return
    if not ctx.sees_whole_project and not any(True for _ in ctx.method_calls("load_state_dict", everywhere=True)):
        yield Assumption("entry", "somebody loads it into a model without a wrapper, which nothing does that is here")
    else:
        yield Assumption("effect", "somebody loads it into a model without a wrapper, which nothing is seen to do")


def _asked_later(wrapping: Wrapping, state: Symbol, ctx: Context) -> Guards:
    """The conditions that are asked after the model was wrapped, to choose between the wrapper and what is in it.

    Those for wrapping it are no assumption: that the keys depend on them is what is reported.
    """
    made, saved = wrapping.wrappers[0].site, state.site
    assert saved is not None
    is_apart = made is None or made.module is not saved.module or ctx.scope(made) != ctx.scope(saved)
    if made is None or is_apart:
        function = next(ctx.ancestors(saved, ast.FunctionDef, ast.AsyncFunctionDef), saved.node)
        inside = {id(node) for node in ast.walk(function)}
        return tuple(guard for guard in wrapping.guards if id(guard.node) in inside)
    return tuple(guard for guard in wrapping.guards if guard.node is not None and guard.node.lineno > made.line)


def _prefixes(wrappings: list[Wrapping]) -> frozenset[str]:
    return frozenset(wrapping.prefix for wrapping in wrappings)


def _is_averaged(wrapping: Wrapping) -> bool:
    return any(wrapper.library_name == _AVERAGED for wrapper in wrapping.wrappers)


def _is_prepared(wrapping: Wrapping) -> bool:
    return any(wrapper.library_name == _PREPARED for wrapper in wrapping.wrappers)


def _is_alone(wrapping: Wrapping, ctx: Context) -> bool:
    """Whether Accelerate wraps nothing, as a notebook is one process unless it launches others."""
    is_notebook = ctx.program.module.source.notebook is not None
    return is_notebook and _is_prepared(wrapping) and not ctx.mentions("notebook_launcher", where="here")


# ------------------------------------------------------------------------------------------------ how it is loaded


def _loaded_as(saved: Saved, part: Part, state: Symbol, ctx: Context) -> set[frozenset[str]]:
    """The prefixes of the models that the program loads this state into, from this file if it reads several."""
    found = [
        restored
        for restored in ctx.checkpoints.restored
        if ctx.is_same(restored.event.target, state.inputs[0]) and restored.key in ("", part.key)
    ]
    mine = [restored for restored in found if is_same_path(restored.read.path, saved.event.path)]
    return {_prefixes(ctx.checkpoints.wrappings(restored.event.target)) for restored in mine or found}


def _is_loaded_into_copy(part: Part, state: Symbol, ctx: Context) -> bool:
    """Whether the entry is loaded into an average of the model, which is a copy of it and wrapped like it."""
    return any(
        state.site is not None
        and site.module is state.site.module
        and isinstance(site.node, ast.Call)
        and bool(part.key)
        and repr(part.key) in ", ".join(map(ast.unparse, site.node.args))
        for site in ctx.method_calls("load_state_dict", about="averaged-model")
    )


def _loaded_by_name(
    part: Part, state: Symbol, wrapping: Wrapping, possible: list[Wrapping], ctx: Context
) -> set[frozenset[str]]:
    """The same for code of the file that is not run here: it loads into ``self.model``, or into ``self.model.module``.

    What has the same name as the model that is saved is taken to be wrapped like it; in the same function only where
    it stands behind the wrapping.
    """
    assert state.site is not None and isinstance(state.site.node, ast.Call)
    receiver = receiver_of(state.site.node)
    made = [each.wrappers[0].site for each in (wrapping, *possible) if each.wrappers]
    made += _other_wrappings(receiver, state.site)
    found: set[frozenset[str]] = set()
    for site in ctx.method_calls("load_state_dict"):
        assert isinstance(site.node, ast.Call)
        if site.module is not state.site.module or key_loaded(site.node) not in ("", part.key):
            continue  # of another file, or for another entry
        if receiver_of(site.node).startswith((f"{receiver}.module", f"{receiver}._orig_mod")):
            found.add(frozenset(("",)))
        elif receiver_of(site.node) == receiver:
            is_behind = any(at is None or ctx.scope(site) != ctx.scope(at) or at.line < site.line for at in made)
            found.add(_prefixes(possible) if is_behind else frozenset(("",)))
    return found


def _other_wrappings(receiver: str, saved: Site) -> list[Site]:
    """Where code of the file that is not run here, such as another arm of a branch, wraps what has the same name."""
    assigned = (node for node in ast.walk(saved.module.tree) if isinstance(node, ast.Assign))
    return [
        Site(saved.module, node)
        for node in assigned
        if receiver in map(ast.unparse, node.targets)
        and any(getattr(each, "attr", getattr(each, "id", "")) in _WRAPPERS for each in ast.walk(node.value))
    ]


def _is_wrapped_elsewhere(ctx: Context) -> bool:
    """Whether another script of the project, or one that it imports, wraps a model, and loads something into one."""
    return ctx.wraps_and_loads("elsewhere")


def _is_stripped(wrapping: Wrapping, where: Where, ctx: Context) -> bool:
    """Whether code of the project takes the whole prefix off."""
    return all(ctx.takes_off(part, where) for part in _ATTRIBUTES if part in wrapping.prefix)


# --------------------------------------------------------------------------------------------------------- the fix


def _advice(wrapping: Wrapping) -> str:
    if _is_prepared(wrapping):
        return "`accelerator.unwrap_model(model).state_dict()`"
    return f"`model.{'.'.join(part for part in wrapping.prefix.split('.') if part)}.state_dict()`"


def _of_module(site: Site, wrapping: Wrapping, is_conditional: bool, ctx: Context) -> Edits:
    """Put ``.module`` after the model, or ``getattr(model, "module", model)`` where it may not be wrapped."""
    call = site.node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return Edits()
    receiver = Site(site.module, call.func.value)
    text = ctx.source_of(receiver)
    if not is_conditional:
        return replace_range(receiver, ".".join([text, *(part for part in wrapping.prefix.split(".") if part)]))
    if wrapping.prefix not in _ATTRIBUTES:
        return Edits()
    return replace_range(receiver, f'getattr({text}, "{_ATTRIBUTES[wrapping.prefix]}", {text})')
