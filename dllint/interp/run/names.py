"""What a name means: local and global variables, imports across the project, and names of libraries."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from dllint.choices import Choice, choose
from dllint.interp.run.guards import consistent
from dllint.interp.source.bindings import binds_by_imports, tops_of
from dllint.interp.source.stars import given_by
from dllint.sites import Site
from dllint.structure import Block, walk
from dllint.values import Class, Const, External, Instance, ModuleReference, Scope, Setting, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine
    from dllint.interp.source.module import SourceModule

_BUILTINS = frozenset(dir(builtins))
_MODULE_VARIABLES = frozenset(("__file__", "__doc__", "__package__", "__spec__", "__builtins__"))


def lookup(machine: Machine, name: str, scope: Scope) -> Value:
    """The value of a variable as seen from a scope."""
    current: Scope | None = scope
    while current is not None:
        if current.parent is None:
            break
        if name not in current.global_names:
            value = current.variables.get(name)
            if value is not None:
                return under_path(machine, value) if isinstance(value, Choice) else value
        current = current.parent
    return under_path(machine, global_name(machine, name, scope.module))


def take_for_granted(machine: Machine, test: ast.expr, scope: Scope) -> None:
    """Let variables be what a test that holds says: ``kind == "plain"`` behind ``assert kind == "plain"``."""
    for part in test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else (test,):
        if not isinstance(part, ast.Compare) or len(part.ops) != 1 or not isinstance(part.ops[0], ast.Eq):
            continue
        name, constant = part.left, part.comparators[0]
        if isinstance(name, ast.Name) and isinstance(constant, ast.Constant):
            holder = _holder(machine, name.id, scope)
            if isinstance(holder.variables.get(name.id), Symbol | Setting | Choice):
                machine.write(holder.variables, name.id, Const(constant.value))


def _holder(machine: Machine, name: str, scope: Scope) -> Scope:
    """The scope of a variable: this one, one around it, or that of the module."""
    current = scope
    while current.parent is not None and (name not in current.variables or name in current.global_names):
        current = current.parent
    return current


def under_path(machine: Machine, value: Value) -> Value:
    """A value with the options removed that the conditions in force exclude."""
    if not isinstance(value, Choice) or not machine.path:
        return value
    subjects = value.subjects
    relevant = tuple([guard for guard in machine.path if guard.subject in subjects])
    others = _excluded_classes(machine)
    if relevant:
        value = value.narrowed(relevant, lambda guards: consistent(guards, relevant))
    if not others or not isinstance(value, Choice):
        return value
    possible = [(guards, option) for guards, option in value.options if _class_name(option) not in others]
    return choose(possible) if possible and len(possible) < len(value.options) else value


def is_excluded(machine: Machine, value: Value) -> bool:
    """Whether a condition in force says that the class which a value is, or is made from, is not the one."""
    return _class_name(value) in _excluded_classes(machine)


def _excluded_classes(machine: Machine) -> frozenset[str]:
    """The names that the class is known not to have: behind ``model_class.__qualname__ == "Net"``, which is false.

    Scripts hand the class on beside the object, so that this tells of both.
    """
    return frozenset(
        guard.operand
        for guard in machine.path
        if not guard.holds and guard.relation == "==" and guard.subject.endswith((".__name__", ".__qualname__"))
    )


def _class_name(value: Value) -> str | None:
    made_of = value.cls if isinstance(value, Instance) else value
    return made_of.name if isinstance(made_of, Class) else None


def global_name(machine: Machine, name: str, module: SourceModule) -> Value:
    """The value of a module-level name, evaluated on demand if it was not executed, or a builtin."""
    found = module_attribute(machine, module, name)
    if found is not None:
        return found
    if name in _BUILTINS:
        return External(name)
    return machine.module_scope(module).undefined.setdefault(name, Symbol("unknown", detail=name))


def module_attribute(machine: Machine, module: SourceModule, name: str) -> Value | None:
    """What ``module.name`` is, or ``None`` if the module does not bind it."""
    scope = machine.module_scope(module)
    value = scope.variables.get(name) or declared(machine, module, name)
    if value is not None:
        return value
    if name == "__name__":
        return Const("__main__" if module is machine.main else module.name)
    if name in _MODULE_VARIABLES:
        return Symbol("unknown", detail=name)
    if not machine.may_open(module):
        return scope.undefined.setdefault(name, Symbol("unknown", detail=name))
    if machine.project.binds(module, name):
        stars = tops_of(module.tree, _stars_with(machine, module, name))
        tops = dict.fromkeys((*module.bindings.names[name], *stars))
        return _evaluate_binding(machine, module, scope, name, sorted(tops, key=lambda each: each.lineno))
    return _from_star(machine, module, name)


def declared(machine: Machine, module: SourceModule, name: str) -> External | None:
    """What a module-level name is by the user's facts, which call it by the end of its dotted path in the project."""
    if not machine.facts.declared:
        return None
    file = module.file.parent if module.is_package else module.file.with_suffix("")
    parts = [*file.parts, name]
    for length in range(2, len(parts) - len(machine.project.root.parts) + 1):
        dotted = ".".join(parts[-length:])
        if dotted in machine.facts.declared:
            return External(machine.facts.canonical(dotted))
    return None


def of_copied_library(machine: Machine, module: SourceModule, name: str) -> External | None:
    """What a name is in the project's copy of a library, where that is known: it need not be worked out."""
    if name not in machine.facts.last_names:
        return None
    path = machine.project.path_of(module)
    full = machine.facts.canonical(f"{path}.{name}") if path else ""
    return External(full) if machine.facts.has(full) else None


