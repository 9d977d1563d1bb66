"""Options that are left of another script: in this one there is nothing that they could be about."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dllint.assumptions import Assumption, Assumptions
from dllint.context.option_uses import OptionUses
from dllint.events import LibraryCall
from dllint.interp.source.imported import imported_names
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors
from dllint.interp.source.reached_calls import reached_calls
from dllint.interp.source.topics import words_of
from dllint.sites import Site
from dllint.values import Const


class _Matter(NamedTuple):
    """What an option may be about: the words of its name, or all of it, what its help says, and the names in code that
    has to do with it, those of calls where any other may be of data. ``what`` is said of a script without it."""

    words: frozenset[str]
    help: re.Pattern[str]
    code: re.Pattern[str]
    what: str
    by_calls: bool = False


_FRAMEWORKS = r"torch|torchvision|tensorflow|keras|jax|flax|paddle|mxnet|lightning|pytorch_lightning|transformers"
_OTHER_PROGRAMS = re.compile(r"\bsubprocess\b|\bos\.system\b|(?<![.\w])(?:exec|eval)\(|\bpopen\b")  # told the options
_OF_TRAINING = frozenset(
    ("lr", "learning", "training", "momentum", "decay", "wd", "epoch", "epochs", "nepoch", "optimizer", "optim",
     "scheduler", "warmup", "patience", "dropout", "betas", "beta1", "beta2", "accumulation", "accum", "milestones",
     "grad", "gradient", "resume", "updates",
     "eval_interval", "eval_freq", "save_interval", "save_freq", "log_interval", "log_freq")
)  # fmt: skip
_TRAINING = _Matter(
    _OF_TRAINING,
    re.compile(
        r"learning rate|weight decay|momentum|epochs? to train|early stop|(?:continue|resume|multi-scale) training"
        r"|during training|training epochs?|lr decay|sav\w+ (?:the )?best (?:\w+ )?model",
        re.IGNORECASE,
    ),
    re.compile(r"backward|step|fit|fit_\w+|.*trainer.*|train.*|optimi[sz]e|minimize|GradientTape", re.IGNORECASE),
    "nothing is trained",
    by_calls=True,
)
_BATCHES = _Matter(
    frozenset(("batch", "batches", "batchsize", "bs", "workers", "loader", "prefetch")),
    re.compile(r"batch size|data loading", re.IGNORECASE),
    re.compile(rf".*batch.*|.*loader.*|.*worker.*|{_FRAMEWORKS}", re.IGNORECASE),
    "there are no batches",
)
_DEVICES = _Matter(
    frozenset(("device", "devices", "gpu", "gpus", "cuda")),
    re.compile(r"(?!)"),
    re.compile(rf".*device.*|.*gpu.*|.*cuda.*|cupy|{_FRAMEWORKS}", re.IGNORECASE),
    "nothing runs on a device",
)
_CHANCE = _Matter(
    frozenset(("seed",)),
    re.compile(r"(?!)"),
    re.compile(
        rf".*random.*|.*rand[ni]?|.*shuffl.*|.*seed.*|.*sampl.*|.*choice.*|.*drop.*|sklearn|{_FRAMEWORKS}",
        re.IGNORECASE,
    ),
    "nothing is drawn",
)
_DATA = _Matter(
    frozenset(("data", "dataset", "datasets", "batch", "batches", "batchsize", "workers", "normalization")),
    re.compile(r"(?!)"),
    re.compile(
        r".*(?:data|load|read|open|fetch|image|img|env|batch(?!_?norm)|sampl|buffer|memory|make(?!dirs)|rand|prepare|from_"
        r"|input).*",
        re.IGNORECASE,
    ),
    "no data are read",
    by_calls=True,
)
_MODELS = _Matter(
    frozenset(("arch", "architecture", "backbone")),
    re.compile(r"(?!)"),
    re.compile(
        r".*(?:model|net(?!cdf)|arch|backbone|build|creat|module|former|coder|policy|agent|eval|forward|cuda|state_dict"
        r"|pretrained).*|getattr|get_(?!\w*(?:load|data|arg)).*",
        re.IGNORECASE,
    ),
    "no model is made",
    by_calls=True,
)
_OUTPUT = _Matter(
    frozenset(("outdir", "savedir")),
    re.compile(r"(?!)"),
    re.compile(
        r".*(?:save|writ|dump|open|mkdir|makedirs|to_|export|put|log|send|record|report|board|copy|store|render).*",
        re.IGNORECASE,
    ),
    "nothing is written",
    by_calls=True,
)
_LEARNING = _Matter(frozenset(), re.compile(r"(?!)"), re.compile(_FRAMEWORKS), "nothing is learned")
_MATTERS = (_TRAINING, _BATCHES, _DEVICES, _CHANCE, _DATA, _MODELS, _OUTPUT)
_LABELS = frozenset(
    ("exp_name", "experiment", "experiment_name", "run_name", "policy_name", "algo", "algo_name", "algorithm",
     "comment", "comments", "note", "notes", "tag", "tags", "description", "message", "msg", "remark", "remarks")
)  # fmt: skip
_SAYING = re.compile(r"descri(?:be|ption)|comment|\bnotes?\b|remark|message", re.IGNORECASE)
"""What the help of a label says, where it has any: that it is a text about the run."""
_LIGHTNING = re.compile(r"(pl|L|(pytorch_)?lightning(\.pytorch)?)_?")
_KEEPING = re.compile(r"(?i)dump|save|init|write|log(?!ging)|config|record|hparams|hyperparams")


class Leftovers(OptionUses):
    """What options may be about, where nothing reads them."""

    def assumed_meant(self, event: LibraryCall, name: str) -> Assumptions:
        """What the claim assumes that an option should be read: that it is about something which the script does.

        Args:
            event: a call of `add_argument`.
            name: what the option is called in the namespace.
        """
        flag = self.flag_of_option(event)
        told = next(self._missing_matters(event, name), "")
        if told:
            return (Assumption("effect", f"`{flag}` is meant to count in this script, where {told}"),)
        if self._is_label(event, name):
            return (Assumption("effect", f"`{flag}` is more than a label, which is written down with all options"),)
        if self._is_of_another(event):
            told = f"`{flag}` is meant to count in this script, which has its options from one that trains"
            return (Assumption("effect", told),)
        blank = self._blank()
        if blank:
            return (Assumption("effect", f"`{flag}` is not for what is yet to be written, as `{blank}` is"),)
        return ()

    def _blank(self) -> str:
        """What a file of the script leaves to be filled in, as an exercise does: `optimizer = ...`, outside of classes,
        in which that is a way to declare something."""
        project = self._machine.project
        for module in project.reading_each(project.closure(self.program.module)):
            for node in nodes_of(module.tree).of(ast.Assign):
                is_blank = isinstance(node.value, ast.Constant) and node.value.value is ...
                if is_blank and not isinstance(next(ancestors(Site(module, node)), None), ast.ClassDef):
                    return ast.unparse(node)
        return ""

    def _missing_matters(self, event: LibraryCall, name: str) -> Iterator[str]:
        """What an option may be about, where no file of the script has anything to do with it."""
        said, words = _help_of(event), {name, *words_of(name)}
        about = [each for each in _MATTERS if not each.words.isdisjoint(words) or each.help.search(said)]
        project, main = self._machine.project, self.program.module
        files = project.closure(main) if about else ()
        for matter in about:
            if matter.by_calls and isinstance(main, SourceModule):
                is_dealt_with = any(map(_runs_programs, files)) or any(
                    matter.code.fullmatch(name) for name in _called(reached_calls(main, project.reading_each(files)))
                )
            else:
                is_dealt_with = any(_deals_with(module, matter) for module in project.reading_each(files))
            if not is_dealt_with:
                yield matter.what

    def _is_label(self, event: LibraryCall, name: str) -> bool:
        """Whether an option only names the run, and something writes down what all options are set to."""
        said = _help_of(event)
        if name not in _LABELS or (said and not _SAYING.search(said)):
            return False
        calls = nodes_of(self.program.module.tree).of(ast.Call)
        return any(_keeps_all(call) for call in calls)

    def _is_of_another(self, event: LibraryCall) -> bool:
        """Whether a script that has to do with no framework adds the very option that one which trains adds."""
        project = self._machine.project
        files = project.closure(self.program.module)
        if any(_deals_with(module, _LEARNING) for module in project.reading_each(files)):
            return False
        text = ast.dump(event.site.node)
        flag = re.compile(re.escape(self.flag_of_option(event)) + r"\b")
        others = (each for each in project.mentioning(flag) if each not in files)
        return any(
            _deals_with(module, _TRAINING) and any(ast.dump(call) == text for call in module.calls["add_argument"])
            for module in project.reading_each(others)
            if "add_argument" in module.calls
        )


def _help_of(event: LibraryCall) -> str:
    said = event.arguments.keywords.get("help")
    return str(said.value) if isinstance(said, Const) else ""


def _deals_with(module: SourceModule, matter: _Matter) -> bool:
    """Whether code of a file (no comments, texts or names of options) has to do with something, or runs programs."""
    if _runs_programs(module):
        return True
    names = _called(nodes_of(module.tree).of(ast.Call)) if matter.by_calls else _names(module.tree)
    return any(matter.code.fullmatch(name) for name in names)


def _runs_programs(module: SourceModule) -> bool:
    """Whether a file runs other programs, or may: it has lost statements."""
    return module.parse_error is not None or module.contains(_OTHER_PROGRAMS)


def _called(calls: Iterable[ast.Call]) -> Iterator[str]:
    """What calls are of, but those that set the mode of a model (`model.train(False)`), go on in an environment
    (`env.step(action)`), or make a trainer of Lightning, whose method tells what it does."""
    for call in calls:
        owner, _, name = ast.unparse(call.func).rpartition(".")
        given = len(call.args) + len(call.keywords)
        is_mode = name == "train" and isinstance(call.func, ast.Attribute) and given < 2
        is_move = name == "step" and given and "optim" not in owner.lower()
        if not (is_mode or is_move or (name == "Trainer" and _LIGHTNING.fullmatch(owner))):
            yield name


def _names(tree: ast.Module) -> Iterator[str]:
    nodes = nodes_of(tree)
    yield from (*nodes.names, *nodes.attributes)
    yield from (part for dotted in imported_names(tree).values() for part in dotted.split("."))
    yield from (part for each in nodes.of(ast.Import) for alias in each.names for part in alias.name.split("."))
    yield from (keyword.arg or "" for call in nodes.of(ast.Call) for keyword in call.keywords)
    yield from (each.arg for each in nodes.of(ast.arg))


def _keeps_all(call: ast.Call) -> bool:
    """Whether a call writes down what all options are set to, or gives them to a logger."""
    name = ast.unparse(call.func).rpartition(".")[2]
    given = {ast.unparse(each) for each in (*call.args, *(keyword.value for keyword in call.keywords))}
    return _KEEPING.search(name) is not None and any(
        each in given or f"vars({each})" in given or f"{each}.__dict__" in given
        for each in ("args", "opt", "opts", "FLAGS")
    )
