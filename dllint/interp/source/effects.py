"""Whether anything comes of a value that is read somewhere, but that it is shown, or kept where nobody looks."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from dllint.interp.source.bindings import Definition, is_placeholder
from dllint.interp.source.imported import imported_names
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors, enclosing_definition
from dllint.sites import Site

_MAX_HOPS = 5  # from one variable, attribute or parameter to the next
_SHOWING = frozenset(("print", "pprint", "info", "debug", "warning", "warn", "secho"))
_LOGGING = frozenset(
    ("log", "log_dict", "log_param", "log_params", "log_metric", "log_metrics", "log_hyperparams", "log_text",
     "add_text", "add_scalar", "add_scalars", "add_hparams", "set_postfix", "set_postfix_str", "set_description",
     "set_description_str")
)  # fmt: skip
_LOGGERS = re.compile(r"(?i)wandb|mlflow|neptune|comet|clearml|swanlab|log|writer|board|\btb\b|\brun\b|bar\b|\bself\b")
_WRITING_TEXT = frozenset(("write", "writelines"))
_AS_TEXT = frozenset(("str", "repr", "format", "join"))
_CONVERTING = frozenset(("bool", "int", "float", "len", "round", "list", *_AS_TEXT))
_ELEMENTS = frozenset(("items", "values", "keys", "item", "tolist"))
_SETTINGS = frozenset(("args", "opt", "opts", "hparams", "FLAGS", "config", "cfg", "conf", "params"))
_OF_SETTINGS = re.compile(r"(?i)conf|arg|opt|param|cfg|settings")
_PARTS = (
    ast.keyword, ast.BinOp, ast.UnaryOp, ast.Compare, ast.JoinedStr, ast.FormattedValue, ast.Tuple, ast.List, ast.Dict,
)  # fmt: skip
_PLAIN_BASES = frozenset(("object", "Module", "Dataset"))
_IGNORING = re.compile(r"(?i)ignored|unused|not used|deprecated|compatib|no effect|legacy")
_OF_ALL_VARIABLES = frozenset(("locals", "globals", "exec", "eval"))
_OF_ALL_FIELDS = frozenset(("vars", "asdict", "__dict__", "astuple"))
_OF_ALL_ATTRIBUTES = frozenset(("__dict__", "setattr", "getattr"))


class _Read(NamedTuple):
    """A place at which a value is read; ``is_text`` if it is but a part of a text there."""

    module: SourceModule
    node: ast.AST
    is_text: bool = False


class LostValue(NamedTuple):
    """Where a value is lost: in a variable or an attribute that nobody reads, or, if it ``is_given``, in a parameter
    that the function or class ``owner`` does not use.

    It is not ``is_meant`` to be used where the function is not written yet, or says that it ignores the parameter, and
    where a method of the name belongs to an object of which nobody knows what it is.
    """

    site: Site
    name: str
    owner: str
    is_given: bool = False
    is_meant: bool = True


class Effects:
    """Follows values through the statements of some files; in doubt, something comes of them.

    ``lost`` tells where those are lost that were followed, in the order in which this was found.
    """

    def __init__(self, modules: Sequence[SourceModule], may_run: Callable[[Site], bool]) -> None:
        """Take the files in which values are followed.

        Args:
            modules: the files; nothing else reads what these keep.
            may_run: whether somebody may get to a place.
        """
        self._modules = modules
        self._may_run = may_run
        self._seen: set[tuple[object, ...]] = set()
        self.lost: list[LostValue] = []

    def has_effect(self, module: SourceModule, node: ast.AST) -> bool:
        """Whether something comes of a value that is read at a node of a file."""
        return self._follow(_Read(module, node), 0)

    def _follow(self, read: _Read, hops: int) -> bool:
        place = read.module.file, getattr(read.node, "lineno", 0), getattr(read.node, "col_offset", 0)
        if hops > _MAX_HOPS:
            return True
        if place in self._seen or not self._may_run(Site(read.module, read.node)):
            return False  # what was seen is being followed, or came to nothing
        self._seen.add(place)
        inner, is_text = read.node, read.is_text
        for outer in ancestors(Site(read.module, read.node)):
            if isinstance(outer, ast.stmt):
                return self._in_statement(_Read(read.module, inner, is_text), outer, hops)
            if isinstance(outer, ast.Call) and inner is not outer.func:
                name = _last(outer.func)
                if name in _SHOWING or (name in _WRITING_TEXT and is_text) or self._is_logging(outer):
                    return False
                if name not in _CONVERTING:
                    return self._given(_Read(read.module, inner, is_text), outer, hops)
                is_text = is_text or name in _AS_TEXT
            elif isinstance(outer, ast.IfExp) and _are_alike([outer.body], [outer.orelse]) and inner is outer.test:
                return False
            elif isinstance(outer, ast.IfExp | ast.BoolOp):
                if any(isinstance(each, ast.Call) for each in ast.walk(outer)):
                    return True  # whether it is called
            elif not isinstance(outer, _PARTS) and not _is_passed_on(inner, outer):
                return True
            is_text = is_text or isinstance(outer, ast.JoinedStr)
            inner = outer
        return True

    def _in_statement(self, read: _Read, statement: ast.stmt, hops: int) -> bool:
        """Whether something comes of a value that is a part of a statement."""
        if isinstance(statement, ast.Expr):
            return False
        if isinstance(statement, ast.If):
            return not _are_alike(statement.body, statement.orelse) and not all(
                _only_shows(each) or self._is_dead(read, each) for each in (*statement.body, *statement.orelse)
            )
        if isinstance(statement, ast.Assign) and read.node in statement.targets:
            return False  # something else is put into it
        targets: Sequence[ast.expr] = ()
        if isinstance(statement, ast.For) and read.node is statement.iter:
            targets = [each for each in ast.walk(statement.target) if isinstance(each, ast.Name)]
        elif isinstance(statement, ast.Assign) and read.node is statement.value:
            targets = statement.targets
        elif isinstance(statement, ast.AugAssign | ast.AnnAssign) and read.node is statement.value:
            targets = [statement.target]
        return not targets or any(self._kept(read, target, hops) for target in targets)

    def _is_dead(self, read: _Read, statement: ast.stmt) -> bool:
        """Whether a statement only puts what is there already into variables that nobody reads."""
        if not isinstance(statement, ast.Assign) or any(isinstance(each, ast.Call) for each in ast.walk(statement)):
            return False
        targets = [each for each in statement.targets if isinstance(each, ast.Name)]
        return len(targets) == len(statement.targets) and all(
            self._reads_of_variable(read, each) == [] for each in targets
        )

    def _kept(self, read: _Read, target: ast.expr, hops: int) -> bool:
        """Whether somebody makes use of what a variable or an attribute is set to."""
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            reads = self._reads_of_variable(read, target.value)
        elif isinstance(target, ast.Name):
            reads = self._reads_of_variable(read, target)
        elif isinstance(target, ast.Attribute) and _is_of_plain_object(Site(read.module, target)):
            found = self._reads_of_attribute(target.attr)
            is_of_settings = _OF_SETTINGS.search(_owner_of(Site(read.module, target))) is not None
            reads = found and [each for each in found if is_of_settings or not _is_of_settings(each[1])]
        else:
            return True
        if reads is None:
            return True
        if not reads and not isinstance(target, ast.Subscript):
            place = Site(read.module, target)
            self.lost.append(LostValue(place, ast.unparse(target), _owner_of(place)))
        return any(self._follow(_Read(module, node, read.is_text), hops + 1) for module, node in reads)

    def _reads_of_variable(self, read: _Read, target: ast.Name) -> list[tuple[SourceModule, ast.AST]] | None:
        """Where a variable is read; ``None`` where that cannot be told."""
        scope = enclosing_definition(Site(read.module, target))
        by_text = _OF_ALL_VARIABLES if scope is None else _OF_ALL_VARIABLES - {"globals"}
        if isinstance(scope, ast.ClassDef) or not by_text.isdisjoint(nodes_of(read.module.tree).names):
            return None
        if scope is None and any(target.id in each.words for each in self._modules if each is not read.module):
            return None
        around = scope if scope is not None else read.module.tree
        if any(target.id in each.names for each in nodes_of(around).of(ast.Global, ast.Nonlocal)):
            return None
        if any(_names_variable(text, target.id) for text in nodes_of(around).of(ast.Constant)):
            return None
        return [(read.module, node) for node in nodes_of(around).names.get(target.id, ()) if _is_read(node)]

    def _reads_of_attribute(self, name: str) -> list[tuple[SourceModule, ast.AST]] | None:
        """Where an attribute is read, of whatever object; ``None`` where that cannot be told."""
        found: list[tuple[SourceModule, ast.AST]] = []
        for module in self._modules:
            if name not in module.words:
                continue
            if not _OF_ALL_ATTRIBUTES.isdisjoint(module.words):
                return None
            nodes = nodes_of(module.tree)
            if any(node.value == name for node in nodes.of(ast.Constant)):
                return None
            found += [(module, node) for node in nodes.attributes.get(name, ()) if _is_read(node)]
        return found

    def _given(self, read: _Read, call: ast.Call, hops: int) -> bool:
        """Whether what is called, wherever something of its name is defined, does something with what it is given."""
        if self._is_of_library(read.module, call.func):
            return True
        name = name_where_defined(read.module, call.func)
        functions = list(self._defined(name))
        if not functions and isinstance(read.node, ast.keyword) and self._is_field(name, read.node.arg or ""):
            fields = self._reads_of_field(read.node.arg or "")
            return fields is None or any(self._follow(_Read(*each, read.is_text), hops + 1) for each in fields)
        if not functions or name.startswith("__"):
            return True
        for module, function in functions:
            parameter = _parameter(function, call, read.node)
            if not parameter or not _binds(function, call):
                return True
            lost = LostValue(Site(module, function), parameter, name, True, _is_owned(read.module, call.func))
            if self._taken(module, function, lost, hops, is_text=read.is_text):
                return True
        return False

    def _is_of_library(self, module: SourceModule, called: ast.expr) -> bool:
        """Whether what is called is imported from what is no file and no folder of the project: `visdom.Visdom`."""
        root = called
        while isinstance(root, ast.Attribute):
            root = root.value
        dotted = imported_names(module.tree).get(root.id, "") if isinstance(root, ast.Name) else ""
        package = dotted.partition(".")[0]
        return package != "" and not any(
            package == each.file.stem or any(package == folder.name for folder in each.file.parents)
            for each in self._modules
        )

    def _taken(
        self, module: SourceModule, function: ast.FunctionDef, lost: LostValue, hops: int, *, is_text: bool = False
    ) -> bool:
        """Whether a function does something with what it gets as a parameter, or else that is lost there."""
        names = nodes_of(function).names
        if not _OF_ALL_VARIABLES.isdisjoint(names):
            return True
        reads = [node for node in names.get(lost.name, ()) if _is_read(node)]
        if not reads:
            self.lost.append(lost._replace(is_meant=lost.is_meant and _is_meant(function, lost.name)))
        return any(self._follow(_Read(module, node, is_text), hops + 1) for node in reads)

    def has_effect_as_parameter(self, owners: Iterable[str], name: str) -> bool:
        """Whether something comes of what functions and constructors of some names get as a parameter of a name.

        A field of a class that is made with it is read by whoever has the object: that is not followed.
        """
        found = False
        for owner in owners:
            classes = [each for module in self._modules for each in _classes_of(module, owner)]
            if any(_has_annotated(cls, name) for cls in classes):
                return True
            for module, function in self._defined(owner):
                given = function.args
                if name in {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}:
                    found = True
                    if self._taken(module, function, LostValue(Site(module, function), name, owner, is_given=True), 0):
                        return True
        return not found

    def _defined(self, name: str) -> Iterator[tuple[SourceModule, ast.FunctionDef]]:
        return ((module, each) for module in self._modules for each in functions_of(module, name))

    def _is_logging(self, call: ast.Call) -> bool:
        """Whether a call hands what it is given to a logger or a progress bar of a library."""
        name = _last(call.func)
        if name not in _LOGGING or not isinstance(call.func, ast.Attribute) or any(True for _ in self._defined(name)):
            return False
        return name != "log" or _LOGGERS.search(ast.unparse(call.func.value)) is not None  # no logarithm

    def _is_field(self, owner: str, name: str) -> bool:
        """Whether all classes of a name are data classes in which something is a field, and nothing but a field."""
        classes = [each for module in self._modules for each in _classes_of(module, owner)]
        return bool(classes) and all(_has_field(cls, name) for cls in classes)

    def _reads_of_field(self, name: str) -> list[tuple[SourceModule, ast.AST]] | None:
        """Where a field of a data class is read; ``None`` where all fields may be handed on by their names."""
        for module in self._modules:
            calls = nodes_of(module.tree).of(ast.Call) if not _OF_ALL_FIELDS.isdisjoint(module.words) else ()
            if any(keyword.arg is None for call in calls for keyword in call.keywords):
                return None
        return self._reads_of_attribute(name)


def _classes_of(module: SourceModule, name: str) -> Iterator[ast.ClassDef]:
    classes = nodes_of(module.tree).of(ast.ClassDef) if name in module.words else ()
    yield from (each for each in classes if each.name == name)


def _has_annotated(cls: ast.ClassDef, name: str) -> bool:
    """Whether a class has a field of some name."""
    fields = (each.target for each in cls.body if isinstance(each, ast.AnnAssign))
    return any(isinstance(each, ast.Name) and each.id == name for each in fields)


def _has_field(cls: ast.ClassDef, name: str) -> bool:
    """Whether a class has a field of some name, and methods only that do not see to it."""
    methods = {each.name for each in cls.body if isinstance(each, ast.FunctionDef)}
    is_data = any("dataclass" in ast.unparse(each) for each in cls.decorator_list)
    return (
        _has_annotated(cls, name) and is_data and not cls.bases and not any(each.startswith("__") for each in methods)
    )


def _names_variable(text: ast.Constant, name: str) -> bool:
    """Whether a text is a query of pandas that takes up a variable: `frame.query("score >= @threshold")`."""
    return isinstance(text.value, str) and f"@{name}" in text.value


def _is_passed_on(inner: ast.AST, outer: ast.AST) -> bool:
    """Whether an expression has what a part of it has: an element, all elements, or each of them made a text."""
    if isinstance(outer, ast.Subscript):
        return inner is outer.value
    if isinstance(outer, ast.Attribute):
        return outer.attr in _ELEMENTS
    if isinstance(outer, ast.Call):
        return inner is outer.func and _last(inner) in _ELEMENTS
    if isinstance(outer, ast.comprehension):
        return inner is outer.iter
    elements = [outer.elt, *outer.generators[0].ifs] if isinstance(outer, ast.ListComp | ast.GeneratorExp) else []
    calls = [_last(call.func) for each in elements for call in ast.walk(each) if isinstance(call, ast.Call)]
    return bool(elements) and all(name in _CONVERTING for name in calls)


def _are_alike(left: Sequence[ast.AST], right: Sequence[ast.AST]) -> bool:
    """Whether two pieces of code are the same, comments aside."""
    return [ast.dump(each) for each in left] == [ast.dump(each) for each in right]


def functions_of(module: SourceModule, name: str) -> Iterator[ast.FunctionDef]:
    """What a call of a name may run in a file: functions of it, and constructors of classes."""
    if name not in module.words:
        return
    for each in nodes_of(module.tree).of(ast.FunctionDef, ast.ClassDef):
        if each.name == name and isinstance(each, ast.FunctionDef):
            yield each
        elif each.name == name and isinstance(each, ast.ClassDef):
            yield from (e for e in each.body if isinstance(e, ast.FunctionDef) and e.name == "__init__")


def _parameter(function: ast.FunctionDef, call: ast.Call, given: ast.AST) -> str:
    """The parameter of a function that gets an argument of a call; empty where that is not clear."""
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if isinstance(given, ast.keyword):
        return given.arg if given.arg in (*names, *(each.arg for each in arguments.kwonlyargs)) else ""
    if any(isinstance(each, ast.Starred) for each in call.args) or given not in call.args:
        return ""
    place = call.args.index(given) + (names[:1] == ["self"])
    return names[place] if place < len(names) else ""


def name_where_defined(module: SourceModule, called: ast.expr) -> str:
    """The name of what is called, as it is called where it is defined: `Net` for what is imported as `Network`."""
    imported = imported_names(module.tree).get(called.id, "") if isinstance(called, ast.Name) else ""
    return imported.rpartition(".")[2] or _last(called)


def _is_meant(function: ast.FunctionDef, parameter: str) -> bool:
    """Whether a function is written, and does not say of a parameter that it ignores it."""
    lines = (ast.get_docstring(function) or "").split("\n")
    is_ignored = any(re.search(rf"\b{parameter}\b", line) and _IGNORING.search(line) for line in lines)
    return not is_ignored and not all(map(is_placeholder, function.body))


def _is_owned(module: SourceModule, called: ast.expr) -> bool:
    """Whether what is called is a name, a method of `self`, or what a module has, and no method of another object."""
    if not isinstance(called, ast.Attribute):
        return isinstance(called, ast.Name)
    owner = ast.unparse(called.value)
    return owner == "self" or owner in imported_names(module.tree)


def _binds(function: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether a call may give a function all that it needs; where it does not, Python refuses the call."""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return True
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    needed = names[: len(names) - len(function.args.defaults)]
    given = len(call.args) + (names[:1] == ["self"])
    return set(needed[given:]) <= {each.arg for each in call.keywords}


