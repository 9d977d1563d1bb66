"""Observes what libraries do that train with torch, once the script has imported them: how Accelerate and the
distributed checkpoints of torch save and load, what the autoencoders of diffusers make, and the trainers of trl."""

from __future__ import annotations

import inspect
import sys
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, ref

from torch import nn

from dllint.confirm.inside.patching import beginning, ended, observe, when_imported
from dllint.confirm.inside.run import Run
from dllint.confirm.inside.stacks import stack

_TRAINERS = ("SFT", "DPO", "KTO", "Reward", "GRPO", "RLOO", "ORPO", "CPO")


def observe_all(run: Run) -> None:
    """Observe them as soon as they are there."""
    when_imported(run, "accelerate.accelerator", _observe_accelerate)
    when_imported(run, "torch.distributed.checkpoint", _observe_sharded)
    when_imported(run, "diffusers.models.autoencoders", _observe_autoencoders)
    for name in _TRAINERS:
        when_imported(run, f"trl.trainer.{name.lower()}_trainer", partial(_observe_trainer, name))


def _observe_accelerate(run: Run, module: Any) -> None:
    observe(run, module.Accelerator, "save_state", before=beginning(run, "accelerator_save"))


def _observe_sharded(run: Run, module: Any) -> None:
    for name in ("load", "load_state_dict"):
        observe(run, module, name, after=ended(run, "sharded_read"))


def _observe_autoencoders(run: Run, module: Any) -> None:
    """Observe latents that are drawn, and know the autoencoder by the distribution that it has returned."""
    makers: WeakKeyDictionary[Any, ref[nn.Module]] = WeakKeyDictionary()

    def encoded(result: Any, vae: nn.Module, *_: Any, **__: Any) -> None:
        distribution = result[0] if isinstance(result, tuple) else getattr(result, "latent_dist", None)
        if distribution is not None:
            makers[distribution] = ref(vae)

    def drawn(latents: Any, distribution: Any, *_: Any, **__: Any) -> None:
        maker = makers.get(distribution)
        run.tell("latents", latents, maker() if maker is not None else None, stack())

    for kind in vars(module).values():
        if inspect.isclass(kind) and issubclass(kind, nn.Module) and "encode" in vars(kind):
            observe(run, kind, "encode", after=encoded)
    distributions = sys.modules.get("diffusers.models.autoencoders.vae")
    for name in ("sample", "mode"):
        observe(run, getattr(distributions, "DiagonalGaussianDistribution", None), name, after=drawn)


def _observe_trainer(name: str, run: Run, module: Any) -> None:
    """Observe how a trainer is made, and why it cannot be, or cannot train."""
    kind = getattr(module, f"{name}Trainer", None)
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
