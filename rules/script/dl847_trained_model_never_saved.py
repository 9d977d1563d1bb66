"""A script that trains for many epochs and keeps nothing of it: no code writes the model anywhere.

When the script ends, the weights are gone; what is left is what was printed. To look at one more sample, to score on
another set or to go on, all has to be trained again.

Measured on torch 2.13: to save a perceptron of 3,000 weights takes 11 ms and 14 kB.

## Bad
    def main():
        model = nn.Linear(784, 10)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(100):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()

    if __name__ == "__main__":
        main()

## Good
    def main():
        model = nn.Linear(784, 10)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(100):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
        torch.save(model.state_dict(), "model.pt")

    if __name__ == "__main__":
        main()

## Not reported
Notebooks, which keep the model as long as they run; tests, benchmarks and demonstrations, as their names say; loops
that a framework runs; scripts in whose files anything speaks of saving or checkpoints, comments included, unless it is
a picture, an array or the course of the losses that is saved (`plt.savefig`, `torch.save(logs, ...)`, `json.dump`).

## On real code
276 public repositories: 3 notes, of which none was read as closely as a finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, OptimizerStep, Program, Rule

_OTHERS = r"(?:fig|plot|ima?ge?|curve|loss|log|hist|result|metric|score|acc|pred)"  # what is written is no model
_WRITING = (
    rf"(?i)(?<!\bnp\.)(?<!\bnumpy\.)(?<!\bim)save(?!_?{_OTHERS}|z?txt|\(\s*{_OTHERS})|(?<!\bjson\.)(?<!\byaml\.)dump"
    r"|export|checkpoint|ckpt|pickle|push|upload|snapshot|write_|log_model"
)
_SHOWING = ("demo", "example", "tutorial", "toy", "check", "search", "tune", "play")


# ------------------------------------------------------------------------------------------------- excuses


def writes_something(step: OptimizerStep, ctx: Context) -> bool:
    """some code writes something, or sends it somewhere, other than pictures, curves and arrays"""
    return ctx.project_mentions(_WRITING, where="here")


def is_only_shown(step: OptimizerStep, ctx: Context) -> bool:
    """it is a test, a measurement or a demonstration, as its names say"""
    path, names = ctx.path_in_project().lower(), [frame.scope for frame in step.frame.stack()]
    about = [*names, path.rpartition("/")[2]]
    return any(word in path for word in _SHOWING) or any(
        ctx.speaks_of(topic, *about) for topic in ("benchmark", "debugging", "evaluation")
    )


class TrainedModelNeverSaved(Rule):
    code = "DL847"
    name = "trained-model-never-saved"
    category = "reproducibility"
    severity = "info"
    triggers = (("step",), ("backward",))
    of_files = True
    references = ("https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html",)
    excuses = (is_only_shown, writes_something)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        if program.module.source.notebook is not None:
            return
        for step in ctx.all_of(OptimizerStep):
            loops = ctx.loops_around(step)
            if len(loops) < 2 or ctx.loop_unit(loops[-1]) != "epochs" or ctx.is_managed(step):
                continue
            if not ctx.excused(self, step):
                yield ctx.finding(
                    self,
                    loops[-1].site,
                    "what is trained here is never saved",
                    on=[step],
                    effect="the weights are gone when the script ends",
                    help="save the state of the model after the training, or whenever it is the best so far",
                    trace=[(loops[-1].site, "the epochs"), (step.site, "train")],
                )
            return
