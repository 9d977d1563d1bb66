"""What rules about checkpoints can ask: what is saved, what is read back into what, and under which keys."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeGuard

from dllint.choices import Choice, alternatives
from dllint.context.loading import keys_written
from dllint.context.unpickling import ObjectUse, is_written_without, object_use, refusal
from dllint.dataclass import dataclass
from dllint.events import Event, OptimizerStep, StateRead, StateRestored, StateSaved
from dllint.flow import Structure, follow, is_of_runs
from dllint.interp.run import classes, graph, roles, states
from dllint.interp.run.machine import Machine
from dllint.sites import Guards, Site
from dllint.values import Absent, Class, Const, Instance, Items, Setting, Symbol, Table, Value

STATES = frozenset(("module", "wrapper", "optimizer", "scheduler", "scaler"))


@dataclass(frozen=True, slots=True)
class Part:
    """A part of what is saved, and the key it stands under (``""`` if it is all there is, ``"a.b"`` if dicts nest).

    ``guards`` are the conditions under which it is there; ``given`` is the value or, where that
    is one of several or part of one of several things, the choice.
    """

    key: str
    value: Value
    guards: Guards
    given: Value


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that is written.

    ``site`` is where its content is put together; ``exact`` says that it has no other parts.
    """

    event: StateSaved
    parts: tuple[Part, ...]
    site: Site
    exact: bool

    @property
    def is_dict(self) -> bool:
        return any(part.key for part in self.parts)

    def place_of(self, part: Part) -> Site:
        """Where a part is put in: its value in a dict that is written out, or where it is assigned in the same file."""
        node = self.site.node
        entries = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
        for key, value in entries:
            if isinstance(key, ast.Constant) and key.value == part.key.partition(".")[0] != "":
                return Site(self.site.module, value)
        made = part.value.site
        is_here = made is not None and made.module is self.site.module and made.line > self.site.line
        return made if made is not None and part.key and is_here else self.site


@dataclass(frozen=True, slots=True)
class Restored:
    """``load_state_dict`` with what was read from a file. ``key`` is the entry that was taken, if that is known.

    ``unsure`` is the state where some of the things that it may be are not from a file.
    """

    event: StateRestored
    read: StateRead
    key: str
    unsure: Value | None = None


@dataclass(frozen=True, slots=True)
class Wrapping:
    """The wrappers around a model, outermost first, and what they put before the keys of its state dict.

    ``DistributedDataParallel`` adds ``module.``, ``torch.compile`` adds ``_orig_mod.``. ``guards`` are the conditions
    under which the model is wrapped so.
    """

    guards: Guards
    wrappers: tuple[Instance, ...]
    prefix: str