def _evaluate_binding(
    machine: Machine, module: SourceModule, scope: Scope, name: str, statements: list[ast.stmt]
) -> Value:
    """Execute just the top-level statements that bind a name; of the imports in one, those of this name.

    Packages import all they have in one ``if TYPE_CHECKING``: whoever needs one class does not need the others.
    """
    scope.variables[name] = Symbol("unknown", detail=name)  # what a circular definition sees
    block = Block()
    with machine.aside():
        machine.block = block
        for statement in statements[-4:]:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                bind_import(machine, statement, scope, only=name)
            elif not isinstance(statement, ast.For | ast.While | ast.With | ast.AugAssign) and machine.tick():
                outer, scope.wanted = scope.wanted, name if binds_by_imports(statement) else ""
                try:
                    machine.execute(statement, scope)
                finally:
                    scope.wanted = outer
        if isinstance(scope.variables[name], Instance):
            for statement in module.bindings.calls.get(name, ()):
                if statement.lineno > statements[-1].lineno and machine.tick():
                    machine.execute(statement, scope)
    machine.keep_modes(walk(block))
    return scope.variables[name]


def _from_star(machine: Machine, module: SourceModule, name: str) -> Value | None:
    """What a star import brings under a name. Files that import each other so are not asked in a circle."""
    if name.startswith("_") or (module, name) in machine.asked_stars:
        return None
    machine.asked_stars.add((module, name))
    try:
        return _through_stars(machine, module, name)
    finally:
        machine.asked_stars.discard((module, name))


def _stars_with(machine: Machine, module: SourceModule, name: str) -> list[ast.ImportFrom]:
    """The star imports of files of the project that give a name."""
    found: list[ast.ImportFrom] = []
    for star in module.bindings.stars if not name.startswith("_") else ():
        origin = machine.project.find(module, star.module or "", star.level)
        if origin is not None and origin is not module and name in given_by(machine.project, origin, module):
            found.append(star)
    return found


def _through_stars(machine: Machine, module: SourceModule, name: str) -> Value | None:
    origins = [machine.project.find(module, origin, level) for origin, level in module.stars]
    files = [origin for origin in origins if origin is not None and origin is not module]
    if len(files) > 1 and sum(name in given_by(machine.project, file, module) for file in files) > 1:
        tops = list(tops_of(module.tree, _stars_with(machine, module, name)))
        return _evaluate_binding(machine, module, machine.module_scope(module), name, tops)
    for origin, (name_of_origin, level) in zip(reversed(origins), reversed(module.stars), strict=True):
        if origin is not None and origin is not module:
            found = module_attribute(machine, origin, name)
            if found is not None:
                return found
        elif origin is None and not level and name_of_origin:
            full = machine.facts.canonical(f"{name_of_origin}.{name}")
            if full in machine.facts.roles or full in machine.facts.signatures or _is_listed_class(machine, full):
                return External(full)
    return None


def _is_listed_class(machine: Machine, name: str) -> bool:
    """Whether a name is that of a library's module or transform."""
    facts = machine.facts
    is_module = name == "torch.nn.Module" or name in facts.mode_insensitive or name in facts.mode_sensitive
    return is_module or facts.transform_kind(name)[:1].isupper()


def bind_import(machine: Machine, statement: ast.Import | ast.ImportFrom, scope: Scope, only: str = "") -> None:
    """Bind the names of an import statement in a scope (or just the one named)."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            bound = alias.asname or alias.name.partition(".")[0]
            if not only or bound == only:
                target = alias.name if alias.asname else bound
                machine.write(scope.variables, bound, _imported_module(machine, scope.module, target))
        return
    for alias in statement.names:
        bound = alias.asname or alias.name
        if alias.name == "*":
            _bind_star(machine, statement, scope, only)
            continue
        if only and bound != only:
            continue
        value = _imported_name(machine, statement, alias.name, scope.module)
        machine.write(scope.variables, bound, value)


def _bind_star(machine: Machine, statement: ast.ImportFrom, scope: Scope, only: str) -> None:
    """Bind the names of a star import that something else in the file binds as well: which of them holds is told by
    where it stands. All others are looked up when somebody asks for them."""
    project, module = machine.project, scope.module
    origin = project.find(module, statement.module or "", statement.level)
    if scope.parent is not None or origin is None or origin is module:
        return
    others = set(module.bindings.names)
    for star in module.bindings.stars:
        other = project.find(module, star.module or "", star.level) if star is not statement else None
        others |= given_by(project, other, module) if other is not None and other is not module else set()
    for name in sorted(others & given_by(project, origin, module)):
        if name == only or (not only and name in module.words):
            value = module_attribute(machine, origin, name)
            if value is not None:
                machine.write(scope.variables, name, value)


def _imported_module(machine: Machine, importer: SourceModule, name: str) -> Value:
    found = machine.project.find(importer, name)
    if found is not None and found is not importer:
        return ModuleReference(found)
    return External(machine.facts.canonical(name))


def _imported_name(machine: Machine, statement: ast.ImportFrom, name: str, importer: SourceModule) -> Value:
    origin = statement.module or ""
    module = machine.project.find(importer, origin, statement.level)
    if module is not None:
        if module is not importer:
            value = of_copied_library(machine, module, name) or module_attribute(machine, module, name)
            if value is not None:
                return value
        submodule = machine.project.find_submodule(module, name)
        if submodule is not None:
            return ModuleReference(submodule)
        return Symbol("unknown", detail=name, site=Site(importer, statement))
    inside = machine.project.find_in_namespace(importer, origin, statement.level, name)
    if inside is not None:
        return ModuleReference(inside)
    if statement.level:
        return Symbol("unknown", detail=name, site=Site(importer, statement))
    return External(machine.facts.canonical(f"{origin}.{name}"))
