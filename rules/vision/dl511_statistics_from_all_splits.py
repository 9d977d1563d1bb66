"""Statistics of the test data in the training data: a scaler, an imputer or a vocabulary fitted before the split.

What is fitted on all samples knows those that the model is tested on: their range, their mean, their words, their
principal components. The score is then that of a model which has seen something of the answer. How much it is worth
depends on the data: little for the mean of many samples, much for a range that grows, for rare words, for few samples.

Measured over 20 random walks of 1,000 steps that are cut at 800: scaled by the range of all, the largest number in the
test part is .89, as if the future stayed within bounds; scaled by that of the training part, 1.04.

## Bad
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler
    features = StandardScaler().fit_transform(features)
    x_train, x_test, y_train, y_test = train_test_split(features, labels, test_size=0.2)

## Good
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler
    x_train, x_test, y_train, y_test = train_test_split(features, labels, test_size=0.2)
    scaler = StandardScaler().fit(x_train)
    x_train, x_test = scaler.transform(x_train), scaler.transform(x_test)

## Not reported
Encoders of labels; what works on each sample by itself (`Normalizer`, `HashingVectorizer`, a `CountVectorizer` that
leaves no word out); data that names say is for training, of which only a part for validation is split off; parts that
are held out and that nobody reads; scalers that are fitted again after the split; slices whose names do not say that
one is for training and the other is held out.

## On real code
212 public repositories: 12 findings, all in the scripts of one thesis; all true. 225 others that fit something: 13, of
which 3 cut what was scaled by slices, all true; two were judged doubtful (a rotation of coordinates, a script that ends
before any score). What transforms the parts one by one: no finding in 763; what is scaled whole and split: 1 more
there, true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Finding,
    Instance,
    LibraryCall,
    Program,
    Rule,
    Site,
    Symbol,
    Value,
    statement_around,
)

_RANDOM_SPLIT = "torch.utils.data.random_split"
_SPLITS = ("sklearn.model_selection.train_test_split", _RANDOM_SPLIT)
_FITTED = (
    "sklearn.preprocessing.", "sklearn.decomposition.", "sklearn.impute.", "sklearn.feature_selection.",
    "sklearn.feature_extraction.text.",
)  # fmt: skip
_BY_SAMPLE = frozenset(
    ("LabelEncoder", "OneHotEncoder", "OrdinalEncoder", "LabelBinarizer", "MultiLabelBinarizer", "Normalizer",
     "HashingVectorizer", "FunctionTransformer", "PolynomialFeatures", "Binarizer")
)  # fmt: skip


_CUT_OFFS = ("max_features", "min_df", "max_df")  # by how often a word is met


# ------------------------------------------------------------------------------------------------- excuses


def is_of_training_data(split: LibraryCall, fitted: Symbol, ctx: Context) -> bool:
    """what it is fitted on is for training, as its name says: only a part for validation is split off"""
    names = [name for given in fitted.inputs[1:2] for name in ctx.names_behind(given)]
    return ctx.speaks_of("training", *names) or (fitted.site is not None and _is_named_training(fitted.site, ctx))


def is_not_held_out(split: LibraryCall, fitted: Symbol, ctx: Context) -> bool:
    """nobody reads the parts that are held out, so that there is no score that could be too good"""
    parts = ctx.parts_read(split.site)
    held_out = parts[1:] if split.name == _RANDOM_SPLIT else parts[1::2]  # of inputs, of targets, …
    return bool(held_out) and not any(held_out)


def counts_all_words(split: LibraryCall, fitted: Symbol, ctx: Context) -> bool:
    """it counts each word there is: of words that only the test data has, the training data has columns of zeros"""
    owner = fitted.inputs[0]
    if not isinstance(owner, Instance) or not owner.library_name.endswith(".CountVectorizer"):
        return False
    return not any(owner.arguments.get(None, name) is not None for name in _CUT_OFFS)


class StatisticsFromAllSplits(Rule):
    code = "DL511"
    name = "statistics-from-all-splits"
    category = "correctness"
    severity = "warning"
    triggers = (("train_test_split", "random_split", "sklearn"), ("fit_transform", "transform"))
    references = ("https://scikit-learn.org/stable/common_pitfalls.html#data-leakage",)
    excuses = (is_of_training_data, is_not_held_out, counts_all_words)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: list[Value] = []
        for split in (event for name in _SPLITS for event in ctx.library_calls(name)):
            count = 1 if split.name == _RANDOM_SPLIT else None
            found = [(given, each) for given in split.arguments.positional[:count] for each in _fitted(given, ctx)]
            new = [pair for pair in found if not any(pair[1] is known for known in reported)]
            reported += [fitted for _, fitted in new]
            for place in _by_file([pair for pair in new if not ctx.excused(self, split, pair[1])]):
                yield self._report(split, place, ctx)
        seen = {id(fitted.site.node) for fitted in reported if fitted.site is not None}
        yield from self._cut_by_slices(seen, ctx)
        yield from self._fitted_on_whole(ctx)

    def _fitted_on_whole(self, ctx: Context) -> Iterator[Finding]:
        """What is fitted on a whole, or on parts joined for it, and transforms these parts one by one."""
        for call in ctx.method_calls("fit"):
            made = _fitted_by(call, ctx)
            parts = _transformed_by(call, ctx) if made is not None else None
            if made is None or parts is None:
                continue
            train, held_out = parts
            yield ctx.finding(
                self,
                call,
                f"`{made.name.rpartition('.')[2]}` is fitted on all samples, those that are held out included",
                on=[made],
                effect="the training data knows statistics of the test data, and the score is too good",
                help="give `fit` the training part alone",
                trace=[
                    (call, "is fitted on all samples"),
                    (train, "transforms those for training"),
                    (held_out, "and those that are held out"),
                ],
            )

    def _cut_by_slices(self, seen: set[int], ctx: Context) -> Iterator[Finding]:
        """What is fitted, and cut by slices later: as `seen` tells, another way to split it was not found."""
        fitted = (call for call in ctx.method_calls("transform") if _is_fitted_on_it(call, ctx))
        for call in (*ctx.method_calls("fit_transform"), *fitted):
            made = _fitted_by(call, ctx)
            parts = ctx.cut_after(call) if made is not None and id(call.node) not in seen else None
            if made is None or parts is None or _is_named_training(call, ctx):
                continue
            train, held_out = parts
            yield ctx.finding(
                self,
                call,
                f"`{made.name.rpartition('.')[2]}` is fitted on all samples, and only then they are split",
                on=[made],
                effect="the training data knows statistics of the test data, and the score is too good",
                help="split first, fit on the training part, and only transform the other",
                trace=[
                    (call, "is fitted on all samples"),
                    (train, "this part is for training"),
                    (held_out, "and this one is held out"),
                ],
            )

    def _report(self, split: LibraryCall, found: list[tuple[Value, Symbol]], ctx: Context) -> Finding:
        """One finding for all that is fitted before a split: the same line is to be moved up."""
        (given, fitted), *more = sorted(found, key=lambda pair: pair[1].site.line if pair[1].site else 0)
        assert fitted.site is not None
        computed = ctx.assumed_of_computation(given, lambda value: value is fitted)
        others = [(each.site, f"and so is `{_class_of(each)}`") for _, each in more if each.site is not None]
        return ctx.finding(
            self,
            fitted.site,
            f"`{_class_of(fitted)}` is fitted on all samples, and only then they are split",
            on=[split, fitted, fitted.inputs[0]],
            assuming=[each for each in computed if each.kind != "opaque"],  # methods of arrays keep their samples
            effect="the training data knows statistics of the test data, and the score is too good",
            help="split first, fit on the training part, and only transform the other",
            trace=[(fitted.site, "is fitted on all samples"), *others, (split.site, "which are split here")],
        )


def _fitted_by(call: Site, ctx: Context) -> LibraryCall | None:
    """Where the object that a method is called of is made, if it is one that is fitted, and the only one it may be."""
    assert isinstance(call.node, ast.Call) and isinstance(call.node.func, ast.Attribute)
    receiver = call.node.func.value
    made = [
        event
        for event in ctx.all_of(LibraryCall)
        if event.site.module is call.module
        and (event.site.node is receiver or _variable_of(event.site) == ast.unparse(receiver))
    ]
    is_fitted = bool(made) and all(_is_fitted(event.name) for event in made)
    return made[-1] if is_fitted else None


def _transformed_by(fit: Site, ctx: Context) -> tuple[Site, Site] | None:
    """Where what is fitted transforms a part for training and one held out, of a whole or joined for the fit."""
    joined = ctx.transforms_joined_parts(fit, _fitted_in(fit))
    if joined is not None or _is_named_training(fit, ctx):
        return joined
    return ctx.transforms_parts(fit, _fitted_in(fit))


def _variable_of(site: Site) -> str:
    """The variable that a call is assigned to, as it is written."""
    statement = statement_around(site)
    is_whole = isinstance(statement, ast.Assign) and statement.value is site.node and len(statement.targets) == 1
    return ast.unparse(statement.targets[0]) if is_whole and isinstance(statement, ast.Assign) else ""


def _fitted_in(fit: Site) -> str:
    """The variable that has what is fitted: that of which the method is called, or that which gets what it returns."""
    called = fit.node.func if isinstance(fit.node, ast.Call) else None
    receiver = called.value if isinstance(called, ast.Attribute) else None
    return _variable_of(fit) if isinstance(receiver, ast.Call) else ast.unparse(receiver) if receiver else ""


def _is_named_training(call: Site, ctx: Context) -> bool:
    """Whether the name of what is fitted on says that it is for training."""
    assert isinstance(call.node, ast.Call)
    names = [node.id for each in call.node.args[:1] for node in ast.walk(each) if isinstance(node, ast.Name)]
    return ctx.speaks_of("training", *names)


def _is_fitted(name: str) -> bool:
    return name.startswith(_FITTED) and name.rpartition(".")[2] not in _BY_SAMPLE


def _by_file(found: list[tuple[Value, Symbol]]) -> Iterator[list[tuple[Value, Symbol]]]:
    """What was fitted before one split, apart for each file: the split may be that of a helper."""
    groups: dict[object, list[tuple[Value, Symbol]]] = {}
    for given, fitted in found:
        groups.setdefault(fitted.site.module if fitted.site else None, []).append((given, fitted))
    yield from groups.values()


def _class_of(fitted: Symbol) -> str:
    return _library_name(fitted.inputs[0]).rpartition(".")[2]


def _fitted(value: Value, ctx: Context) -> Iterator[Symbol]:
    """What was fitted on the samples that a value was computed from, and changed them."""
    for each in ctx.sources(value):
        if isinstance(each, Symbol) and each.site is not None and each.name in (".fit_transform", ".transform"):
            is_on_it = each.name == ".fit_transform" or _is_fitted_on_it(each.site, ctx)
            if is_on_it and _is_fitted(_library_name(each.inputs[0])):
                yield each


def _is_fitted_on_it(transform: Site, ctx: Context) -> bool:
    """Whether an object was fitted, above in the same function, on just what it transforms here."""
    call = transform.node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or not call.args:
        return False
    scaler, samples = ast.unparse(call.func.value), ast.unparse(call.args[0])
    for fit in ctx.method_calls("fit"):
        made = fit.node
        if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute) or not made.args:
            continue
        names = (ast.unparse(made.func.value), _variable_of(fit))
        is_above = fit.module is transform.module and fit.line <= transform.line
        if is_above and scaler in names and ast.unparse(made.args[0]) == samples:
            around = list(ctx.ancestors(transform, ast.If))
            is_sure = all(branch in around for branch in ctx.ancestors(fit, ast.If))
            return is_sure and ctx.scope(fit) == ctx.scope(transform)
    return False


def _library_name(owner: Value) -> str:
    """The library class that an object is of; one in capitals, such as ``PCA``, is not known to be a class."""
    if isinstance(owner, Symbol) and owner.name == ".fit" and owner.inputs:
        owner = owner.inputs[0]
    return owner.library_name if isinstance(owner, Instance) else owner.name if isinstance(owner, Symbol) else ""