class CheckpointView:
    """The checkpoints of one program."""

    def __init__(self, machine: Machine, structure: Structure) -> None:
        self._machine = machine
        self._structure = structure

    @cached_property
    def saved(self) -> tuple[Saved, ...]:
        """The checkpoints that the program writes with ``torch.save``."""
        return tuple(
            self._saved(event, event.content)
            for event in self._structure.events
            if isinstance(event, StateSaved) and event.content is not None
        )

    def _saved(self, event: StateSaved, content: Value) -> Saved:
        tables = [option for _, option in alternatives(content) if isinstance(option, Table)]
        site = next((table.site for table in tables if table.site is not None), event.site)
        return Saved(event, self.parts(content), site, all(table.exact for table in tables))

    def parts(self, content: Value | None) -> tuple[Part, ...]:
        """The states in what is written to a file, or is to be filled from one: those of a dict, or it itself."""
        return tuple(_parts(content, "", (), (), None)) if content is not None else ()

    @cached_property
    def restored(self) -> tuple[Restored, ...]:
        """What the program puts back from files, in order."""
        reads = {id(event.result): event for event in self._structure.events if isinstance(event, StateRead)}
        found: list[Restored] = []
        for event in self._structure.events:
            if isinstance(event, StateRestored) and event.state is not None:
                sources = list(states.sources_of_state(event.state, 60))
                read = next((reads[id(source)] for source in sources if id(source) in reads), None)
                if read is not None:
                    unsure = None if _is_all_read(event.state, set(reads)) else event.state
                    found.append(Restored(event, read, _key_of(sources, read.result), unsure))
        return tuple(found)

    def kind(self, value: Value) -> str:
        """What a saved value is or is the state of: ``module``, ``optimizer``, ``scheduler``, ``scaler`` or nothing."""
        original = _original(value)
        if original is not value and any(_is_state(option) for _, option in alternatives(original)):
            return self._common_kind(original)
        owner = value.inputs[0] if _is_state(value) else original
        if owner is value and not isinstance(value, Instance):
            return ""
        candidates = [option for _, option in alternatives(owner)] + graph.objects(self._machine, owner)
        found = {roles.known_or_guessed(self._machine, each) for each in candidates}
        if found == {""} and _is_state(value):  # an object of a class that is not known
            found = {roles.guess_role(each) for each in candidates}
        kinds = found & STATES
        if len(kinds - {"wrapper"}) > 1:
            return ""
        return "".join(kinds - {"wrapper"}) or ("module" if kinds else "")

    def unsure(self, saved: Saved, *kinds: str) -> list[Value]:
        """The states of some kinds in a checkpoint that may also be something else than such a state or ``None``."""
        return [
            part.given
            for part in saved.parts
            if (kind := self.kind(part.value)) in kinds
            and any(self.kind(option) != kind and not _is_none(option) for _, option in alternatives(part.given))
        ]

    def refusal(self, value: Value) -> str:
        """What ``torch.load`` refuses by default about a value that is saved, in words; empty if that is not known."""
        return refusal(value, lambda each: classes.role_of(self._machine, each))

    @cached_property
    def reads(self) -> tuple[StateRead, ...]:
        """Where the program reads checkpoints with ``torch.load``, in order."""
        return tuple(event for event in self._structure.events if isinstance(event, StateRead))

    def object_use(self, read: StateRead) -> ObjectUse | None:
        """Where something that was read is used as no tensor, number, text or container can be, and as what."""
        used = object_use(read, self._structure.events, self._machine)
        saves = [each.event for each in self.saved if is_same_path(each.event.path, read.path)] if used else []
        return used if used is None or not is_written_without(used, saves) else None

    def _common_kind(self, value: Value) -> str:
        """The kind of what is one of several values, if that is the same whichever it is."""
        kinds = {self.kind(option) for _, option in alternatives(value)}
        return kinds.pop() if len(kinds) == 1 else ""

    def is_before_training(self, event: Event, steps: Sequence[OptimizerStep]) -> bool:
        """Whether an event happens before the first of some optimizer steps, and one of them follows on some path."""
        return bool(self.steps_that_follow(event, steps))

    def steps_that_follow(self, event: Event, steps: Sequence[OptimizerStep]) -> list[OptimizerStep]:
        """Those of some optimizer steps that follow an event on paths on which none of them comes before it.

        Where a loop makes an optimizer for each of several runs, only what happens within one run counts.
        """
        ids = {id(step) for step in steps}
        around = self._structure.around.get(event, ())
        runs = next((loop for loop in around if is_of_runs(loop)), None)
        structure = self._structure if runs is None else Structure(runs.body)

        def advance(current: Event, state: str) -> str:
            if current is event:
                return "passed" if state == "fresh" else state
            return "trained" if state == "fresh" else state

        flow = follow(structure, "fresh", advance, {type(event), OptimizerStep}, lambda e: e is event or id(e) in ids)
        return [step for step in steps if "passed" in flow.arrivals.get(step, ())]

    def wrappings(self, model: Value) -> list[Wrapping]:
        """The wrappers around each of the objects that a model may be."""
        return [
            Wrapping(guards + inner.guards, inner.wrappers, inner.prefix)
            for guards, option in alternatives(model)
            for inner in self._wrappings_of_one(option)
        ]

    def _wrappings_of_one(self, value: Value) -> list[Wrapping]:
        prefixes = self._machine.facts.wrapper_prefixes
        if isinstance(value, Setting):
            return self.wrappings(value.default)
        if isinstance(value, Symbol) and value.inputs and value.name in graph.SELF_RETURNING:
            return self.wrappings(value.inputs[0])
        name = _wrapper_class(value, prefixes) if isinstance(value, Instance) else ""
        if isinstance(value, Instance) and name and value.arguments.positional:
            return [
                Wrapping(inner.guards, (value, *inner.wrappers), prefixes[name] + inner.prefix)
                for inner in self.wrappings(value.arguments.positional[0])
            ]
        return [Wrapping((), (), "")]