def _only_shows(statement: ast.stmt) -> bool:
    """Whether a statement prints something that is there already, or does nothing."""
    if isinstance(statement, ast.Pass):
        return True
    calls = [_last(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return isinstance(statement, ast.Expr) and all(name in _SHOWING or name in _CONVERTING for name in calls)


def _is_of_plain_object(target: Site) -> bool:
    """Whether an attribute is one of `self` in a class of which no library reads any, but for the mode of a module."""
    owner = _class_around(target)
    node = target.node
    return (
        owner is not None
        and isinstance(node, ast.Attribute)
        and ast.unparse(node.value) == "self"
        and node.attr != "training"
        and {_last(base) for base in owner.bases} <= _PLAIN_BASES
    )


def _class_around(site: Site) -> ast.ClassDef | None:
    return next((each for each in definitions_around(site) if isinstance(each, ast.ClassDef)), None)


def _owner_of(site: Site) -> str:
    owner = _class_around(site)
    return owner.name if owner is not None else ""


def _is_of_settings(node: ast.AST) -> bool:
    """Whether an attribute is one of the settings of a run, by the name of its owner: `self.config.lr`."""
    return isinstance(node, ast.Attribute) and _last(node.value) in _SETTINGS


def _is_read(node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _last(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def definitions_around(site: Site) -> list[ast.AST]:
    """The functions and classes around a place, the innermost first."""
    return [node for node in ancestors(site) if isinstance(node, Definition)]
