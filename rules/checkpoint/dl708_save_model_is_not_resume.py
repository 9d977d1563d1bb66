"""A run of the `Trainer` that is meant to go on from a checkpoint, and starts again.

`TrainingArguments(resume_from_checkpoint=...)` is a note for the script: `train()` does not look at it. Only
`train(resume_from_checkpoint=...)` resumes. And what `save_model`, or `save_only_model=True`, leaves behind has no
optimizer and no scheduler in it: from there, a run cannot go on as it was.

Measured on transformers 5.23 (16 steps, rate .01, a checkpoint after 8): with the path in the arguments alone, the run
begins at step 0, at rate .01; with the path in `train`, at step 8, at .005, with the state of the optimizer. From a
checkpoint of `save_only_model=True` it begins at step 8, at .01, without any state. From a folder of `save_model`:
`FileNotFoundError`, for `trainer_state.json`.

## Bad
    args = TrainingArguments(output_dir="out", resume_from_checkpoint="out/checkpoint-500")
    trainer = Trainer(model=model, args=args, train_dataset=dataset)
    trainer.train()

## Good
    args = TrainingArguments(output_dir="out", resume_from_checkpoint="out/checkpoint-500")
    trainer = Trainer(model=model, args=args, train_dataset=dataset)
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)

## Not reported
Arguments whose `resume_from_checkpoint` other code reads; trainers whose `train` gets anything; arguments that are
parsed from the command line; folders whose names are computed.

## On real code
276 public repositories: no finding; few of them use these libraries to resume.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Const, Context, Finding, Instance, LibraryCall, ModeChange, OpaqueCall, Program, Rule

_ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig", "DPOConfig", "RewardConfig", "KTOConfig")
_RESUME = "resume_from_checkpoint"


# ------------------------------------------------------------------------------------------------- excuses


def is_read(made: LibraryCall, ctx: Context) -> bool:
    """some code reads `resume_from_checkpoint` of the arguments, or builds them of a dict"""
    return not made.arguments.exact or any(
        isinstance(node, ast.Attribute) and node.attr == _RESUME and not _is_among(node, made)
        for _, tree in ctx.trees(_RESUME)
        for node in ast.walk(tree)
    )


class SaveModelIsNotResume(Rule):
    code = "DL708"
    name = "save-model-is-not-resume"
    category = "correctness"
    severity = "error"
    triggers = ((_RESUME,), ("train",))
    references = ("https://huggingface.co/docs/transformers/main_classes/trainer#transformers.Trainer.train",)
    excuses = (is_read,)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        runs = [event for event in ctx.all_of(ModeChange) if _is_training_run(event, ctx)]
        for made in ctx.all_of(LibraryCall) if runs else ():
            if made.name.rpartition(".")[2] in _ARGUMENTS and not ctx.excused(self, made):
                yield from self._ignored(made, runs, ctx)
        for run in runs:
            yield from self._incomplete(run, ctx)

    def _ignored(self, made: LibraryCall, runs: list[ModeChange], ctx: Context) -> Iterator[Finding]:
        given = made.arguments.keywords.get(_RESUME)
        run = next((run for run in runs if ctx.reaches(run.model, made.result)), None)
        if given is None or (isinstance(given, Const) and not given.value):
            return
        if run is None or any(_resumed_from(each) is not None for each in runs):
            return
        yield ctx.finding(
            self,
            made,
            f"`train()` does not look at `{_RESUME}` of its arguments",
            on=[given, run],
            effect="the run starts from step 0, and overwrites the checkpoints that it was to go on from",
            help=f"pass it to `train`: `train({_RESUME}=...)`",
            trace=[(made.site, "is set here"), (run.site, "is called without it")],
        )

    def _incomplete(self, run: ModeChange, ctx: Context) -> Iterator[Finding]:
        """What a run goes on from, if it is the folder of a model that was saved for use."""
        start = _resumed_from(run)
        folder = start.value if isinstance(start, ast.Constant) and isinstance(start.value, str) else None
        for event in ctx.all_of(OpaqueCall) if folder is not None else ():
            call = event.site.node
            saved = call.args[0] if isinstance(call, ast.Call) and call.args else None
            is_same = isinstance(saved, ast.Constant) and saved.value == folder
            if is_same and event.name in ("save_model", "save_pretrained"):
                yield ctx.finding(
                    self,
                    run,
                    f"`{event.name}` leaves nothing in `{folder}` that a run can go on from",
                    on=[event],
                    effect="there is no optimizer, no scheduler and no `trainer_state.json`: the run fails",
                    help="resume from a `checkpoint-…` folder, or load the model and train without resuming",
                    trace=[(event.site, "writes the model alone"), (run.site, "resumes from there")],
                )


def _is_training_run(event: ModeChange, ctx: Context) -> bool:
    """Whether an event is `trainer.train(...)`, of a trainer of Hugging Face's."""
    trainer = event.model
    return isinstance(trainer, Instance) and any(
        base.startswith(("transformers.", "trl.")) and base.endswith("Trainer") for base in ctx.library_bases(trainer)
    )


def _resumed_from(run: ModeChange) -> ast.expr | None:
    """What `train` is given, by whatever name."""
    call = run.site.node
    if not isinstance(call, ast.Call):
        return None
    return next(iter((*call.args, *(keyword.value for keyword in call.keywords))), None)


def _is_among(node: ast.Attribute, made: LibraryCall) -> bool:
    """Whether an attribute is read for the arguments themselves, as of the command line."""
    return any(inner is node for inner in ast.walk(made.site.node))
