"""Observes what libraries do that train with torch, once the script has imported them: how Accelerate and the
distributed checkpoints of torch save and load, what the autoencoders of diffusers make, and the trainers of trl."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any
from weakref import WeakKeyDictionary, ref

from torch import nn

from dllint.confirm.inside.importing import after_import
from dllint.confirm.inside.patching import beginning, ended, observe
from dllint.confirm.inside.run import Run
from dllint.confirm.inside.stacks import stack

_TRAINERS = ("sft", "dpo", "kto", "reward", "grpo", "rloo", "orpo", "cpo")


def observe_all(run: Run) -> None:
    """Observe them as soon as they are there."""
    after_import("accelerate.accelerator", lambda: run.guard(_observe_accelerate, run))
    after_import("torch.distributed.checkpoint", lambda: run.guard(_observe_sharded, run))
    after_import("diffusers.models.autoencoders", lambda: run.guard(_observe_autoencoders, run))
    for name in _TRAINERS:
        after_import(f"trl.trainer.{name}_trainer", functools.partial(run.guard, _observe_trainer, run, name))


def _observe_accelerate(run: Run) -> None:
    accelerator = sys.modules["accelerate.accelerator"].Accelerator
    observe(run, accelerator, "save_state", before=beginning(run, "accelerator_save"))


def _observe_sharded(run: Run) -> None:
    module = sys.modules["torch.distributed.checkpoint"]
    for name in ("load", "load_state_dict"):
        observe(run, module, name, after=ended(run, "sharded_read"))


def _observe_autoencoders(run: Run) -> None:
    """Observe latents that are drawn, and know the autoencoder by the distribution that it has returned."""
    makers: WeakKeyDictionary[Any, ref[nn.Module]] = WeakKeyDictionary()

    def encoded(result: Any, vae: nn.Module, *_: Any, **__: Any) -> None:
        distribution = result[0] if isinstance(result, tuple) else getattr(result, "latent_dist", None)
        if distribution is not None:
            makers[distribution] = ref(vae)

    def drawn(latents: Any, distribution: Any, *_: Any, **__: Any) -> None:
        maker = makers.get(distribution)
        run.tell("latents", latents, maker() if maker is not None else None, stack())

    kinds = [kind for kind in vars(sys.modules["diffusers.models.autoencoders"]).values() if inspect.isclass(kind)]
    for kind in kinds:
        if issubclass(kind, nn.Module) and "encode" in vars(kind):
            observe(run, kind, "encode", after=encoded)
    distributions = sys.modules.get("diffusers.models.autoencoders.vae")
    for name in ("sample", "mode"):
        observe(run, getattr(distributions, "DiagonalGaussianDistribution", None), name, after=drawn)


def _observe_trainer(run: Run, name: str) -> None:
    """Observe how a trainer is made, and why it cannot be, or cannot train."""
    module = sys.modules[f"trl.trainer.{name}_trainer"]
    kind = getattr(module, f"{name.title() if name == 'reward' else name.upper()}Trainer", None)
    if kind is None:
        return
    signature = inspect.signature(kind.__init__)

    def tell(error: Exception | None, *arguments: Any, **named: Any) -> None:
        given = signature.bind_partial(*arguments, **named).arguments
        run.tell("trainer", arguments[0], given.get("train_dataset"), error, stack())

    def failed(error: Exception, trainer: Any, *_: Any, **__: Any) -> None:
        run.tell("trainer", trainer, None, error, stack())

    observe(run, kind, "__init__", after=tell, failed=tell)
    observe(run, kind, "train", failed=failed)
