"""The vocabulary: what happens in a training program, told the same way by the interpreter and by a real run.

The interpreter emits these events about abstract values (:mod:`dllint.values`), the confirmer about real objects, and
rules and probes are written against them. This module imports nothing but the values.

Rules receive events through hooks named after them in snake case (``on_loss_call`` for :class:`LossCall`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Generic, Literal

from dllint.dataclass import dataclass
from dllint.sites import Guards, Site
from dllint.terms import Framework
from dllint.values import Arguments, Function, V, Value


@dataclass(slots=True, eq=False)
class Frame:
    """An activation of a function while the program is interpreted.

    ``owner`` is the class name for a method. ``framework`` names the framework whose duties cover this code
    (``lightning``, ``hf-trainer``, …), or is empty. ``call`` is where it was called, in the frame ``caller``;
    ``definition`` is where the function is defined; ``receiver`` is the object whose method it is.
    """

    function: str
    owner: str = ""
    framework: Framework = ""
    call: Site | None = None
    caller: Frame | None = None
    definition: Site | None = None
    receiver: Value | None = None

    def stack(self) -> Iterator[Frame]:
        """This frame and its callers, innermost first."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.caller

    @property
    def scope(self) -> str:
        """``Class.method`` or ``function``; empty at module level."""
        return f"{self.owner}.{self.function}" if self.owner else self.function


_NOWHERE = Frame("")


@dataclass(slots=True, eq=False)
class Event:
    """Something that happens at ``site``.

    ``grad`` is ``on``, ``off`` or ``unknown``; ``contexts`` names the ``with`` blocks around it that matter
    (``autocast``, ``no_sync``, ``accumulate``); ``guards`` are the conditions on the way to it.
    """

    site: Site
    frame: Frame = field(default=_NOWHERE, kw_only=True)
    grad: str = field(default="on", kw_only=True)
    contexts: frozenset[str] = field(default=frozenset(), kw_only=True)
    guards: Guards = field(default=(), kw_only=True)


@dataclass(slots=True, eq=False)
class LibraryCall(Event, Generic[V]):
    """A call of a library function or class that has no event of its own. ``result`` is the value it returned."""

    name: str
    arguments: Arguments[V]
    result: V


@dataclass(slots=True, eq=False)
class LossCall(Event, Generic[V]):
    """A loss is computed. ``loss`` is the canonical name of the function (``torch.nn.functional.cross_entropy``).

    ``options`` binds the loss's other arguments by name (``ignore_index``, ``reduction``), whether they were given to
    the function or to the loss object. ``criterion`` is that object, or ``None`` for the functional form.
    """

    loss: str
    input: V | None
    target: V | None
    options: dict[str, V]
    criterion: V | None
    result: V

    @property
    def function(self) -> str:
        """The name without that of its module."""
        return self.loss.rpartition(".")[2]


@dataclass(slots=True, eq=False)
class ModelForward(Event, Generic[V]):
    """A module is called. ``result`` is what the call returns."""

    model: V
    arguments: Arguments[V]
    result: V


@dataclass(slots=True, eq=False)
class Backward(Event, Generic[V]):
    """Gradients of ``loss`` are computed. ``scaler`` is what scaled it, if anything; ``via`` names the helper."""

    loss: V | None
    scaler: V | None = None
    via: str = ""


@dataclass(slots=True, eq=False)
class ZeroGrad(Event, Generic[V]):
    """Gradients are cleared, of an optimizer's parameters or of a module's. ``sets_to_none`` is ``None`` if unknown."""

    target: V
    sets_to_none: bool | None = True


@dataclass(slots=True, eq=False)
class OptimizerCreated(Event, Generic[V]):
    """An optimizer is built over ``parameters`` (any value that leads to parameters)."""

    optimizer: V
    parameters: V | None


@dataclass(slots=True, eq=False)
class ParametersAdded(Event, Generic[V]):
    """Further parameters are given to an optimizer (``add_param_group``)."""

    optimizer: V
    parameters: V | None


@dataclass(slots=True, eq=False)
class OptimizerStep(Event, Generic[V]):
    """An optimizer updates its parameters. ``scaler`` is set when the step goes through a gradient scaler."""

    optimizer: V
    scaler: V | None = None


@dataclass(slots=True, eq=False)
class ParametersUpdated(Event, Generic[V]):
    """Parameters are updated by hand (``p.data -= lr * p.grad``), without an optimizer."""

    target: V


@dataclass(slots=True, eq=False)
class SchedulerCreated(Event, Generic[V]):
    """A learning-rate scheduler is built for ``optimizer``."""

    scheduler: V
    optimizer: V | None


@dataclass(slots=True, eq=False)
class SchedulerStep(Event, Generic[V]):
    """A learning-rate scheduler takes a step."""

    scheduler: V
    arguments: Arguments[V]


@dataclass(slots=True, eq=False)
class GradientClip(Event, Generic[V]):
    """Gradients are clipped to ``limit``. ``target`` leads to the parameters; ``function`` names what clips them."""

    target: V | None
    function: str
    limit: V | None = None


@dataclass(slots=True, eq=False)
class ScalerUnscale(Event, Generic[V]):
    """A gradient scaler unscales the gradients of ``optimizer``."""

    scaler: V
    optimizer: V | None


