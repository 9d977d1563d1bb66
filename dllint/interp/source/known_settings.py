"""What a project sets an option to: in configuration files, in classes and dicts of settings, on a command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dllint.dataclass import dataclass
from dllint.interp.source.nodes import nodes_of

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

SETTINGS = re.compile(r"conf|cfg|setting|param|arg|opt|const|hyper|hps?$|flag|dict|namespace", re.IGNORECASE)
_DECLARES = frozenset(("add_argument", "add_option", "option", "argument", "Option", "Argument"))
_COMMAND_LINES = re.compile(  # which make options of the fields of a class, or of the parameters of a function
    r"\b(HfArgumentParser|TrlParser|LightningCLI|simple_parsing|jsonargparse|pyrallis|tyro|fire|typer|chz|Tap|hydra)\b"
)
_OPEN = re.compile(r"[|>&*!\[{-].*|.*\$.*|.*:")  # of YAML: blocks, references, lists, more below it
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False,
          "null": None, "none": None, "~": None}  # fmt: skip
_NO_LITERAL = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)


@dataclass(frozen=True, slots=True)
class Known:
    """The values that a project is seen to give an option.

    ``set_to`` are those of settings, and ``passed`` those under the same name of anything else. ``is_open`` is true
    where it may get others: from the user, or from code. ``remarks`` are the comments beside the settings.
    """

    set_to: tuple[Any, ...] = ()
    passed: tuple[Any, ...] = ()
    is_open: bool = False
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Given:
    """What a file gives an option in one place; ``value`` is ``None`` where that may be anything."""

    value: ast.expr | None
    is_setting: bool = True
    is_option: bool = False  # of a command line


@dataclass(frozen=True, slots=True)
class _Told:
    """The same without the expression: its value, if that is known, and the comment beside it."""

    is_known: bool
    value: Any
    is_setting: bool
    is_option: bool
    remark: str


def known_values(project: Project, main: SourceModule, name: str) -> Known:
    """What a project sets an option of some name to, wherever that is."""
    naming = _naming(name)
    modules = dict.fromkeys((*filter(naming, project.closure(main)), *filter(naming, project.mentioning())))
    set_to: list[Any] = []
    passed: list[Any] = []
    remarks: list[str] = []
    for module in modules:
        with project.reading(module):
            found = _told_in(module, name)
        if any(told.is_option for told in found) and not _run_together(project, main, module):
            found = tuple(told for told in found if not told.is_option)
        for told in found:
            if not told.is_known:
                return Known(is_open=True)
            (set_to if told.is_setting else passed).append(told.value)
            remarks.append(told.remark)
    configured = configured_values(project, name)
    if configured is None:
        return Known(is_open=True)
    return Known((*set_to, *configured), tuple(passed), False, tuple(filter(None, remarks)))


def configured_values(project: Project, name: str) -> tuple[Any, ...] | None:
    """What the configuration files of a project set an option to; ``None`` where that is no plain value."""
    texts = project.configured_as(name)
    return None if any(map(_OPEN.fullmatch, texts)) else tuple(map(_read, texts))


def _naming(name: str) -> Callable[[SourceModule], bool]:
    """Tells whether a file has the name of an option in it, be it as the flag of a command line."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    flag = re.compile(rf"--{re.escape(name.replace('_', '-'))}\b")
    parts = [re.compile(rf"\b{part}\b") for part in name.split("_") if part.isidentifier()]
    has_flag = "_" in name  # that is not seen as the name itself

    def names(module: SourceModule) -> bool:
        return module.contains(word) or (has_flag and all(map(module.contains, parts)) and module.contains(flag))

    return names


def _told_in(module: SourceModule, name: str) -> tuple[_Told, ...]:
    """What a file gives an option. That is asked again for other programs, when the tree of the file may be gone."""
    by_name: dict[str, tuple[_Told, ...]] = module.told.setdefault(_told_in, {})
    if name not in by_name:
        given = (*_given_in(module, name), *_options_in(module, name))
        by_name[name] = tuple(
            _told(module, each) for each in given if each.value is None or not _hands_on(each.value, name)
        )
    return by_name[name]


def _told(module: SourceModule, given: _Given) -> _Told:
    if given.value is None:
        return _Told(False, None, given.is_setting, given.is_option, "")
    is_known, value = literal_of(given.value)
    remark = module.comments.get(given.value.lineno, "") if given.is_setting and is_known else ""
    return _Told(is_known, value, given.is_setting, given.is_option, remark)


