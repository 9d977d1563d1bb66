"""Facts about libraries: the tables of ``dllint/knowledge`` and the user's additions, compiled for look-up by name."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dllint.dataclass import dataclass
from dllint.interp.source.synonyms import declared_names, last_word, synonyms
from dllint.interp.source.topics import NAMES
from dllint.terms import Framework, Role, TensorKind

if TYPE_CHECKING:
    from dllint.rule import Triggers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KNOWLEDGE = Path(__file__).resolve().parents[2] / "knowledge"
AXES = KNOWLEDGE / "axes.toml"

# The leading parameters of what is declared without any.
_PARAMETERS = {
    "optimizer": ("params",),
    "wrapper": ("module",),
    "seed": ("seed",),
    "loss": ("input", "target"),
}
_MAX_HOPS = 4  # from alias to alias: a user's can be one of another, or of itself

_ROLES: tuple[Role, ...] = (
    *("optimizer", "scheduler", "scaler", "sampler", "loader", "dataset", "clip", "seed", "generator", "checkpoint"),
)


@dataclass(frozen=True, slots=True)
class Removal:
    """Something that a package has no more since a version, and what there is instead (or nothing)."""

    package: str
    version: str
    instead: str

    @classmethod
    def read(cls, text: str) -> Removal:
        """Of ``"numpy 2.0: numpy.inf"``."""
        release, _, instead = text.partition(":")
        package, _, version = release.partition(" ")
        return cls(package, version, instead.strip())


class Facts:
    """What is known about library names. All look-ups take canonical names (see :meth:`canonical`).

    ``user`` is a table of a user's own facts, which come last. ``declared`` are the dotted names in it.
    """

    def __init__(self, tables: Iterable[Mapping[str, Any]], user: Mapping[str, Any] | None = None) -> None:
        self._aliases: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}
        self._canonical: dict[str, str] = {}
        self._factories: dict[str, bool] = {}
        self.roles: dict[str, Role] = {}
        self.signatures: dict[str, tuple[str, ...]] = {}
        self.loss_inputs: dict[str, str] = {}
        self.loss_functions: dict[str, str] = {}
        self.returns: dict[str, TensorKind] = {}
        self.wrapper_prefixes: dict[str, str] = {}
        self.frameworks: dict[str, Framework] = {}
        self.grad_modes: dict[str, str] = {}
        self.contexts: dict[str, str] = {}
        self.spawners: dict[str, Mapping[str, int]] = {}
        self.shape_only: set[str] = set()
        self.shape_only_methods: set[str] = set()
        self.detach: set[str] = set()
        self.detach_of_lists: set[str] = set()
        self.detach_methods: set[str] = set()
        self.packed: set[str] = set()
        self.sequential: set[str] = set()
        self.mode_sensitive: set[str] = set()
        self.mode_sensitive_with_dropout: set[str] = set()
        self.mode_insensitive: set[str] = set()
        self.mode_insensitive_by_default: set[str] = set()
        self.mode_sensitive_prefixes: tuple[str, ...] = ()
        self.mode_insensitive_prefixes: tuple[str, ...] = ()
        self.iteration_wrappers: set[str] = set()
        self.random_generators: set[str] = set()
        self._seeding: set[str] = set()
        self._keeping: set[str] = set()
        self._draws: tuple[tuple[str, re.Pattern[str]], ...] = ()
        self.harmless_modules: set[str] = set()
        self.harmless_methods: set[str] = set()
        self.module_factories: tuple[str, ...] = ()
        self.module_names: tuple[re.Pattern[str], ...] = ()
        self.classifiers: tuple[re.Pattern[str], ...] = ()
        self._with_batch_norms: tuple[re.Pattern[str], ...] = ()
        self.module_classmethods: set[str] = set()
        self.required: dict[str, tuple[str, ...]] = {}
        self.most_positional: dict[str, int] = {}
        self.entered_bare: set[str] = set()
        self._parameters: dict[str, tuple[re.Pattern[str], ...]] = {}
        self.transform_packages: tuple[str, ...] = ()
        self.transforms: dict[str, set[str]] = {}
        self.constants: dict[str, tuple[float, ...]] = {}
        self.removed_names: dict[str, Removal] = {}
        self.returned: dict[str, str] = {}
        self.removed_attributes: dict[str, Removal] = {}
        self.removed_arguments: dict[str, dict[str, Removal]] = {}
        self.removed_texts: dict[str, dict[str, Removal]] = {}
        self.removed_hooks: dict[str, dict[str, Removal]] = {}
        self.removed_defaults: dict[str, Removal] = {}
        self.removed_positions: dict[str, Removal] = {}
        self.newly_required: dict[str, Removal] = {}
        self.raised: dict[str, str] = {}
        self.needed_releases: dict[str, str] = {}
        self.releases_of_long_ago: set[str] = set()
        self.clues: dict[str, dict[str, str]] = {}
        self.companions: dict[str, dict[str, dict[str, str]]] = {}
        self.old_imports: dict[str, str] = {}
        self.old_calls: dict[str, str] = {}
        tables = tuple(tables)
        for table in (*tables, user or {}):
            self._add(table)
        for function in self.loss_functions.values():
            self.signatures.setdefault(function, _PARAMETERS["loss"])
        self.synonyms = synonyms(user or {}, tables, self.canonical)
        self.declared = frozenset(declared_names(user or {}))

    def _add(self, table: Mapping[str, Any]) -> None:
        self._aliases.update(table.get("aliases", {}))
        self._prefixes.update(table.get("prefixes", {}))
        for role in _ROLES:
            for name, signature in table.get(role, {}).items():
                self._add_callable(name, role, signature)
        self._add_losses(table)
        for name, signature in table.get("call-parameters", {}).items():
            self.signatures[name] = _names(signature)
        for name, signature in table.get("required", {}).items():
            self.required[name] = _names(signature)
        self.most_positional.update(table.get("most-positional", {}))
        self.entered_bare.update(table.get("entered-bare", {}).get("managers", ()))
        for name, text in table.get("wrapper", {}).items():
            signature, _, prefix = text.partition(":")
            self._add_callable(name, "wrapper", signature)
            self.wrapper_prefixes[name] = prefix.strip()
        for name, helper in table.get("helper", {}).items():
            self.roles[name] = "helper"
            self.frameworks[name] = helper
        for framework, names in table.get("framework", {}).items():
            self.frameworks.update(dict.fromkeys(names, framework))
        for kind, names in table.get("returns", {}).items():
            self.returns.update(dict.fromkeys(names, kind))
        for mode, names in table.get("grad-mode", {}).items():
            self.grad_modes.update(dict.fromkeys(names, mode))
        for context, names in table.get("context", {}).items():
            self.contexts.update(dict.fromkeys(names, context))
        self.spawners.update(table.get("spawn", {}))
        self._add_sets(table)

    def _add_callable(self, name: str, role: Role, signature: str) -> None:
        self.roles[name] = role
        self.signatures[name] = _names(signature) or _PARAMETERS.get(role, ())

    def _add_losses(self, table: Mapping[str, Any]) -> None:
        for name, fact in table.get("loss", {}).items():
            self._add_callable(name, "loss", fact.get("parameters", ""))
            if "input" in fact:
                self.loss_inputs[name] = fact["input"]
        for name, text in table.get("loss-class", {}).items():
            function, _, signature = text.partition(":")
            self._add_callable(name, "loss-class", signature)
            self.loss_functions[name] = function.strip()

    def _add_sets(self, table: Mapping[str, Any]) -> None:
        shapes = table.get("shape-only", {})
        self.shape_only.update(shapes.get("functions", ()), shapes.get("modules", ()))
        self.shape_only_methods.update(shapes.get("methods", ()))
        detach = table.get("detach", {})
        self.detach.update(detach.get("functions", ()))
        self.detach_of_lists.update(detach.get("of-lists", ()))
        self.detach_methods.update(detach.get("methods", ()))
        self.packed.update(detach.get("packed", ()))
        self.sequential.update(table.get("sequential", {}).get("names", ()))
        module = table.get("module", {})
        self.mode_sensitive.update(module.get("mode-sensitive", ()))
        self.mode_sensitive_with_dropout.update(module.get("mode-sensitive-with-dropout", ()))
        self.mode_insensitive.update(module.get("insensitive", ()))
        self.mode_sensitive_prefixes += tuple(module.get("mode-sensitive-prefixes", ()))
        self.mode_insensitive_prefixes += tuple(module.get("insensitive-prefixes", ()))
        self.mode_insensitive_by_default.update(module.get("insensitive-by-default", ()))
        self.iteration_wrappers.update(table.get("iteration-wrapper", {}).get("names", ()))
        generator = table.get("random-generator", {})
        self.random_generators.update(generator.get("names", ()))
        self._seeding.update(generator.get("seeding", ()))
        self._keeping.update(generator.get("state", ()))
        for family, patterns in table.get("draws", {}).items():
            self._draws += tuple((family, re.compile(pattern)) for pattern in patterns)
        harmless = table.get("harmless", {})
        self.harmless_modules.update(harmless.get("modules", ()))
        self.harmless_methods.update(harmless.get("methods", ()))
        factory = table.get("module-factory", {})
        self.module_factories += tuple(factory.get("prefixes", ()))
        self.module_names += tuple(re.compile(each) for each in factory.get("patterns", ()))
        self.module_classmethods.update(factory.get("classmethods", ()))
        self.classifiers += tuple(re.compile(each) for each in factory.get("classifiers", ()))
        self._with_batch_norms += tuple(re.compile(each) for each in factory.get("with-batch-norms", ()))
        self.constants.update((name, tuple(numbers)) for name, numbers in table.get("constants", {}).items())
        for amount, patterns in table.get("parameters", {}).items():
            self._parameters[amount] = self._parameters.get(amount, ()) + tuple(map(re.compile, patterns))
        removed = table.get("removed", {})
        self.removed_names.update((name, Removal.read(text)) for name, text in removed.get("names", {}).items())
        self.removed_defaults.update((name, Removal.read(text)) for name, text in removed.get("defaults", {}).items())
        attributes = removed.get("attributes", {})
        self.removed_attributes.update((name, Removal.read(text)) for name, text in attributes.items())
        positions = removed.get("positional", {})
        self.removed_positions.update((name, Removal.read(text)) for name, text in positions.items())
        self.newly_required.update((name, Removal.read(text)) for name, text in removed.get("required", {}).items())
        self.raised.update(removed.get("raised", {}))
        self.returned.update(removed.get("returned", {}))
        self.needed_releases.update(removed.get("needs", {}))
        self.releases_of_long_ago.update(removed.get("long-ago", {}).get("releases", ()))
        self.clues.update(removed.get("clues", {}))
        self.companions.update(table.get("companions", {}))
        self.old_imports.update(table.get("old-imports", {}))
        self.old_calls.update(table.get("old-calls", {}))
        of_each = {"arguments": self.removed_arguments, "texts": self.removed_texts, "hooks": self.removed_hooks}
        for kind, known in of_each.items():
            for name, each in removed.get(kind, {}).items():
                known[name] = {part: Removal.read(text) for part, text in each.items()}
        for name, heirs in removed.get("heirs", {}).items():
            for heir in heirs:
                own = self.removed_arguments.get(heir, {})
                self.removed_arguments[heir] = {**self.removed_arguments[name], **own}
        transforms = table.get("transforms", {})
        self.transform_packages += tuple(transforms.get("packages", ()))
        for kind, names in transforms.items():
            if kind != "packages":
                self.transforms.setdefault(kind, set()).update(names)

    def widened(self, triggers: Triggers) -> Triggers:
        """The triggers of a rule, with the words of a user's facts that stand for one of theirs."""
        return tuple(
            (*words, *(word for word, known in self.synonyms.items() if not known.isdisjoint(words)))
            for words in triggers
        )

    @cached_property
    def loss_words(self) -> frozenset[str]:
        """The words by which code computes a loss."""
        return frozenset(last_word(name) for name, role in self.roles.items() if role in ("loss", "loss-class"))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The words by which code makes something with a role: the last parts of all names that have one."""
        return frozenset(last_word(name) for name in (*self.roles, *self.returns, "torch.nn")).union(self.synonyms)

    def canonical(self, name: str) -> str:
        """The one name under which a library object is known here, whatever path it was imported by."""
        known = self._canonical.get(name)
        if known is None:
            known = self._canonical[name] = self._resolve_name(name)
        return known

    def _resolve_name(self, name: str) -> str:
        for _ in range(_MAX_HOPS):
            target = self._aliases.get(name) or self._with_other_prefix(name)
            if target == name:
                break
            name = target
        return name

    def _with_other_prefix(self, name: str) -> str:
        head, _, tail = name.rpartition(".")
        while head:
            if head in self._prefixes:
                return f"{self._prefixes[head]}.{tail}"
            head, _, part = head.rpartition(".")
            tail = f"{part}.{tail}"
        return name

    def role(self, name: str) -> Role:
        """The role of a callable (``optimizer``, ``loss``, ``loader``, …), or an empty string."""
        return self.roles.get(name, "")

    def has(self, name: str) -> bool:
        """Whether there is a fact about what a call of this name does."""
        return name in self.roles or name in self.frameworks or name in self.spawners

    @cached_property
    def packages(self) -> frozenset[str]:
        """The libraries that something is known of, by the name that is imported."""
        return frozenset(name.partition(".")[0] for name in self.signatures)

    @cached_property
    def last_names(self) -> frozenset[str]:
        """The last parts of the names that :meth:`has` knows: what may be one of them in another package."""
        return frozenset(name.rpartition(".")[2] for name in (*self.roles, *self.frameworks, *self.spawners))

    def is_module_class(self, name: str) -> bool:
        """Whether a call of this name makes an ``nn.Module`` of the library."""
        if name.startswith("torch.nn."):
            last = name.rpartition(".")[2]
            return last[:1].isupper() and ".functional." not in name and not last.endswith(("Parameter", "Buffer"))
        return self.is_module_factory(name)

    def is_module_factory(self, name: str) -> bool:
        known = self._factories.get(name)
        if known is None:
            known = name.startswith(self.module_factories) or any(each.match(name) for each in self.module_names)
            self._factories[name] = known
        return known

    def is_classifier(self, name: str) -> bool:
        """Whether the models that a call of this name makes return logits, unless their head is replaced."""
        return any(each.match(name) for each in self.classifiers)

    def has_batch_norms(self, name: str) -> bool:
        """Whether the models that a call of this name makes have batch norms, or what they have under a name
        (``torchvision.models.resnet18.layer1``); where it takes the name of a network, that follows after a colon."""
        return any(each.fullmatch(name) for each in self._with_batch_norms)

    def draws_from(self, name: str) -> str:
        """The library (``torch``, ``numpy``, ``random``) from whose global generator a function draws, or nothing."""
        return next((family for family, pattern in self._draws if pattern.fullmatch(name)), "")

    def seeds_generator(self, name: str) -> bool:
        """Whether a method of a random generator (``torch.Generator.manual_seed``) sets its state."""
        return name.rpartition(".")[2] in self._seeding

    def keeps_state(self, name: str) -> bool:
        """Whether a method of a random generator is about its state, and draws nothing."""
        return name.rpartition(".")[2] in self._seeding | self._keeping

    def has_parameters(self, name: str) -> bool | None:
        """Whether the layers that a call of this name makes have parameters; ``None`` where that is not known."""
        for amount, answer in (("some", True), ("none", False)):
            if any(pattern.fullmatch(name) for pattern in self._parameters.get(amount, ())):
                return answer
        return None

    def transform_kind(self, name: str) -> str:
        """The short name of a torchvision transform (``Normalize``), or an empty string."""
        package, _, last = name.rpartition(".")
        return last if package in self.transform_packages else ""

    def is_harmless(self, name: str) -> bool:
        """Whether a call of this library function leaves optimizers, gradients and modes alone."""
        return "." not in name or name.partition(".")[0] in self.harmless_modules


def _names(signature: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in signature.split(",") if part.strip())


@lru_cache(maxsize=1)
def builtin_tables() -> tuple[Mapping[str, Any], ...]:
    """The tables shipped with dllint, parsed once per process."""
    paths = (path for path in sorted(KNOWLEDGE.glob("*.toml")) if path not in (NAMES, AXES))  # read by others
    return tuple(tomllib.loads(path.read_text("utf-8")) for path in paths)


def load_facts(user: Mapping[str, Any] | None = None) -> Facts:
    """The facts shipped with dllint, with a user's ``[tool.dllint.knowledge]`` table on top."""
    return Facts(builtin_tables(), user)
