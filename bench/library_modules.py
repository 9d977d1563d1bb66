"""The names that the modules of a library bind, read off its wheel or source archive: nothing is imported or run."""

from __future__ import annotations

import ast
import re
import tarfile
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

# What makes names that are not written in a module: wherever it stands, or outside of functions.
_MAKES_NAMES = re.compile(
    r"\bglobals\s*\(\s*\)(?!\[[\"']__\w+__[\"']\])|\bexec\s*\(|\bsetattr\s*\(\s*(sys\.modules|\w*mod(ule)?\b)"
)
_MAKES_NAMES_AT_TOP = re.compile(r"\b(locals|vars)\s*\(\s*\)|\bsetattr\s*\(|\b__dict__\b")
_REPLACES_MODULES = re.compile(
    r"\bsys\.modules\b(?!\[__name__\] = _LazyModule)|\b__path__\b|\bimport_hook|\bsys\.meta_path\b"
)
_PASSES_ON = re.compile(r"\bgetattr\s*\(|\bimport_module\s*\(|\b__import__\s*\(")
_IS_LAZY = re.compile(r"\b_LazyModule\(|\battach_stub\(|\blazy\.attach\(|\b__getattr__\b|\b_import_structure\b")
_WORD = re.compile(r"[^\W\d]\w*")
_TESTS = frozenset(("test", "tests", "test_utils", "testing_utils", "testing_utils.py"))
_COMPILED = (".so", ".pyd", ".dylib")


@dataclass
class Module:
    """What a file binds at its top: its own names, those that it only uses itself, and the modules of its stars.

    A package hands on what it imports of the library, and any module what it tells in ``__all__``: these are its own.
    ``strings`` are the words in its strings, of which a lazy module may make names. What ``is_open`` may have any name.
    """

    name: str
    is_package: bool
    own: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    stars: set[str] = field(default_factory=set)
    strings: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)  # attributes that are set, perhaps of modules
    is_lazy: bool = False
    is_open: bool = False
    tells_all: bool = False  # that a star takes of it
    replaces: bool = False  # other modules, or where they are found

    def size(self) -> tuple[int, ...]:
        """How much is known, which grows."""
        return (len(self.own), len(self.used), len(self.strings), self.is_lazy, self.is_open)


@dataclass
class Release:
    """The modules of one release of a library by name, stars resolved."""

    version: str
    modules: dict[str, Module]
    assigned: set[str]

    def names(self, module: str) -> set[str]:
        """What is certainly written to be in a module."""
        found = self.modules[module]
        return found.own | found.used

    def certainly_lacks(self, module: str, name: str) -> bool:
        """Whether nothing in the library can give a module this name."""
        found = self.modules.get(module)
        if found is None:
            return self.has_no_module(module)
        if found.is_open or name in found.own or name in found.used or name in self.assigned:
            return False
        if f"{module}.{name}" in self.modules or any(
            other.replaces and name in other.strings for other in self._above(module)
        ):
            return False
        return not found.is_lazy or name not in found.strings

    def has_no_module(self, name: str) -> bool:
        """Whether there is no such module, and no package above makes one that is not a file."""
        last = name.rpartition(".")[2]
        for above in self._above(name.rpartition(".")[0]):
            if above.is_open or ((above.is_lazy or above.replaces) and last in above.strings | above.own | above.used):
                return False
        return name not in self.modules

    def _above(self, module: str) -> Iterator[Module]:
        while module:
            if module in self.modules:
                yield self.modules[module]
            module = module.rpartition(".")[0]


def read_release(library: str, version: str, archive: Path, unread: str = "") -> Release:
    """What a release has, by the archive that is published of it.

    Modules whose paths match ``unread`` are open: to read them takes long, and few programs import from them.
    """
    modules: dict[str, Module] = {}
    for path, text in _files(library, archive):
        stem = path.name.partition(".")[0]
        is_package = stem == "__init__"
        parts = path.parts[:-1] if is_package else (*path.parts[:-1], stem)
        name = ".".join(parts)
        for size in range(1, len(parts)):  # a folder without `__init__.py` is a package, too
            modules.setdefault(".".join(parts[:size]), Module(".".join(parts[:size]), True))
        if path.suffix in _COMPILED:
            modules.setdefault(name, Module(name, is_package)).is_open |= name not in modules or not modules[name].own
            continue
        is_unread = unread and re.search(unread, path.as_posix())
        read = Module(name, is_package, is_open=True) if is_unread else _read(name, is_package, text)
        known = modules.get(name)
        modules[name] = _joined(known, read, path.suffix == ".pyi") if known is not None else read
    for name in list(modules):
        head, _, last = name.rpartition(".")
        if head in modules:
            modules[head].own.add(last)
    _resolve_stars(modules)
    assigned = set().union(*(module.assigned for module in modules.values())) if modules else set()
    return Release(version, modules, assigned)