def _given_in(module: SourceModule, name: str) -> Iterator[_Given]:
    """What a file gives an option, but for what it only hands on."""
    if not module.has_tree:
        yield _Given(None)
        return
    nodes = nodes_of(module.tree)
    for call in nodes.of(ast.Call):
        is_setting = bool(SETTINGS.search(last_name(call.func)))
        yield from (_Given(each.value, is_setting) for each in call.keywords if each.arg == name)
    for table in nodes.of(ast.Dict):
        entries = zip(table.keys, table.values, strict=True)
        yield from (_Given(value) for key, value in entries if is_text(key, name))
    for function in nodes.of(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda):
        default = default_of(function.args, name)
        yield from [_Given(default, is_setting=False)] if default is not None else ()
    yield from _assigned(nodes.of(ast.Assign), name)
    if SETTINGS.search(module.file.stem):
        yield from _bound_in(module.tree.body, name, is_option=False)
    is_option = module.contains(_COMMAND_LINES)
    for node in nodes.of(ast.ClassDef):
        yield from _bound_in(node.body, name, is_option)
        if SETTINGS.search(node.name):
            yield from _assigned(nodes_of(node).of(ast.Assign), name, of="self")


def _options_in(module: SourceModule, name: str) -> Iterator[_Given]:
    """What the options of a command line may be that a file declares: one of their choices, or anything."""
    for call in nodes_of(module.tree).of(ast.Call):
        function = last_name(call.func)
        if function not in _DECLARES and not function.startswith("DEFINE_"):
            continue
        flags = (*call.args, *(each.value for each in call.keywords if each.arg == "dest"))
        texts = (flag.value for flag in flags if isinstance(flag, ast.Constant) and isinstance(flag.value, str))
        if any(text.lstrip("-").partition("/")[0].replace("-", "_") == name for text in texts):
            choices = next((each.value for each in call.keywords if each.arg == "choices"), None)
            values = choices.elts if isinstance(choices, ast.List | ast.Tuple) else [None]
            yield from (_Given(value, is_option=True) for value in values)


def _run_together(project: Project, main: SourceModule, other: SourceModule) -> bool:
    """Whether some script imports two files, directly or not, or is one of them."""
    return any({main, other} <= set(project.closure(script)) for script in (main, other, *project.mentioning()))


def _assigned(bindings: Sequence[ast.Assign], name: str, of: str = "") -> Iterator[_Given]:
    """What assignments give ``config.name`` or ``config["name"]``; ``of`` is an object that is known to be one."""
    for binding in bindings:
        for target in binding.targets:
            is_entry = isinstance(target, ast.Subscript) and is_text(target.slice, name)
            is_attribute = isinstance(target, ast.Attribute) and target.attr == name
            if isinstance(target, ast.Subscript | ast.Attribute) and (is_entry or is_attribute):
                base = last_name(target.value)
                if base == of or SETTINGS.search(base):
                    yield _Given(binding.value)


def _bound_in(body: Sequence[ast.stmt], name: str, is_option: bool) -> Iterator[_Given]:
    """What the body of a class, or of a file, gives a name; annotated fields may be options of a command line."""
    for statement in body:
        if isinstance(statement, ast.Assign) and any(last_name(target) == name for target in statement.targets):
            yield _Given(statement.value)
        elif isinstance(statement, ast.AnnAssign) and last_name(statement.target) == name:
            yield _Given(None if is_option else statement.value)


def default_of(parameters: ast.arguments, name: str) -> ast.expr | None:
    """The default of a parameter of some name; ``None`` if there is none."""
    positional = [*parameters.posonlyargs, *parameters.args]
    defaulted = positional[len(positional) - len(parameters.defaults) :]
    pairs = (
        *zip(defaulted, parameters.defaults, strict=True),
        *zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True),
    )
    return next((default for parameter, default in pairs if parameter.arg == name), None)


def last_name(node: ast.expr) -> str:
    """``config`` of ``self.config``, and of ``config``."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def literal_of(node: ast.expr) -> tuple[bool, Any]:
    """Whether an expression is a literal, and its value."""
    try:
        return True, ast.literal_eval(node)
    except _NO_LITERAL:
        return False, None


def is_text(node: ast.expr | None, text: str) -> bool:
    """Whether an expression is a certain text."""
    return isinstance(node, ast.Constant) and node.value == text


def _hands_on(value: ast.expr, name: str) -> bool:
    """Whether a value is what another thing has under the same name, or what is looked up under it."""
    if isinstance(value, ast.Call):
        return any(is_text(each, name) or _hands_on(each, name) for each in value.args)
    if isinstance(value, ast.Subscript):
        return is_text(value.slice, name)
    return last_name(value) == name


def _read(text: str) -> Any:
    """The value of a text in a configuration file."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except _NO_LITERAL:
        return text.strip("'\"")
