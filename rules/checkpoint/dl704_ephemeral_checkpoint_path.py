"""A checkpoint in a folder that goes with the machine: `/tmp`, `/dev/shm`, `/content` of Colab, a temporary folder.

What is in memory or on the disk of a rented machine, of a container or of a notebook is gone when that is replaced,
and so is the run that was to go on from there.

Measured on torch 2.13: a checkpoint in a `tempfile.TemporaryDirectory()` is gone after its `with`; one of 16 MB takes
16 MB of memory in `/dev/shm`, of which a container of Docker has 64 MB by default.

## Bad
    for epoch in range(epochs):
        train(model, loader, optimizer)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, "/tmp/last.pt")

## Good
    for epoch in range(epochs):
        train(model, loader, optimizer)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, os.path.join(args.output_dir, "last.pt"))

## Not reported
Off by default: only the user knows what outlives the machine. Not reported at all are files that are copied or
uploaded, those that the same run reads back or deletes, a mounted drive (`/content/drive`), and programs that train
nothing.

## On real code
656 public repositories: no finding. A notebook that saves below `/content` does so on a mounted drive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dllint.api import Context, Finding, Program, Rule, Saved, Symbol, Value, path_pattern

_PASSING = re.compile(r"/(tmp|var/tmp|dev/shm|content(?!/\w*drive\b)|kaggle/temp|scratch/local)(/|$)")
_COPYING = (
    r"\bshutil\w*\.(copy|move)|upload|rsync|gsutil|\bs3\b|boto3|push_to_hub|log_artifact|log_model|wandb\.save|\bscp\b|"
    r"\bgdown\b|copytree|copyfile|azcopy|rclone|files\.download|gfile"
)
_REMOVING = r"\bos\.(remove|unlink)\(|\.unlink\(|rmtree\(|getsize\("


def brought_elsewhere(saved: Saved, ctx: Context) -> bool:
    """code of the project copies or uploads files"""
    return ctx.project_mentions(_COPYING, where="related")


def read_back(saved: Saved, ctx: Context) -> bool:
    """the same run reads it back"""
    reads = (read for read, _ in ctx.readers(saved))
    return any(ctx.position(read) > ctx.position(saved.event) for read in reads)


def thrown_away(saved: Saved, ctx: Context) -> bool:
    """files are deleted, or only measured"""
    return ctx.project_mentions(_REMOVING, where="here")


class EphemeralCheckpointPath(Rule):
    code = "DL704"
    name = "ephemeral-checkpoint-path"
    category = "suspicious"
    severity = "info"
    default = False
    triggers = (("save",), ("step",))
    confirmable = True
    references = ("https://docs.docker.com/engine/storage/tmpfs/",)

    excuses = (read_back, thrown_away, brought_elsewhere)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for saved in ctx.checkpoints.saved if ctx.steps() else ():
            folder = _passing_folder(saved.event.path, ctx)
            states = [part for part in saved.parts if ctx.checkpoints.kind(part.value) in ("module", "optimizer")]
            if not folder or not states or ctx.excused(self, saved):
                continue
            yield ctx.finding(
                self,
                saved.event,
                f"the checkpoint goes to {folder}, which does not outlive the machine",
                on=[saved.event.path, states[0].given],
                effect="a run that is interrupted finds nothing to go on from, and the weights are lost",
                help="save to a folder that stays, such as a mounted volume, or copy it there",
            )


def _passing_folder(path: Value | None, ctx: Context) -> str:
    """The folder that a path leads to, if it is gone with the machine or with the run; else nothing."""
    found = _PASSING.match(path_pattern(path))
    if found is not None:
        return f"`/{found.group(1)}`"
    sources = ctx.sources(path) if path is not None else ()
    is_temporary = any(isinstance(each, Symbol) and each.name.startswith("tempfile.") for each in sources)
    return "a temporary folder" if is_temporary else ""
