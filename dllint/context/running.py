"""Whether what a finding is about runs at all: what has to hold so that somebody gets there, and trains with it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from dllint.assumptions import Assumption, Assumptions
from dllint.context.assuming import Assuming
from dllint.context.starting import PACKAGING, Starting
from dllint.context.switched_off import SwitchedOff
from dllint.events import (
    CallRefused,
    Event,
    ModelForward,
    NameMissing,
    OptimizerStep,
    OptionMissing,
    UnpackingRefused,
)
from dllint.interp.ask.failing_samples import failure_in_part
from dllint.interp.run.failures import Failure, fails_in_training, failure_after, origin_of
from dllint.interp.source.bindings import Definition
from dllint.interp.source.imported_by_name import may_be_imported_by_name
from dllint.interp.source.left_behind import folder_set_aside, is_set_aside, original_of, placeholder_in
from dllint.interp.source.module import SourceModule
from dllint.interp.source.patterns import AnyOf
from dllint.interp.source.positions import ancestors, enclosing_scope, is_never_reached
from dllint.interp.source.trials import (
    defines_only,
    has_main_guard,
    is_main_guard,
    is_tried_in_notebook,
)
from dllint.interp.source.unbound_arms import unbound_after
from dllint.interp.source.unreached_files import leads_nowhere, may_mean
from dllint.interp.source.unread_entries import unread_entry
from dllint.interp.source.users import callers_of_method, is_offered, is_only_trial
from dllint.sites import Site
from dllint.structure import walk

_BASES_THAT_CALL_LITTLE = frozenset(
    ("object", "nn.Module", "Module", "torch.nn.Module", "ABC", "abc.ABC", "Dataset", "data.Dataset",
     "torch.utils.data.Dataset", "IterableDataset", "data.IterableDataset")
)  # fmt: skip
_BACKWARD = re.compile(r"\.backward\(")
_FRAMEWORKS = ("pytorch_lightning", "lightning", "Trainer", "Learner")
_EVALUATES = AnyOf(  # or uses what sets the mode itself
    (".eval", r"\.eval\b"),
    (".train(", r"\.train\((?:mode\s*=\s*)?(?:False|0|\w+ )"),
    ("training", r"\btraining\s*="),
    *((name, rf"\b{name}\b") for name in (*_FRAMEWORKS, "ignite", "catalyst")),
)
_CALLED_BY_MODULES = ("forward", "extra_repr", "reset_parameters")
_STARTS_GROUP = r"\b(?:init_process_group|init_distributed\w*)\("
_MAY_START_GROUP = (  # or code that the project does not have
    r"(?i)init\w*_(?:process_group|dist|ddp|parallel|backend)|dist\w*_(?:init|mode|setup|start|env)|(?:setup|start)\w*_"
    r"(?:dist|ddp|parallel)|accelerat|PartialState|horovod|\bhvd\b|deepspeed|lightning|\bfabric|ignite|idist|torch_xla"
    r"|mmengine|mmcv|detectron2|fairseq|colossalai|megatron|transformers|init_device_mesh|Trainer\b|\bexec\b|\bspawn\b"
    r"|\blaunch|multiprocess"
)
_REFUSED = (CallRefused, NameMissing, OptionMissing, UnpackingRefused)
_IN_ORDER = Assumption("effect", "the cells are run in their order, with the files as they are now")
_ON_A_TRIAL = Assumption("effect", "this is more than a trial of what the file defines")


class Running(Assuming, Starting, SwitchedOff):
    """What is assumed of a program as a whole, and of the definition around a place."""

    def runs(self, site: Site, event: Event | None) -> Iterator[Assumption]:
        """That the program starts, is in use and gets to a place, and that what it does there is training.

        Args:
            site: the place of a claim.
            event: what happens there; without one, nothing tells that the place is reached.
        """
        if is_never_reached(site):
            yield Assumption("effect", "this is reached, although it stands after a statement that leaves its block")
        yield from self._alone(site, event)
        yield from self._unread(site, event)
        yield from self._asked_for(site)
        yield from self._set_aside()
        yield from self.made_up()
        yield from self.is_training((enclosing_scope(site),))
        yield from self.needed(event)
        yield from self.bound_in_cells(site)
        yield from self.kept()
        yield from self.switched_off(site, event)

    def starts_no_processes(self) -> bool:
        """Whether no group of processes is started in this program, as is done in others of its project.

        Where a group is needed, nothing gets any further: ``dist.get_world_size()`` raises without one.
        """
        if self.program.kind != "module" or not self.project_mentions(_STARTS_GROUP, where="elsewhere"):
            return False
        return not self.project_mentions(_MAY_START_GROUP, where="here")

    def _alone(self, site: Site, event: Event | None) -> Iterator[Assumption]:
        """That somebody calls a definition which was interpreted by itself, and calls it so.

        Of what no code names, in a project that has scripts, nobody knows that it is used at all. A library calls the
        methods of a class only if somebody makes objects of it.
        """
        yield from self._failing(site, event)
        if self.program.kind == "module":
            return
        name = self.program.name.partition(".")[0]
        definitions = [each for each in self._top_level(name) if isinstance(each, Definition)]
        if not definitions and site.module is self.program.module:  # it is within others, which hand it on
            yield from self._of_definition(site)
        if not all(self._may_be_called(Site(self.program.module, definition)) for definition in definitions):
            yield self._used(self.program.name)
            return
        for method in self._methods_alone(definitions):
            yield self._used(f"{name}.{method}")
        if self.program.alone is not None:
            told = f"`{self.program.name}` is called, which nothing that could be followed does"
            yield Assumption("entry", told, asks="reached")

    def _methods_alone(self, definitions: Sequence[ast.stmt]) -> Iterator[str]:
        """The method that was interpreted by itself, if no code reads it."""
        name = self.program.name.partition(".")[2]
        for owner in definitions if self.program.alone is not None else ():
            methods = owner.body if isinstance(owner, ast.ClassDef) else []
            own = [each for each in methods if isinstance(each, ast.FunctionDef) and each.name == name]
            if isinstance(owner, ast.ClassDef) and any(not self._is_read(each, owner) for each in own):
                yield name

    def _unread(self, site: Site, event: Event | None) -> Iterator[Assumption]:
        """That somebody uses the definition around a place of which no event tells that it is run, or only a trial."""
        module = self.program.module
        is_in_program = site.module is module
        if is_in_program and is_tried_in_notebook(module):
            yield _ON_A_TRIAL
            return
        if self.program.kind != "module" or (event is not None and not self.is_trial):
            return
        around = [node for node in ancestors(site) if isinstance(node, Definition)]
        if not around and self.is_trial and (event is not None or self._is_in_main(site)):
            yield _ON_A_TRIAL
        unused = tuple(self._of_definition(site)) if event is not None or is_in_program else ()
        yield from unused
        if event is None and is_in_program and not unused:
            yield from self._of_file()

    def _of_file(self) -> Iterator[Assumption]:
        """That somebody imports a file that does nothing by itself, and which no code of the project imports."""
        project, module = self._machine.project, self.program.module
        if module.is_package or module.source.has_cells or not defines_only(module):
            return
        if not project.is_whole_around(module):
            return
        if self._is_named(module) and not leads_nowhere(project, module):
            return
        if may_be_imported_by_name(module, list(project.mentioning()), lambda: self._is_told(module)):
            return
        if self.is_application(module):
            told = f"somebody imports `{module.file.name}`, which no code that runs does"
            yield Assumption("effect", told, asks="reached")

    def _is_named(self, module: SourceModule) -> bool:
        """Whether anything in the project imports a file, runs it, or has its name in it."""
        project, stem = self._machine.project, module.file.stem
        if stem in project.scripts_run or any(self._importers(module)) or any(project.notebooks_with(stem)):
            return True
        return project.is_noted(stem) or any(may_mean(each, stem) for each in self._telling(module))

    def _is_told(self, module: SourceModule) -> bool:
        """Whether anything in the project has the name of a file in it, be it in a comment."""
        return self._is_named(module) or any(True for _ in self._telling(module))

    def _telling(self, module: SourceModule) -> Iterator[SourceModule]:
        """The other files in which the name of a file is a word."""
        telling = self._machine.project.mentioning(re.compile(rf"\b{re.escape(module.file.stem)}\b"))
        return (each for each in telling if each is not module)

    def _of_definition(self, site: Site) -> Iterator[Assumption]:
        """That somebody uses the function, class or method at the top of a file that a place is in."""
        around = [node for node in ancestors(site) if isinstance(node, Definition)]
        definition = around[-1] if around else None
        if definition is None:
            return
        if not self._may_be_called(Site(site.module, definition)):
            yield self._used(definition.name)
        elif isinstance(definition, ast.ClassDef) and len(around) > 1 and not self._is_read(around[-2], definition):
            yield self._used(f"{definition.name}.{around[-2].name}")

    def _asked_for(self, site: Site) -> Iterator[Assumption]:
        """That somebody asks for the entry of a dict that a place is in."""
        name, key = unread_entry(site, self._machine.project)
        if name:
            yield Assumption("effect", f"somebody asks for the entry `{key}` of `{name}`, which no code does")

    def _is_in_main(self, site: Site) -> bool:
        """Whether a place is below the main guard of the program's file."""
        return site.module is self.program.module and any(
            isinstance(node, ast.stmt) and is_main_guard(node) for node in ancestors(site)
        )

    def _is_read(self, method: Any, owner: ast.ClassDef, seen: frozenset[str] = frozenset()) -> bool:
        """Whether some code reads the method of a class, or Python or a library may call it, as it knows the name.

        What only methods of the class call that nothing reads, those of ``seen`` among them, is not read either.
        """
        if not self.is_application(self.program.module):
            return True
        bases = {ast.unparse(base) for base in owner.bases}
        is_static = [ast.unparse(each) for each in method.decorator_list] == ["staticmethod"]
        is_own = bases <= _BASES_THAT_CALL_LITTLE or (
            is_static and not any(base.endswith("Function") for base in bases)
        )
        if not is_own or method.name in _CALLED_BY_MODULES or method.name.startswith("__"):
            return True
        if method.decorator_list and not is_static:
            return True
        project, module = self._machine.project, self.program.module
        if project.is_configured(method.name) or (method.name[:1] != "_" and is_offered(project, module, owner.name)):
            return True
        own = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
        seen |= {method.name}
        callers = (each for each in self._callers_of(method.name, owner.name) if each not in seen)
        return any(each not in own or self._is_read(own[each], owner, seen) for each in callers)

    def _callers_of(self, method: str, owner: str) -> Iterator[str]:
        """The methods of a class that call one of it on their own object; an empty name stands for all other code."""
        project, name = self._machine.project, re.compile(rf"\b{re.escape(method)}\b")
        for user in project.reading_each(chain(project.mentioning(name), project.notebooks_with(method))):
            yield from set(callers_of_method(user.tree, method, owner)) if user.has_tree else ("",)

    def _set_aside(self) -> Iterator[Assumption]:
        """That somebody still runs a file that is kept from earlier, a copy, or a draft, as it says itself."""
        project, module = self._machine.project, self.program.module
        if folder := folder_set_aside(module.file, project.root):
            yield Assumption("effect", f"somebody still runs what is in the folder `{folder}`")
        elif is_set_aside(module):
            yield Assumption(
                "effect", f"somebody still runs `{module.file.name}`, which is set aside, as it says itself"
            )
        elif (original := original_of(module.file, project.names_in(module.file.parent))) and self._is_extra():
            yield Assumption("effect", f"somebody runs `{module.file.name}`, a copy of `{original}` by its name")
        elif (path := placeholder_in(module)) and self._is_extra():
            yield Assumption("effect", f"somebody has put a path in the place of `{path}`")

    def _is_extra(self) -> bool:
        """Whether a file is one of several scripts, and neither imported nor run by a command that is written down."""
        project, module = self._machine.project, self.program.module
        if module.file.stem in project.scripts_run or any(self._importers(module)):
            return False
        others = (each for each in project.reading_each(project.mentioning()) if each.file != module.file)
        return any(each.has_tree and (has_main_guard(each) or each.is_script) for each in others)

    def _failing(self, site: Site, event: Event | None) -> Iterator[Assumption]:
        """That a script which certainly fails at some line is mended, if no other file imports it for what is found.

        So does what fails in the part of a program that comes to an event: in the mode of a script that trains. A call
        that Python refuses is reported itself, and is mended by who reads that, if somebody runs the script.
        """
        failure, body = self._machine.failed_at, self.program.body
        if failure is not None:
            whole = Failure(failure, body, fails_in_training(body))
            if self.program.kind == "module" and self._comes_first(site, event, whole):
                return
            is_main = self.program.kind == "module" and self._is_in_main(site)  # who imports the file has none of it
            if is_main or not any(self._importers(self.program.module)):
                yield Assumption("effect", f"the script goes on after line {failure.line}, where it fails")
            return
        yield from self._of_arm(site, event)
        found = failure_after(body, event) if event is not None else None
        if found is not None and not self._comes_first(site, event, found):
            place = f"line {found.site.line} of `{found.site.path.rpartition('/')[2]}`"
            yield Assumption("effect", f"{place} is mended, which fails whatever it is given")
        elif found is None and self.program.kind == "module":
            part = failure_in_part(self._machine, self.program.body, event.guards if event is not None else ())
            if part is not None and part[0].line != site.line:
                place = f"line {part[0].line} of `{part[0].path.rpartition('/')[2]}`"
                yield Assumption("effect", f"{place} is mended, where {part[1]} fails whatever it is given")

    def _of_arm(self, site: Site, event: Event | None) -> Iterator[Assumption]:
        """That a name is bound which only the other arm of a branch binds, and which is read after both of them.

        What has trained in the arm itself has had its effect by then.
        """
        if isinstance(event, _REFUSED):  # which comes before that
            return
        calls = [frame.call for frame in event.frame.stack() if frame.call is not None] if event is not None else []
        for place in (site, *calls):
            found = unbound_after(place)
            if found is not None and not self._trains_in(Site(place.module, found[0])):
                told = f"`{found[1].id}` is bound, which line {found[1].lineno} reads and this branch does not bind"
                yield Assumption("effect", told)
                return

    def _trains_in(self, statement: Site) -> bool:
        """Whether an optimizer steps in what a statement does."""
        first, last = statement.line, getattr(statement.node, "end_lineno", None) or statement.line
        return any(
            place is not None and place.module is statement.module and first <= place.line <= last
            for event in self.all_of(OptimizerStep)
            for place in (event.site, *(frame.call for frame in event.frame.stack()))
        )

    def _comes_first(self, site: Site, event: Event | None, failure: Failure) -> bool:
        """Whether what is found at a place has its effect although the script fails: it is the failure, or it trained.

        What trains to the end may have kept what it learned; what fails in its first round has not.
        """
        is_there = failure.site.module is site.module and failure.site.line == site.line
        is_failure = is_there and not isinstance(event, ModelForward)  # what it gives is lost
        told = tuple(found for kind in _REFUSED for found in self.all_of(kind))
        is_failure = is_failure or any(each.site.node is site.node for each in told)
        events, origin = tuple(walk(failure.body)), origin_of(failure.body) or failure.site
        refused = (each for each in events if isinstance(each, CallRefused))
        is_reported = any(each.site.line == origin.line for each in refused) and not self.assumed_run()
        has_trained = any(isinstance(each, OptimizerStep) for each in events)
        return is_failure or is_reported or (has_trained and not failure.in_training)

    @cached_property
    def is_trial(self) -> bool:
        """Whether all that the program's file does when it is run is to try out what it defines, mostly for others."""
        return is_only_trial(self._machine.project, self.program.module)

    def assumed_to_get_to(self, site: Site) -> Assumptions:
        """What a claim that a line fails assumes: that somebody runs the script, or the cells of it in their order."""
        if site.module.source.has_cells:
            return (_IN_ORDER,)
        return (*self.assumed_run(), *self._assumed_in_package(site))

    def _assumed_in_package(self, site: Site) -> Assumptions:
        """That a script is run by `python -m`, as relative imports ask for, if nothing says it."""
        module = self.program.module
        imports = (node for node in module.tree.body if isinstance(node, ast.ImportFrom))
        if self.program.kind != "module" or not any(node.level for node in imports):
            return ()
        is_run = module.file.stem in self._machine.project.scripts_run
        if is_run or (any(self._importers(module)) and not self._is_in_main(site)):
            return ()
        return (
            Assumption("effect", f"somebody runs `{module.file.name}` by `python -m`, as its relative imports need"),
        )

    def assumed_run(self) -> Assumptions:
        """What a claim that a script fails assumes: that somebody runs it.

        Where nobody imports it, and the commands in the project's notes run other scripts of it, nobody may.
        """
        module, scripts = self.program.module, self._machine.project.scripts_run
        others = {file.stem for file in self._machine.project.files if file.name not in PACKAGING} & scripts
        is_left_out = bool(others) and module.file.stem not in others
        if not is_left_out or module.source.notebook is not None or any(self._importers(module)):
            return ()
        return (Assumption("effect", f"somebody runs `{module.file.name}`, as no command of the project does"),)

    def assumed_evaluated(self) -> Assumptions:
        """What a claim about evaluation assumes where a project trains, and nothing in it ever sets that mode."""
        project = self._machine.project
        if not project.is_whole_around(self.program.module) or not any(project.mentioning(_BACKWARD)):
            return ()
        in_notebooks = (book for name in ("eval", *_FRAMEWORKS) for book in project.notebooks_with(name))
        if any(project.mentioning(_EVALUATES)) or any(in_notebooks):
            return ()
        return (Assumption("effect", "somebody evaluates the model, which no code of the project does"),)

    def _used(self, name: str) -> Assumption:
        return Assumption("effect", f"somebody uses `{name}`, which no code that runs names", asks="reached")

    def _top_level(self, name: str) -> Sequence[ast.stmt]:
        """The statements at the top of the program's file that bind a name."""
        statements: Sequence[ast.stmt] = self.program.module.bindings.names.get(name, ())
        return statements

    def _may_be_called(self, definition: Site) -> bool:
        """Whether something in the project that runs may use a definition: code, a notebook or a configuration file.

        Of a library, of a file by itself, and of a part of a project the callers are outside.
        """
        project = self._machine.project
        is_here = definition.module is self.program.module
        own = self.program.module if is_here else project.module(definition.module.source.path)
        if own is None or not isinstance(definition.node, ast.stmt) or project.uses(own, definition.node):
            return True
        return not self.is_application(own)