def _wrapper_class(value: Instance, prefixes: Mapping[str, str]) -> str:
    """The library's wrapper that an object is of, or that its class derives from without another ``state_dict``."""
    if not isinstance(value.cls, Class):
        return value.cls if value.cls in prefixes else ""
    if any("state_dict" in ancestor.members for ancestor in value.cls.lineage):
        return ""
    return next((base for base in value.cls.library_bases if base in prefixes), "")


def _parts(content: Value, key: str, guards: Guards, around: tuple[Value, ...], given: Value | None) -> Iterator[Part]:
    """The parts of what is written under a key; not of one of the containers ``around`` it, which may hold itself."""
    given = given or (content if isinstance(content, Choice) else None)
    for more, option in alternatives(content):
        if any(option is each for each in around):
            continue
        if isinstance(option, Table) or (isinstance(option, Items) and option.items):
            for name, value in _held(option, key):
                yield from _parts(value, name, guards + more, (*around, option), given)
        elif not isinstance(option, Absent):
            yield Part(key, option, guards + more, given or option)


def _held(container: Table | Items, key: str) -> Iterator[tuple[str, Value]]:
    """What a container under a key holds, each with its own key."""
    if isinstance(container, Items):
        yield from ((key, item) for item in container.items)
        return
    for name, value in container.entries().items():
        yield (f"{key}.{name}" if key else str(name)), value
    rest = container.contents.get(Table.REST)
    if rest is not None and not isinstance(rest, Const):
        yield (f"{key}.*" if key else "*"), rest


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


def _is_state(value: Value) -> TypeGuard[Symbol]:
    return isinstance(value, Symbol) and value.name == "state_dict"


def _original(value: Value) -> Value:
    """What ``deepcopy(model).half()`` is a copy of."""
    while isinstance(value, Symbol) and value.inputs and value.name in (*graph.SELF_RETURNING, "copy.deepcopy"):
        value = value.inputs[0]
    return value


def _key_of(sources: list[Value], result: Value) -> str:
    """The key in ``checkpoint["model"]`` or ``checkpoint.get("model")``, among the values a state comes from."""
    for source in sources:
        if isinstance(source, Symbol) and len(source.inputs) > 1 and source.inputs[0] is result:
            index = source.inputs[1]
            if source.name in ("item", ".get", ".pop") and isinstance(index, Const) and isinstance(index.value, str):
                return index.value
    return ""


def _is_all_read(state: Value, results: set[int], steps: int = 8) -> bool:
    """Whether a state comes from a file whichever of several things it is: read here, or by another of torch's."""
    for _, option in alternatives(state):
        option = states.merged_into(option) or option
        while id(option) not in results and _is_taken_of(option):
            option = option.inputs[0]
        if isinstance(option, Choice) and steps and _is_all_read(option, results, steps - 1):
            continue
        if id(option) not in results and not (is_loader(option) and _maker(option).startswith("torch.")):
            return False
    return True


def _is_taken_of(value: Value) -> TypeGuard[Symbol]:
    """Whether a value is an entry of another, or that one itself; what may be a default of the call's is not."""
    if not isinstance(value, Symbol) or not value.inputs:
        return False
    if value.name in (".get", ".pop"):
        default = value.arguments.get(1, "default") if value.arguments is not None else None
        return default is None or isinstance(default, Const)
    return value.name == "item" or value.name in graph.SELF_RETURNING


def is_loader(value: Value) -> bool:
    """Whether a value is what a call returned that reads a file, or what is not on this machine yet, by its name."""
    last = _maker(value).rpartition(".")[2]
    return last.startswith("load") or "download" in last


def _maker(value: Value) -> str:
    """The name of what returned a value; empty if that is not known."""
    return value.name if isinstance(value, Symbol) else value.library_name if isinstance(value, Instance) else ""


