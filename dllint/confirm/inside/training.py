"""Observes what trains: backward passes, optimizers, schedulers, scalers, clipping, and what ranks do together, so that
dllint can tell after the run whether all of them did the same."""

from __future__ import annotations

import inspect
import math
import sys
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer, lr_scheduler

from dllint import events
from dllint.confirm.evidence import Stack
from dllint.confirm.inside.patching import ended, observe, replace
from dllint.confirm.inside.run import Run
from dllint.confirm.inside.stacks import Place, calling_module, here, stack, stack_of
from dllint.confirm.probes.events import BackwardCall
from dllint.values import Arguments

_NOWHERE = Place(())  # before a step, nobody asks where it is
_CLIPPING = ("clip_grad_norm_", "clip_grad_value_")
_ALIKE = ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor")  # of the same size on all ranks
_OTHERS = ("all_to_all", "all_to_all_single", "barrier", "gather", "reduce_scatter", "reduce_scatter_tensor", "scatter")
_MOST = 1000  # collective operations


def observe_all(run: Run) -> None:
    _observe_backward(run)
    _observe_optimizers(run)
    _observe_clipping(run)
    _observe_schedulers(run)
    _observe_scalers(run)
    _observe_ranks(run)


def _observe_backward(run: Run) -> None:
    is_inside = getattr(torch._C, "_current_graph_task_id", lambda: -1)

    def backward(original: Any, *arguments: Any, **named: Any) -> Any:
        if not run.is_listening or is_inside() != -1:
            return original(*arguments, **named)
        run.refuse_to_go_on()
        calls: list[BackwardCall] = []
        if not run.rests.are_on:
            run.guard(begin, calls, *arguments, **named)
        original(*arguments, **named)
        if run.is_listening:
            if calls:
                run.guard(run.emit, calls[0])
            run.count_backward()

    def begin(calls: list[BackwardCall], tensors: Any, grad_tensors: Any = None, *_: Any, **__: Any) -> None:
        roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        loss = roots[0] if len(roots) == 1 else None
        call = here(BackwardCall, loss, roots=roots, factor=_factor(grad_tensors), batches=run.feed.train())
        calls.append(call)
        run.mark("backward")
        run.emit(call, before=True)

    replace(torch.autograd, "backward", backward)


def _factor(gradient: Any) -> float:
    """What a gradient argument multiplies by: 1 where there is none, ``nan`` where it is no single number."""
    first = gradient[0] if isinstance(gradient, (list, tuple)) and len(gradient) == 1 else gradient
    if first is None:
        return 1.0
    return float(first) if isinstance(first, Tensor) and first.numel() == 1 else math.nan


def _observe_optimizers(run: Run) -> None:
    makers: set[Stack] = set()  # of optimizers
    hooks = sys.modules["torch.optim.optimizer"]  # in torch 2.13 no attribute of torch.optim

    def made(_: None, optimizer: Optimizer, *__: Any, **___: Any) -> None:
        event = here(events.OptimizerCreated, optimizer, None)
        run.see(f"optimizer {type(optimizer).__name__}", stack_of(event))
        run.emit(event)
        if stack_of(event) not in makers:
            makers.add(stack_of(event))
            run.look_at_new()

    def start(optimizer: Optimizer, *_: Any) -> None:
        run.refuse_to_go_on()
        if run.is_listening and not run.rests.are_on:
            run.guard(run.emit, events.OptimizerStep(_NOWHERE, optimizer), before=True)

    def end(optimizer: Optimizer, *_: Any) -> None:
        if run.is_listening:
            if run.rests.are_on:
                run.pass_over(optimizer)
            else:
                run.guard(_step_end, optimizer)
            run.end_round()
            run.keep_to_budget()

    def _step_end(optimizer: Optimizer) -> None:
        run.mark("step")
        run.emit(here(events.OptimizerStep, optimizer))
        run.count_step(optimizer)

    def cleared(_: Any, owner: Optimizer | nn.Module, *__: Any, **___: Any) -> None:
        run.mark("zero_grad")
        run.emit(here(events.ZeroGrad, owner))

    observe(run, Optimizer, "__init__", after=made)
    observe(run, Optimizer, "zero_grad", after=cleared, told="awake")
    observe(run, nn.Module, "zero_grad", after=cleared, told="awake")
    hooks.register_optimizer_step_pre_hook(start)
    hooks.register_optimizer_step_post_hook(end)