@dataclass(slots=True, eq=False)
class ScalerUpdate(Event, Generic[V]):
    """A gradient scaler adapts its scale."""

    scaler: V


@dataclass(slots=True, eq=False)
class ModeChange(Event, Generic[V]):
    """A module is put into training (``training`` true) or evaluation mode; ``None`` when the mode is not known."""

    model: V
    training: bool | None


@dataclass(slots=True, eq=False)
class LoaderCreated(Event, Generic[V]):
    """A data loader is built. ``options`` binds its arguments by name."""

    loader: V
    dataset: V | None
    options: dict[str, V]


@dataclass(slots=True, eq=False)
class TransformsComposed(Event, Generic[V]):
    """A pipeline of transforms is built from ``items`` (``None`` when the list is not known)."""

    composition: V
    items: tuple[V, ...] | None


@dataclass(slots=True, eq=False)
class DatasetCreated(Event, Generic[V]):
    """A dataset is built, of a library class or of a project class that derives from one."""

    dataset: V
    arguments: Arguments[V]


@dataclass(slots=True, eq=False)
class EpochSet(Event, Generic[V]):
    """``set_epoch`` is called on a sampler, dataset or loader."""

    target: V


@dataclass(slots=True, eq=False)
class RandomSeeded(Event, Generic[V]):
    """A random generator is seeded by ``function`` with ``seed``."""

    function: str
    seed: V | None


@dataclass(slots=True, eq=False)
class AttributeAssigned(Event, Generic[V]):
    """``target.attribute = value`` where the target is a module, parameter, optimizer or unknown object."""

    target: V
    attribute: str
    value: V


@dataclass(slots=True, eq=False)
class StateTaken(Event, Generic[V]):
    """``state_dict()`` is called on ``target``; ``state`` is what it returned, which shares memory with the target."""

    target: V
    state: V


@dataclass(slots=True, eq=False)
class StateSaved(Event, Generic[V]):
    """A checkpoint is written. ``content`` is what is saved, ``path`` where."""

    content: V | None
    path: V | None
    function: str


@dataclass(slots=True, eq=False)
class StateRead(Event, Generic[V]):
    """A checkpoint is read from ``path``; ``result`` is its content."""

    path: V | None
    result: V


@dataclass(slots=True, eq=False)
class StateRestored(Event, Generic[V]):
    """``load_state_dict`` is called on ``target`` with ``state``."""

    target: V
    state: V | None
    arguments: Arguments[V]


@dataclass(slots=True, eq=False)
class ModelChanged(Event, Generic[V]):
    """A module changes in a way that may replace its parameters: ``action`` names it (``to``, ``fully_shard``, …)."""

    model: V
    action: str
    arguments: Arguments[V]
    result: V


@dataclass(slots=True, eq=False)
class OpaqueCall(Event, Generic[V]):
    """An unresolved call received ``values`` that matter (an optimizer, a loss, a model): anything may have happened.

    ``receiver`` is the object whose unresolved method was called, if it was a method.
    """

    values: tuple[V, ...]
    name: str = ""
    receiver: V | None = None


Misfit = Literal["missing", "unknown", "twice", "surplus"]


@dataclass(slots=True, eq=False)
class CallRefused(Event):
    """Python refuses a call of a project ``function``: the arguments do not fit its parameters.

    ``names`` are the parameters that are ``missing`` or given ``twice``, or the keywords that are ``unknown``; a
    ``surplus`` of arguments has none.
    """

    function: Function
    misfit: Misfit
    names: tuple[str, ...]


@dataclass(slots=True, eq=False)
class UnpackingRefused(Event, Generic[V]):
    """Python refuses to unpack a ``value`` into ``count`` variables: it has one of some numbers of ``parts``.

    There are none where it is what a function gives that returns nothing; the count is 0 where an item of that is read.
    """

    value: V
    count: int
    parts: tuple[int, ...]


Absence = Literal["unbound", "early", "main", "module", "object", "import", "nothing", "library"]


@dataclass(slots=True, eq=False)
class NameMissing(Event):
    """Code reads a ``name`` that is not there, so that Python raises.

    ``absence`` tells how: nothing binds it (``unbound``); a function binds it later, or in another arm (``early``); its
    file binds it only when it is run itself (``main``); a file of the project has no such name, where it is read from
    it (``module``) or imported (``import``); an ``object`` of a class of the project has no such attribute; it is read
    of what a function gives that returns ``nothing``; or of a list, or a function that has the name of its module
    (``library``). ``lacking`` is where that file, function or class begins, or what the name stands for is made or
    imported, and ``owner`` is its name.
    """

    name: str
    absence: Absence
    owner: str
    lacking: Site


@dataclass(slots=True, eq=False)
class OptionMissing(Event):
    """Code reads an option ``name`` of a command line, which the parser asked at ``parsed`` does not have."""

    name: str
    parsed: Site


def name_of(kind: type[Event]) -> str:
    """The name of an event in hooks: that of its class here, in snake case (``loss_call``)."""
    known: str = next(each.__name__ for each in kind.__mro__ if each.__module__ == __name__)
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in known).lstrip("_")
