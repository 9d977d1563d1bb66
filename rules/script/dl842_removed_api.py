"""Something that the library has no more: a name, an argument or a default that a release has removed.

The script stops where it gets there, which may be hours after it began: at the first scheduler, or at the first
validation. Whether it does depends on what is installed; of a project that says nothing about its versions it is
assumed that it runs with today's. That it says nothing is then the cause of all that fails with these, so that it is
one finding for a project: at the first place, with the others in its trace.

Measured by running each on the last release that has it and on the first that has not: `np.float` and `np.int` are gone
since numpy 1.24, `np.Inf`, `np.NaN` and `np.float_` since 2.0, `np.trapz` since 2.4 (`AttributeError`); `verbose` of
all schedulers since torch 2.7 (`TypeError`), `AdamW` of transformers since 4.50, `evaluation_strategy` of
`TrainingArguments` since 4.51, `gpus` of Lightning's `Trainer` since 2.0, `load_metric` since datasets 3.0,
`Image.ANTIALIAS` since pillow 10.0; `yaml.load(file)` needs a `Loader` since PyYAML 6.0; the windows of scipy
(`signal.hamming`) are in `signal.windows` alone since 1.13, networkx 3.0 has no `from_numpy_matrix`, and librosa takes
rates and sizes by name only since 0.10: `librosa.filters.mel(22050, 1024)` raises `TypeError`. The archives of the
releases tell the rest: albumentations has no `Cutout` since 1.4, mne no `psd_welch` since 1.3, the canvas of matplotlib
no `tostring_rgb` since 3.10, and the word vectors of gensim no `vocab` since 4.0. By the notes of their releases, scipy
has no `misc.imread` and `misc.imresize` since 1.3, nor scikit-image `compare_psnr` since 0.18. Tables of pandas have no
`append`, `iteritems`, `mad` and `lookup` since 2.0, no `applymap` and no `fillna(method=)` since 3.0; images of nibabel
raise `ExpiredDeprecationError` at `get_data()` since 5.0. A number of torch has no first element: `loss.data[0]` raises
`IndexError` since 0.5. Imports of what is gone (`torch._six`, `sklearn.externals.joblib`, the `model_urls` of
torchvision's networks) end the script where it begins. Tokenizers of transformers have no `encode_plus` since 5.0, its
`TrainingArguments` no `logging_dir` and `warmup_ratio` since 5.15, the trainers of trl take settings as
`max_seq_length` in their configurations alone since 0.13, styles of matplotlib are not called `seaborn` since 3.8, and
Lightning 2.0 refuses a module with `validation_epoch_end` (`NotImplementedError`). Arguments that are gone were read
off the signatures of releases, of each at least the last one that takes it and the first that does not: `disp` of
scipy's `sqrtm` (1.18), `fillcolor` of `RandomAffine` (torchvision 0.14) and `range` of `make_grid` (0.17), `n_iter` of
`TSNE` (scikit-learn 1.7), `labels` of `boxplot` (matplotlib 3.11), `interpolation` of `np.percentile` (numpy 2.4),
`use_cuda` of Grad-CAM (1.5), `max_prompt_length` of `DPOConfig` (trl 0.29), `early_stopping_rounds` of `lightgbm.train`
(4.0), and more of these. Metrics of torchmetrics have to be told their `task` since 0.11; `table.drop("a", 1)` and
`KFold(5, True)` take names alone since pandas 2.0 and scikit-learn 1.0. Python itself has no `parser` and `symbol`
since 3.10, which editors import by themselves for a word that is not bound (`from symbol import parameters`), no `imp`
since 3.12 and no `imghdr` since 3.13. Of 45 libraries the names that are gone were
read off the archives of their releases, not every one of which was read; these are told to be gone "at the latest"
since the first one without. All but those of dgl, fastai, gym and torchaudio were asked for in an environment with the
newest releases.

## Bad
    import numpy as np
    best = np.Inf
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10, verbose=True)

## Good
    import numpy as np
    best = np.inf
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)

## Not reported
Projects that stay below the release that removed it (`numpy==1.23.5`, `numpy<2`, a lock file, an environment of conda,
"PyTorch 1.11" in the README, what a notebook installs), or below the torch that this release needs (numpy 2 needs torch
2.3), or that run with something that goes with none as late (Python 3.7, scikit-learn 0.21, numba 0.55, matplotlib
3.7); what scripts use beside imports of what only earlier releases have (`torch._six`), of which these alone are
reported, and beside `loss.data[0]`; code for Python 2; methods of what may be no table or image, and `loss.data[0]` of
what may be more than one number; torchtext, whose last release for the newest Python is an early one; what is imported
or read in a `try`, after `hasattr`, below a test of a version or where `getattr(np, "trapezoid", None)` finds nothing;
names that the project sets itself (`np.float = float`); packages of the project that are called like the library;
`distutils`, which setuptools has; what
`torch.utils.ffi` has written itself. As a question only: what fails in a project without a setup of its own whose notes
have another repository cloned and installed; what a release of before 2022 took, in a project that says nothing of
releases, but for imports at the top, which keep a file from starting; what stands after the first use that ends a
script; code that still uses what an earlier release of the same library has taken away, and of which no rule tells.

## Fix (safe)
Writes what there is instead, or takes the argument out: the code does not run as it is.

## On real code
138 public repositories: 26 findings in 13 of them, all true. In 127 others, read with the rule as it was, 20 of 25 were
true, 3 doubtful and 2 false: pins that were not read, in exports of conda, which are read now. Of 11 findings in 64 of
these today, all but one are true; its pin, in an environment of another name, is read now, too. The names of scipy are
used in 14 of 982 others, 56 times; none of these says which scipy it runs with. In 138 more there were 20 findings: 12
true, 1 false (a pin in the text at the top of a script, which is read now) and 7 doubtful, six of them in scripts that
fail before. With the names of 45 libraries and the settings of transformers and trl there are 21 more in 190
repositories. Of 102 in 322 repositories 52 were true, 2 false (trainers that Unsloth makes) and 48 doubtful, most of
them in programs that something else ends first; 15 of these are silent or questions since. As one finding for a
project: 63 in 322 others, of which 54 were true, 8 doubtful (a pin that is not read, code that nobody runs) and 1 false
(a name that matplotlib put back).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dllint.api import (
    Assumption,
    Context,
    Edits,
    Finding,
    Gone,
    Program,
    Removal,
    Rule,
    Site,
    nodes_of,
    remove_argument,
    replace_range,
    set_argument,
    together,
)

_PACKAGES = (
    *("PIL", "accelerate", "albumentations", "audiomentations", "catalyst", "datasets", "dgl", "diffusers", "fastai"),
    *("gensim", "gym", "gymnasium", "huggingface_hub", "ignite", "imageio", "kornia", "librosa", "lightgbm"),
    *("lightning", "matplotlib", "mne", "monai", "moviepy", "networkx", "nibabel", "nltk", "numpy", "omegaconf"),
    *("pandas", "peft", "pydicom", "pytorch_grad_cam", "pytorch_lightning", "scipy", "segmentation_models_pytorch"),
    *("sentence_transformers", "skimage", "sklearn", "spacy", "stable_baselines3", "tensorboardX", "timm", "torch"),
    *("torch_geometric", "torchaudio", "torchmetrics", "torchvision", "transformers", "trl", "wandb", "xgboost"),
    "yaml",
)
_MAYBE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.BoolOp)
_RAISED = {"nibabel": "ExpiredDeprecationError", "nltk": "LookupError"}


# ------------------------------------------------------------------------------------------------- excuses


def runs_with_earlier(site: Site, name: str, removal: Removal, ctx: Context) -> bool:
    """the project stays below the version that has removed it, or below the torch that this one needs"""
    is_gone = any(name == gone.name for _, gone in ctx.uses_of_gone)
    tells_itself = is_gone or isinstance(site.node, ast.Subscript) or bool(_early_release(name, ctx))
    may_run = ctx.may_run_in_spite if tells_itself else ctx.may_run_with
    return not may_run(removal.package, removal.version)


def _early_release(name: str, ctx: Context) -> str:
    """The release that has no more what tells of an early one where it is imported, or its module."""
    known = ctx.facts.old_imports
    return known.get(name) or known.get(name.rpartition(".")[0], "")


def is_set_by_project(site: Site, name: str, removal: Removal, ctx: Context) -> bool:
    """the project sets the name itself"""
    last = name.rpartition(".")[2]
    nodes = (node for _, tree in ctx.trees(last) for node in ast.walk(tree))
    is_set = any(isinstance(n, ast.Attribute) and n.attr == last and _is_set(n) for n in nodes)
    return is_set or ctx.project_mentions(rf"\b{last}\b", rf"\b(?!self\.)\w+\.{last}\s*=[^=]")  # the first is fast


def is_mended_by_unsloth(site: Site, name: str, removal: Removal, ctx: Context) -> bool:
    """the file imports unsloth, whose trainers take the place of those of trl, and the early arguments"""
    return removal.package == "trl" and isinstance(site.node, ast.keyword) and ctx.imports("unsloth")


def splits_no_text(site: Site, name: str, removal: Removal, ctx: Context) -> bool:
    """what nltk downloads is not for its tokenizers, which nothing calls, or the other file is there, too"""
    if name != "nltk.download":
        return False
    return not ctx.project_mentions(r"\b(?:word|sent)_tokenize\b") or ctx.project_mentions(rf"\b{removal.instead}\b")


def is_written_by_the_builder(site: Site, name: str, removal: Removal, ctx: Context) -> bool:
    """`torch.utils.ffi` has written the file itself when it built an extension, and would write it again"""
    return name.startswith("torch.utils.ffi") and "_import_symbols" in site.module.words


def _is_set(node: ast.Attribute) -> bool:
    """Whether this sets an attribute of something else than the object that a method belongs to."""
    is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
    return isinstance(node.ctx, ast.Store) and not is_own


class RemovedApi(Rule):
    code = "DL842"
    name = "removed-api"
    category = "correctness"
    severity = "error"
    triggers = (_PACKAGES,)
    of_files = True
    fix_safety = "safe"
    references = (
        "https://numpy.org/doc/stable/numpy_2_0_migration_guide.html",
        "https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
    )
    excuses = (runs_with_earlier, is_set_by_project, is_mended_by_unsloth, splits_no_text, is_written_by_the_builder)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        facts = ctx.facts
        by_line: dict[int, list[_Use]] = {}
        of_calls = (facts.removed_arguments, facts.removed_texts, facts.removed_defaults, facts.removed_positions)
        in_calls = {name for known in (*of_calls, facts.newly_required) for name in known}
        found: list[tuple[str, _Use]] = []
        for site, name in (*ctx.uses_of({*facts.removed_names, *in_calls}), *ctx.methods_of_returned()):
            read = _removed_in_call if isinstance(site.node, ast.Call) else _read
            found += [(name, use) for use in read(site, name, ctx)]
        found += [(name, _of_early_code(site, name, release)) for site, name, release in ctx.uses_of_old()]
        found += [(gone.name, _gone_of_library(site, gone)) for site, gone in ctx.uses_of_gone]
        found += [(name, use) for use, name in (*_gone_attributes(ctx), *_refused_hooks(ctx))]
        for name, use in found:
            if not ctx.excused(self, use.site, name, use.removal):
                by_line.setdefault(use.site.line, []).append(use)
        ending = _ending([uses[0] for uses in by_line.values()], ctx)
        for uses in by_line.values():
            yield self._report(uses, ending, ctx)

    def _report(self, uses: list[_Use], ending: _Use | None, ctx: Context) -> Finding:
        """The finding for what one line uses: one for all, as one look mends them."""
        site, removal = uses[0].site, uses[0].removal
        same = [use for use in uses if use.release == uses[0].release]
        first, *others = dict.fromkeys(use.what for use in same)
        what = f"{first} and {len(others)} more" if others else first
        package, version = removal.package, removal.version
        instead = " and ".join(dict.fromkeys(f"`{use.removal.instead}`" for use in uses if use.removal.instead))
        assuming = ctx.assumed_version(package, version, name=uses[0].gone, site=site)
        here, keep = "", ""
        if any(each.kind == "version" for each in assuming):
            place = "where texts are split" if package == "nltk" else "here at the latest"
            here = f" {place}: nothing says that an earlier release is needed"
            keep = f", or keep {package} below {version} in the requirements"
        return ctx.finding(
            self,
            site,
            f"{what} {'is' if ' and ' not in what else 'are'} gone since {package} {version}{uses[0].at_the_latest}",
            assuming=[*assuming, *ctx.assumed_start(site), *_assumed_after(ending, uses[0], ctx)],
            effect=f"raises `{_raised(uses[0])}`{here}",
            help=f"{f'use {instead}' if instead else 'do without it'}{keep}",
            trace=[(site, f"this works up to the last release before {each}") for site, each in _works_until(uses)],
            fix=(f"Use {instead}" if instead else "Take it out", together(*(use.edits for use in uses))),
        )


@dataclass(frozen=True, slots=True)
class _Use:
    """A place that uses something removed: what it is in words, and what mends it."""

    site: Site
    what: str
    removal: Removal
    edits: Edits
    gone: str = ""  # the name in the table of libraries, in which not every release was read
    raised: str = ""  # what Python raises, where that is not what it usually does

    @property
    def at_the_latest(self) -> str:
        return " at the latest" if self.gone else ""

    @property
    def release(self) -> str:
        return f"{self.removal.package} {self.removal.version}"


def _ending(uses: list[_Use], ctx: Context) -> _Use | None:
    """The use at which a script ends with late releases: the first one at its top, outside of any condition."""
    kept = [use for use in uses if not isinstance(use.site.node, ast.FunctionDef)]
    return min(
        (use for use in kept if not any(True for _ in ctx.ancestors(use.site, *_MAYBE))),
        key=lambda use: use.site.line,
        default=None,
    )


def _assumed_after(ending: _Use | None, use: _Use, ctx: Context) -> Iterator[Assumption]:
    """That what stands before is mended, where a script ends at what another release took before it gets there.

    What stands in the same call is seen at one look.
    """
    if ending is None or ending.release == use.release or use.site.line <= ending.site.line:
        return
    call, other = (next(ctx.ancestors(each.site, ast.Call), None) for each in (ending, use))
    if call is not None and call is other:
        return
    yield Assumption("effect", f"{ending.what} exists, which {ending.release} and later releases do not have")


def _works_until(uses: Sequence[_Use]) -> Iterator[tuple[Site, str]]:
    """The releases that took what a line uses, each once, with the first place in the line."""
    first = {use.release: use.site for use in reversed(uses)}
    yield from ((site, release) for release, site in reversed(first.items()))


def _raised(use: _Use) -> str:
    """What Python raises where something that is gone is used."""
    node = use.site.node
    if use.gone and isinstance(node, ast.Call):
        return "AttributeError"  # its name is gone, not an argument
    if use.raised:
        return use.raised
    kinds = {ast.alias: "ImportError", ast.Subscript: "IndexError", ast.Constant: "OSError"}
    kinds |= {ast.FunctionDef: "NotImplementedError", ast.Call: "TypeError", ast.keyword: "TypeError"}
    return _RAISED.get(use.removal.package, kinds.get(type(node), "AttributeError"))


def _gone_of_library(site: Site, gone: Gone) -> _Use:
    return _Use(site, f"`{gone.name}`", Removal(gone.package, gone.version, ""), Edits(), gone.name)


def _refused_hooks(ctx: Context) -> Iterator[tuple[_Use, str]]:
    """The methods of classes whose library refuses classes that have them."""
    known = ctx.facts.removed_hooks
    for definition, base in ctx.classes_of_libraries(known):
        assert isinstance(definition.node, ast.ClassDef)
        for method in definition.node.body:
            if isinstance(method, ast.FunctionDef) and method.name in known[base]:
                site = Site(definition.module, method)
                yield _Use(site, f"`{method.name}`", known[base][method.name], Edits()), method.name


def _read(site: Site, name: str, ctx: Context) -> Iterator[_Use]:
    removal = ctx.facts.removed_names.get(name)
    if removal is not None:
        yield _Use(site, f"`{_written(site, name, ctx)}`", removal, _renamed(site, name, removal, ctx))


def _gone_attributes(ctx: Context) -> Iterator[tuple[_Use, str]]:
    """The attributes that objects of a library have no more, by their names: the file imports the library, and calls
    the object so, or makes it, that there is no doubt what it is."""
    module = ctx.program.module
    for ending, removal in ctx.facts.removed_attributes.items():
        owner, _, name = ending.rpartition(".")
        if name not in module.words or not ctx.imports(removal.package):
            continue
        for node in nodes_of(module.tree).attributes.get(name, ()):
            site = Site(module, node)
            is_asked = f"hasattr({ast.unparse(node.value)}" in module.source.text
            is_read = isinstance(node.ctx, ast.Load) and not is_asked and not ctx.is_caught(site, "AttributeError")
            if not is_read or not _is_of(node.value, owner, site, ctx):
                continue
            if not ctx.project_mentions(rf"\b{name}\b", rf"def {name}\b"):  # a method of the project's own
                yield _Use(site, f"`{ctx.source_of(site)}`", removal, Edits()), name


def _is_of(owner: ast.expr, ending: str, site: Site, ctx: Context) -> bool:
    """Whether something is called ``wv``, or was made by ``load_word2vec_format()``."""
    if not ending.endswith("()"):
        return ast.unparse(owner).rpartition(".")[2] == ending
    made = ctx.bound_to(owner.id, site) if isinstance(owner, ast.Name) else owner
    function = made.func if isinstance(made, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr == ending[:-2]


def _removed_in_call(site: Site, name: str, ctx: Context) -> Iterator[_Use]:
    """The arguments of a call that are gone, and the default that it relies on."""
    call = site.node
    assert isinstance(call, ast.Call)
    family = f"{name.rpartition('.')[0]}."
    if name in ctx.facts.removed_names and "()" in name:
        method = Site(site.module, call.func)
        yield _Use(method, f"`{name.replace('()', '')}`", ctx.facts.removed_names[name], Edits())
    removed = {**ctx.facts.removed_arguments.get(family, {}), **ctx.facts.removed_arguments.get(name, {})}
    for keyword in call.keywords:
        removal = removed.get(keyword.arg or "")
        if removal is not None:
            what = f"the argument `{keyword.arg}` of `{name.rpartition('.')[2]}`"
            is_method = "()" in name and not removal.instead  # what it was told has to be done in another way
            edits = Edits() if is_method else _call_without(site, keyword, removal)
            yield _Use(Site(site.module, keyword), what, removal, edits, raised=ctx.facts.raised.get(name, ""))
    text = call.args[0] if call.args else None
    known = ctx.facts.removed_texts.get(name, {})
    if isinstance(text, ast.Constant) and text.value in known:
        yield _text_refused(Site(site.module, text), Site(site.module, call.func), known[text.value], ctx)
    removal = ctx.facts.removed_defaults.get(name)
    is_short = len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred)
    if removal is not None and is_short:
        what = f"the default of `{removal.instead}` of `{ctx.source_of(Site(site.module, call.func))}`"
        yield _Use(site, what, removal, _with_loader(site, call, removal, ctx))
    removal = ctx.facts.removed_positions.get(name)
    if removal is not None:
        yield from _too_many(site, call, removal, ctx)
    removal = ctx.facts.newly_required.get(name)
    if removal is not None:
        yield from _too_few(site, call, removal, ctx)


def _text_refused(text: Site, function: Site, removal: Removal, ctx: Context) -> _Use:
    what = f"`{ctx.source_of(text)}` of `{ctx.source_of(function)}`"
    return _Use(text, what, removal, replace_range(text, f'"{removal.instead}"'))


def _too_many(site: Site, call: ast.Call, removal: Removal, ctx: Context) -> Iterator[_Use]:
    """Arguments by position that a function takes by name alone."""
    allowed, *names = removal.instead.split()
    given = call.args[int(allowed) :]
    if not given or any(isinstance(each, ast.Starred) for each in call.args) or len(call.args) > len(names):
        return
    called = names[int(allowed) : len(call.args)]
    named = (
        replace_range(Site(site.module, each), f"{name}={ctx.source_of(Site(site.module, each))}")
        for name, each in zip(called, given, strict=True)
    )
    what = f"passing `{called[0]}` of `{ctx.source_of(Site(site.module, call.func))}` by position"
    instead = Removal(removal.package, removal.version, f"{called[0]}=...")
    yield _Use(site, what, instead, together(*named))


def _too_few(site: Site, call: ast.Call, removal: Removal, ctx: Context) -> Iterator[_Use]:
    """A call without an argument that none had before: `Accuracy()`, which has to be told its task."""
    missing, before = removal.instead.split()
    given = {each.arg for each in call.keywords}
    if given & {missing, None} or len(call.args) > int(before) or any(isinstance(e, ast.Starred) for e in call.args):
        return
    what = f"calling `{ctx.source_of(Site(site.module, call.func))}` without `{missing}`"
    yield _Use(site, what, Removal(removal.package, removal.version, f"{missing}=..."), Edits())


def _of_early_code(site: Site, name: str, release: str) -> _Use:
    package, _, version = release.partition(" ")
    instead = f"{name.removesuffix('.data[0]')}.item()" if isinstance(site.node, ast.Subscript) else ""
    edits = replace_range(site, instead) if instead else Edits()
    return _Use(site, f"`{name}`", Removal(package, version, instead), edits)


def _written(site: Site, name: str, ctx: Context) -> str:
    return name if isinstance(site.node, ast.alias) else ctx.source_of(site)


def _renamed(site: Site, name: str, removal: Removal, ctx: Context) -> Edits:
    """``np.Inf`` as ``np.inf``, ``np.float`` as ``float``; an import may be used anywhere, and stays."""
    library, instead = name.rpartition(".")[0], removal.instead
    if not isinstance(site.node, ast.Attribute) or not instead:
        return Edits()
    if instead.isidentifier():
        return replace_range(site, instead) if instead != "math" else Edits()
    sign, plain = ("-", instead[1:]) if instead.startswith("-") else ("", instead)
    if not plain.startswith(f"{library}."):
        return Edits()
    written = f"{sign}{ctx.source_of(Site(site.module, site.node.value))}{plain[len(library) :]}"
    return replace_range(site, f"({written})" if sign else written)


def _call_without(call: Site, keyword: ast.keyword, removal: Removal) -> Edits:
    """A call with the new name of an argument, or without an argument that nothing has replaced."""
    if not removal.instead:
        return remove_argument(call, keyword.arg or "")
    value = ast.get_source_segment(call.module.source.text, keyword.value)
    if not value or not removal.instead.isidentifier():
        return Edits()
    return replace_range(Site(call.module, keyword), f"{removal.instead}={value}")


def _with_loader(site: Site, call: ast.Call, removal: Removal, ctx: Context) -> Edits:
    if not isinstance(call.func, ast.Attribute):
        return Edits()
    return set_argument(site, removal.instead, f"{ctx.source_of(Site(site.module, call.func.value))}.SafeLoader")
