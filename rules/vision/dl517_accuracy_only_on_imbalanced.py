"""Accuracy as the only score of classes that the project itself treats as unequal in number.

Who weights classes, or draws rare ones more often, knows that some are rare. Accuracy counts samples: a model that
never predicts a rare class loses next to nothing by it.

Measured: where 98 samples in 100 are of one class, always predicting that one has an accuracy of .98, and .50 if it is
averaged over the classes.

## Bad
    from torch.utils.data import WeightedRandomSampler
    sampler = WeightedRandomSampler(weights, len(weights))
    loader = DataLoader(train_set, batch_size=64, sampler=sampler)

    def evaluate(model, loader):
        correct, total = 0, 0
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
            total += len(y)
        return {"accuracy": correct / total}

## Good
    from torch.utils.data import WeightedRandomSampler
    sampler = WeightedRandomSampler(weights, len(weights))
    loader = DataLoader(train_set, batch_size=64, sampler=sampler)

    def evaluate(model, loader):
        predicted = torch.cat([model(x).argmax(1) for x, y in loader])
        target = torch.cat([y for x, y in loader])
        return {"accuracy": (predicted == target).float().mean(), "f1": f1_score(target, predicted, average="macro")}

## Not reported
Projects that speak of another score anywhere: F1, recall, AUC, a confusion matrix, balanced accuracy.

Off by default: which score is the right one is for people to say.

## On real code
280 public repositories: no finding, after one in a project that takes no accuracy at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, LibraryCall, Rule

_OTHER_SCORES = (
    r"(?i)\bf1|fbeta|f_score|recall|\bauc|auroc|roc_|confusion|balanced_accuracy|kappa|matthews|sensitivity|jaccard|\biou"
    r"|average_precision|classification_report|per_class|macro|dice"
)
_ACCURACY = r"(?i)accuracy|\bacc\b|_acc\b"

# ------------------------------------------------------------------------------------------------- excuses


def has_another_score(event: LibraryCall, ctx: Context) -> bool:
    """the project speaks of another score"""
    return ctx.project_mentions(_OTHER_SCORES, where="here") or ctx.project_mentions(_OTHER_SCORES)


def has_no_score(event: LibraryCall, ctx: Context) -> bool:
    """the project takes no accuracy"""
    return not (ctx.project_mentions(_ACCURACY, where="here") or ctx.project_mentions(_ACCURACY))


class AccuracyOnlyOnImbalanced(Rule):
    code = "DL517"
    name = "accuracy-only-on-imbalanced"
    category = "suspicious"
    severity = "info"
    default = False
    triggers = (("WeightedRandomSampler", "compute_class_weight"),)
    references = ("https://scikit-learn.org/stable/modules/model_evaluation.html#balanced-accuracy-score",)
    excuses = (has_another_score, has_no_score)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        is_weighting = event.name.rpartition(".")[2] in ("WeightedRandomSampler", "compute_class_weight")
        if is_weighting and not ctx.excused(self, event):
            yield ctx.finding(
                self,
                event,
                "classes are weighted, as some are rare, and accuracy is the only score",
                on=[event],
                effect="a model that never predicts a rare class looks good",
                help='report a score for each class as well, such as F1 with `average="macro"`',
                trace=[(event.site, "makes up for rare classes")],
            )
