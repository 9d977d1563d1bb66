"""Observes libraries around torch, once the script has imported them: how Accelerate and the distributed checkpoints of
torch save and load, what the autoencoders of diffusers make, the trainers of trl, environments of gymnasium, and agents
of Stable-Baselines3. The epochs of Lightning are ended early."""

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
    when_imported(run, "gymnasium.wrappers", _observe_environments)
    when_imported(run, "stable_baselines3", _observe_agents)
    for name in _TRAINERS:
        when_imported(run, f"trl.trainer.{name.lower()}_trainer", partial(_observe_trainer, name))
    if run.settings.epoch_batches and run.settings.mode != "overfit":
        for package in ("lightning.pytorch", "pytorch_lightning"):
            when_imported(run, f"{package}.loops.fit_loop", _end_epochs)


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


def _observe_environments(run: Run, module: Any) -> None:
    """Observe environments that ``gymnasium.make`` makes."""

    def stepped(outcome: Any, environment: Any, *_: Any, **__: Any) -> None:
        if isinstance(outcome, tuple) and len(outcome) == 5:
            run.tell("reward", environment, float(outcome[1]), bool(outcome[2]))

    kind = getattr(module, "OrderEnforcing", None)  # which is around each of them
    observe(run, kind, "step", after=stepped)
    observe(run, kind, "reset", after=ended(run, "episode"))


def _observe_agents(run: Run, _: Any) -> None:
    """Observe agents that learn and are saved, and what normalizes their observations."""
    agents = sys.modules.get("stable_baselines3.common.base_class")
    normalizers = sys.modules.get("stable_baselines3.common.vec_env.vec_normalize")

    base = getattr(agents, "BaseAlgorithm", None)
    observe(run, base, "save", after=ended(run, "agent_saved"))
    for kind in _kinds(base):
        if "learn" in vars(kind):
            observe(run, kind, "learn", before=beginning(run, "agent_learns"))
    normalizer = getattr(normalizers, "VecNormalize", None)
    observe(run, normalizer, "set_venv", after=ended(run, "normalizer", "restored"))  # which loading one calls
    observe(run, normalizer, "save", after=ended(run, "normalizer", "saved"))
    observe(run, normalizer, "step_wait", after=ended(run, "normalizer", "used"))


def _kinds(base: type[Any] | None) -> list[type[Any]]:
    """A class and all that extend it."""
    return [] if base is None else [base, *(kind for each in base.__subclasses__() for kind in _kinds(each))]


def _end_epochs(run: Run, module: Any) -> None:
    """End the epochs of Lightning early in a way that it takes for their end: it counts batches itself, and neither
    validates nor steps schedulers after an epoch whose loader stops before its time."""
    limit = run.settings.epoch_batches

    def prepared(_: None, loop: Any, *__: Any, **___: Any) -> None:
        trainer = loop.trainer
        if isinstance(trainer.val_check_batch, int) and trainer.check_val_every_n_epoch is not None:
            trainer.val_check_batch = min(trainer.val_check_batch, limit)

    def begun(_: Any, fetcher: Any, *__: Any, **___: Any) -> None:
        trains = getattr(fetcher.combined_loader, "_mode", "sequential") != "sequential"
        if trains and fetcher.length is not None:  # the length of the loader stays as it is: schedules are made for it
            fetcher.length = min(fetcher.length, limit)

    observe(run, getattr(module, "_FitLoop", None), "setup_data", after=prepared)
    fetchers = sys.modules.get(module.__name__.replace("fit_loop", "fetchers"))
    observe(run, getattr(fetchers, "_PrefetchDataFetcher", None), "__iter__", after=begun)