def key_loaded(call: ast.Call) -> str:
    """The key in ``load_state_dict(checkpoint["optimizer"])``; empty if none is written there."""
    argument = call.args[0] if call.args else None
    index: ast.expr | None = None
    if isinstance(argument, ast.Subscript):
        index = argument.slice
    elif isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute) and argument.func.attr == "get":
        index = argument.args[0] if argument.args else None
    return index.value if isinstance(index, ast.Constant) and isinstance(index.value, str) else ""


def keys_read(read: StateRead) -> set[str]:
    """The keys that are looked up in what was read: ``checkpoint["epoch"]``."""
    items = read.result.attributes.values() if isinstance(read.result, Symbol) else ()
    options = [option for item in items for _, option in alternatives(item)]
    found = [option.detail for option in options if isinstance(option, Symbol) and option.name == "item"]
    written = keys_written(read.site.node, read.site.module) if isinstance(read.site.node, ast.Call) else frozenset()
    return {key for key in found if isinstance(key, str)} | written


def keys_needed(read: StateRead) -> set[str]:
    """The keys that are looked up in what was read, and without which that fails: no `get`, and no test before."""
    site = read.site
    return set(keys_written(site.node, site.module, needed=True)) if isinstance(site.node, ast.Call) else set()


def is_same_path(left: Value | None, right: Value | None) -> bool:
    """Whether two paths are made of the same texts (``f"g_{epoch}.pt"``, of any epoch) or of the same settings."""
    if left is None or right is None:
        return False
    if left is right and not isinstance(left, Const):
        return True
    files = [_setting_of_file(path) for path in (left, right)]
    if all(files) and files[0] != files[1]:
        return False  # two settings name two files of one folder
    texts = [text for text in path_texts(left) if not text.startswith("<")]
    if texts != [text for text in path_texts(right) if not text.startswith("<")]:
        return False
    return any(_is_telling(text) for text in texts) or (not texts and path_texts(left) == path_texts(right) != [])


def _setting_of_file(path: Value) -> list[str]:
    """The name of the setting that is all of a path's last part: ``folder / args.name``."""
    is_joined = isinstance(path, Symbol) and path.name in ("os.path.join", "/") and len(path.inputs) > 1
    last = path.inputs[-1] if isinstance(path, Symbol) and is_joined else None
    is_setting = isinstance(last, Setting) or (isinstance(last, Symbol) and last.name == "attribute")
    return path_texts(last)[-1:] if is_setting else []


def _is_telling(text: str) -> bool:
    """Whether a text is more than the extension of a file name and places to fill in."""
    return len(re.findall(r"\w", re.sub(r"\.\w+$|%\w|\{.*?\}", "", text))) > 2


def path_pattern(path: Value | None) -> str:
    """A path with `*` for what is not known of it; settings stand for their defaults."""
    if isinstance(path, Const):
        return path.value if isinstance(path.value, str) else "*"
    if isinstance(path, Setting):
        return path_pattern(path.default)
    if isinstance(path, Instance):
        return "/".join(map(path_pattern, path.arguments.positional)) or "*"
    if not isinstance(path, Symbol) or path.name not in _JOINED:
        return "*"
    inputs = path.inputs[:1] if path.name in (".format", "%") else path.inputs
    return _JOINED[path.name].join(map(path_pattern, inputs)) or "*"


_JOINED = {"os.path.join": "/", "/": "/", "+": "", "format": "", ".format": "", "%": "", "str": ""}


def path_numbers(path: Value | None) -> list[int]:
    """The constant numbers that are filled into a path."""
    if isinstance(path, Const):
        return [path.value] if isinstance(path.value, int) else []
    return [number for part in graph.inputs_of(path) for number in path_numbers(part)] if path is not None else []


def path_texts(path: Value | None) -> list[str]:
    """The constant texts that a path is made of, and the names of the settings in it, as ``<name>``."""
    if isinstance(path, Const):
        return [path.value] if isinstance(path.value, str) else []
    if isinstance(path, Setting):
        return [f"<{path.name}>"]
    if isinstance(path, Symbol) and path.name in ("attribute", "parameter", "item"):
        return [f"<{path.detail}>"]
    return [text for part in graph.inputs_of(path) for text in path_texts(part)] if path is not None else []