def _observe_clipping(run: Run) -> None:
    def clip(original: Any, parameters: Any, *arguments: Any, **named: Any) -> Any:
        is_awake = run.is_listening and not run.rests.are_on
        if is_awake and not isinstance(parameters, Tensor) and run.is_due(sys._getframe(2)):
            listed = list(parameters)
            run.guard(clipping, listed, original.__name__)
            parameters = (parameter for parameter in listed)  # as torch warns only of generators that are empty
        return original(parameters, *arguments, **named)

    def clipping(parameters: list[Tensor], name: str) -> None:
        run.mark("clip")
        run.emit(here(events.GradientClip, parameters, f"torch.nn.utils.{name}"))

    for name in _CLIPPING:
        replace(torch.nn.utils.clip_grad, name, clip)
        setattr(torch.nn.utils, name, getattr(torch.nn.utils.clip_grad, name))


def _observe_schedulers(run: Run) -> None:
    def stepped(_: Any, scheduler: Any, *arguments: Any, **named: Any) -> None:
        if calling_module() == lr_scheduler.__name__:
            return  # made by the constructor, or by a scheduler that is made of others
        run.mark("scheduler")
        event = here(events.SchedulerStep, scheduler, Arguments[Any](arguments, named))
        run.see(f"scheduler {type(scheduler).__name__}", stack_of(event))
        run.emit(event)

    def plateau(scheduler: Any, metrics: Any = None, *_: Any, **__: Any) -> None:
        is_number = isinstance(metrics, (int, float)) or (isinstance(metrics, Tensor) and metrics.numel() == 1)
        run.tell("plateau", scheduler, float(metrics) if is_number else None, stack())

    def asked(rates: Any, scheduler: Any) -> None:
        place = stack()
        inside = calling_module() == lr_scheduler.__name__ or (place and place[0].function in ("get_lr", "step"))
        if not inside and isinstance(rates, list):
            run.tell("rates_asked", scheduler, [float(rate) for rate in rates], place)

    waiting = lr_scheduler.ReduceLROnPlateau
    for kind in list(vars(lr_scheduler).values()):
        if inspect.isclass(kind) and issubclass(kind, lr_scheduler.LRScheduler):
            if "step" in vars(kind):
                observe(run, kind, "step", before=plateau if kind is waiting else None, after=stepped)
            if "get_lr" in vars(kind):
                observe(run, kind, "get_lr", after=asked)


def gradient_scaler() -> type[Any]:
    """The class of gradient scalers: that of all devices, which torch has from 2.3 on, else that of GPUs."""
    return getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler


def _observe_scalers(run: Run) -> None:
    scaler = gradient_scaler()

    def scaled(result: Any, owner: Any, *_: Any, **__: Any) -> None:
        if isinstance(result, Tensor):
            run.tell("scale", owner, result)

    def unscaled(_: None, owner: Any, optimizer: Optimizer) -> None:
        run.mark("unscale")
        run.emit(here(events.ScalerUnscale, owner, optimizer))

    def updated(_: None, owner: Any, *__: Any, **___: Any) -> None:
        run.mark("scaler update")
        run.emit(here(events.ScalerUpdate, owner))

    observe(run, scaler, "scale", after=scaled, told="awake")
    observe(run, scaler, "unscale_", after=unscaled, told="awake")
    observe(run, scaler, "step", before=lambda *_, **__: run.mark("scaler step"))
    observe(run, scaler, "update", after=updated)


def _observe_ranks(run: Run) -> None:
    """Observe what all ranks do together (what some of them do is left alone), and models that are wrapped for it."""
    if dist.is_available():
        for name in (*_ALIKE, *_OTHERS):
            if hasattr(dist, name):
                observe(run, dist, name, before=partial(_note, run, name, inspect.signature(getattr(dist, name))))
    observe(run, DistributedDataParallel, "__init__", after=ended(run, "replicate"))


def _note(run: Run, name: str, signature: inspect.Signature, /, *arguments: Any, **named: Any) -> None:
    given = signature.bind(*arguments, **named).arguments
    if len(run.record.collectives) < _MOST and given.get("group") in (None, dist.group.WORLD):
        tensor = next((value for value in given.values() if isinstance(value, Tensor)), None)
        size = f" of {list(tensor.shape)}" if name in _ALIKE and tensor is not None else ""
        run.record.collectives.append(name + size)