def _files(library: str, archive: Path) -> Iterator[tuple[PurePosixPath, str]]:
    """The files of a library in an archive, by their paths from where it is imported."""
    if archive.suffix in (".whl", ".zip"):
        opened = zipfile.ZipFile(archive)
        names, read = opened.namelist(), opened.read
    else:
        tar = tarfile.open(archive)  # noqa: SIM115
        names, read = tar.getnames(), lambda name: tar.extractfile(name).read()  # type: ignore[union-attr]
    for name in sorted(names):
        parts = PurePosixPath(name).parts
        at = next((i for i, part in enumerate(parts[:3]) if part == library or part == f"{library}.py"), None)
        path = PurePosixPath(*parts[at:]) if at is not None else None
        if path is None or path.suffix not in (".py", ".pyi", *_COMPILED) or not _TESTS.isdisjoint(path.parts):
            continue
        yield path, "" if path.suffix in _COMPILED else read(name).decode("utf-8", "replace")


def _read(name: str, is_package: bool, text: str) -> Module:
    module = Module(name, is_package)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        module.is_open = True
        return module
    module.replaces = _REPLACES_MODULES.search(text) is not None
    module.is_lazy = _IS_LAZY.search(text) is not None
    module.is_open = _makes_names(text, tree)
    if module.is_lazy or module.replaces or is_package:
        constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        module.strings = {word for each in constants if isinstance(each, str) for word in _WORD.findall(each)}
    for node in _outside_functions(tree):
        _bind(module, node)
    told = _told(tree)
    module.own |= module.used & told
    module.tells_all = bool(told) and "__all__ +=" not in text
    for node in ast.walk(tree) if "global " in text else ():
        if isinstance(node, ast.Global):
            module.own.update(node.names)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            module.is_open |= _PASSES_ON.search(ast.unparse(node)) is not None and "_LazyModule" not in text
    return module


def _makes_names(text: str, tree: ast.Module) -> bool:
    if _MAKES_NAMES.search(text):
        return True
    if not _MAKES_NAMES_AT_TOP.search(text):
        return False
    expressions = (node.value for node in _outside_functions(tree) if isinstance(node, ast.Expr | ast.Assign))
    return any(_MAKES_NAMES_AT_TOP.search(ast.unparse(each)) for each in expressions)


def _outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes at the top level of a module, at any depth of conditions."""
    pending: list[ast.AST] = [tree]
    while pending:
        for node in ast.iter_child_nodes(pending.pop()):
            yield node
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
                pending.append(node)


def _bind(module: Module, node: ast.AST) -> None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        module.own.add(node.name)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        module.own.add(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        module.assigned.add(node.attr)
    elif isinstance(node, ast.ExceptHandler) and node.name:
        module.own.add(node.name)
    elif isinstance(node, ast.Import):
        module.used.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        _bind_from(module, node)


def _told(tree: ast.Module) -> set[str]:
    """The names in what is assigned to ``__all__``, or added to it."""
    told = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AugAssign) and "__all__" in ast.unparse(node).partition("=")[0]
    )
    return {str(part.value) for each in told for part in ast.walk(each) if isinstance(part, ast.Constant)}


def _bind_from(module: Module, node: ast.ImportFrom) -> None:
    parts = module.name.split(".")
    base = parts[: len(parts) - node.level + module.is_package] if node.level else []
    origin = ".".join([*base, *(node.module.split(".") if node.module else [])])
    is_here = origin.partition(".")[0] == parts[0]
    for alias in node.names:
        if alias.name == "*":
            module.stars.add(origin)
        else:
            (module.own if is_here and module.is_package else module.used).add(alias.asname or alias.name)


def _joined(known: Module, read: Module, is_stub: bool) -> Module:
    """One module of a file and its stub, or of what is compiled and its stub."""
    for part in ("own", "used", "stars", "strings", "assigned"):
        getattr(read, part).update(getattr(known, part))
    read.is_lazy |= known.is_lazy
    read.replaces |= known.replaces
    read.is_open = known.is_open if is_stub else known.is_open or read.is_open
    return read


def _resolve_stars(modules: dict[str, Module]) -> None:
    """Give each module what it takes of others; what takes names of an unknown or open module is open."""
    changed = True
    while changed:
        changed = False
        for module in modules.values():
            for star in module.stars:
                other = modules.get(star)
                before = module.size()
                module.is_open |= other is None or (other.is_open and not other.tells_all)
                if other is not None:
                    module.own |= other.own
                    module.used |= other.used
                    module.strings |= other.strings if other.is_lazy else set()
                    module.is_lazy |= other.is_lazy
                changed |= before != module.size()
