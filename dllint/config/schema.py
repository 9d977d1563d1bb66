"""The table of configuration keys: the one source of validation, of the JSON schema and of the reference.

Each key carries a fragment of JSON schema. :func:`check` understands the few keywords used here, so that what an
editor accepts with the published schema and what dllint accepts cannot differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dllint.dataclass import dataclass
from dllint.errors import nearest

SEVERITIES = ("error", "warning", "info")
CONFIDENCES = ("certain", "likely", "possible")
SAFETIES = ("safe", "unsafe", "suggestion")
FAIL_ON = (*SEVERITIES, "never")
BASELINE_FILE = ".dllint_baseline.json"

_STRING: dict[str, Any] = {"type": "string"}
_STRINGS: dict[str, Any] = {"type": "array", "items": _STRING}
_BOOLEAN: dict[str, Any] = {"type": "boolean"}
_VERSION: dict[str, Any] = {"type": "string", "pattern": r"^\d+(\.\d+)*"}


def _table(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def _record(**values: Mapping[str, Any]) -> dict[str, Any]:
    """A table in which only these keys can stand, their underscores written as hyphens."""
    properties = {name.replace("_", "-"): value for name, value in values.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


_Fault = tuple[tuple[str, ...], str]  # the path of a key, and a message about it

_SIGNATURES = _table(_STRING)
_BANS = {"type": "array", "items": {**_record(call=_STRING, unless=_STRING, message=_STRING), "required": ["call"]}}

# What `dllint/knowledge/*.toml` can say of a library, as far as it makes sense for names of a project.
_KNOWLEDGE = _record(
    aliases=_table(_STRING),
    prefixes=_table(_STRING),
    loss=_table(_record(parameters=_STRING, input={"enum": ["logits", "log-probabilities", "probabilities"]})),
    loss_class=_SIGNATURES,
    optimizer=_SIGNATURES,
    scheduler=_SIGNATURES,
    scaler=_SIGNATURES,
    sampler=_SIGNATURES,
    loader=_SIGNATURES,
    dataset=_SIGNATURES,
    wrapper=_SIGNATURES,
    clip=_SIGNATURES,
    seed=_SIGNATURES,
    checkpoint=_SIGNATURES,
    returns=_record(probabilities=_STRINGS, log_probabilities=_STRINGS, logits=_STRINGS),
    shape_only=_record(functions=_STRINGS, modules=_STRINGS, methods=_STRINGS),
    detach=_record(functions=_STRINGS, methods=_STRINGS, packed=_STRINGS),
    sequential=_record(names=_STRINGS),
    iteration_wrapper=_record(names=_STRINGS),
    harmless=_record(modules=_STRINGS, methods=_STRINGS),
    module=_record(mode_sensitive=_STRINGS, mode_sensitive_with_dropout=_STRINGS, insensitive=_STRINGS),
    module_factory=_record(prefixes=_STRINGS, classmethods=_STRINGS),
)


@dataclass(frozen=True, slots=True)
class Key:
    """One configuration key: its name in TOML, what it accepts, its default (None: not set), and what it means."""

    name: str
    schema: Mapping[str, Any]
    default: Any
    help: str


KEYS: tuple[Key, ...] = (
    Key("extend", _STRING, None, "A configuration file whose values hold where this one sets none."),
    Key(
        "select",
        _STRINGS,
        None,
        "Rules to run instead of the default ones: codes, prefixes, names, categories, PREVIEW, ALL.",
    ),
    Key("extend-select", _STRINGS, [], "Rules to run besides the selected ones."),
    Key("ignore", _STRINGS, [], "Rules not to run. At equal precision it wins over `select`."),
    Key("per-file-ignores", _table(_STRINGS), {}, "Rules not to report in the files that match a glob."),
    Key("severity", _table({"enum": list(SEVERITIES)}), {}, "The severity of a rule, or of all a selector means."),
    Key("fix-safety", _table({"enum": list(SAFETIES)}), {}, "The safety of a rule's fixes in this project."),
    Key("ban", _BANS, [], "Calls that are reported (DL006): their full name, what excuses them, what to say."),
    Key("exclude", _STRINGS, [], "Globs of files and folders to leave out, also when they are named one by one."),
    Key("rule-paths", _STRINGS, [], "Files and folders with rules of the project."),
    Key("plugins", _STRINGS, [], "Installed packages whose rules to load, by name of their entry point."),
    Key("torch-version", _VERSION, None, "The torch version the code runs with; found in requirements when not set."),
    Key("versions", _table(_VERSION), {}, "Versions of torch and of other packages, by name."),
    Key("knowledge", _KNOWLEDGE, {}, "Facts about the project's own losses, models and wrappers."),
    Key("require-reason", _BOOLEAN, False, "Report suppression comments that give no ` -- reason`."),
    Key("time-limit", {"type": "number", "exclusiveMinimum": 0}, 20, "CPU seconds after which a file is given up."),
    Key("fail-on", {"enum": list(FAIL_ON)}, "warning", "The severity from which findings make the exit code 1."),
    Key("confidence", {"enum": list(CONFIDENCES)}, "likely", "How sure a finding must be to be reported."),
    Key("possible", _BOOLEAN, False, 'Report also what is only possible, as `confidence = "possible"` does.'),
    Key("notes", _BOOLEAN, False, "List findings of severity info instead of counting them."),
    Key("baseline", _STRING, BASELINE_FILE, 'The file of known findings, relative to this one; "" for none.'),
)

BY_NAME: dict[str, Key] = {key.name: key for key in KEYS}


def json_schema() -> dict[str, Any]:
    """The JSON schema of ``[tool.dllint]`` and of ``dllint.toml``, for editors and schema stores."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "dllint",
        "description": "Configuration of dllint",
        "type": "object",
        "additionalProperties": False,
        "properties": {key.name: _property(key) for key in KEYS},
    }


def _property(key: Key) -> dict[str, Any]:
    default = {} if key.default is None else {"default": key.default}
    return {**key.schema, "description": key.help, **default}


def check(values: Mapping[str, Any]) -> Iterator[_Fault]:
    """Yield what is wrong with a configuration table: the path of the key, and a message about it."""
    yield from _check_table((), values, {key.name: key.schema for key in KEYS}, False)


def _check_table(
    path: tuple[str, ...], values: Mapping[str, Any], known: Mapping[str, Any], others: Any
) -> Iterator[_Fault]:
    """Check a table: its ``known`` keys, and all others by the schema ``others``, or as errors if that is false."""
    for name, value in values.items():
        here = (*path, name)
        if name in known or others:
            yield from _check_value(here, value, known.get(name, others))
        else:
            yield here, f"unknown key `{'.'.join(here)}`{did_you_mean(name, known)}"


def _check_value(path: tuple[str, ...], value: Any, schema: Mapping[str, Any]) -> Iterator[_Fault]:
    expected = _expectation(schema)
    if not _is_a(value, schema):
        yield path, f"`{'.'.join(path)}` must be {expected}, not {_describe(value)}"
    elif isinstance(value, dict):
        yield from _check_table(path, value, schema.get("properties", {}), schema["additionalProperties"])
        missing = (name for name in schema.get("required", ()) if name not in value)
        yield from ((path, f"`{'.'.join(path)}` lacks the key `{name}`") for name in missing)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict) and schema["items"].get("type") == "object":
                yield from _check_value(path, item, schema["items"])
            elif not _is_a(item, schema["items"]):
                yield path, f"`{'.'.join(path)}` must be {expected}; {_describe(item)} is none"


def _is_a(value: Any, schema: Mapping[str, Any]) -> bool:
    match schema.get("type"):
        case "string":
            return isinstance(value, str) and re.search(schema.get("pattern", ""), value) is not None
        case "boolean":
            return isinstance(value, bool)
        case "number":
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return number and value > schema["exclusiveMinimum"]
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
    return value in schema["enum"]


def _expectation(schema: Mapping[str, Any]) -> str:
    match schema.get("type"):
        case "string":
            return 'a version such as "2.1"' if "pattern" in schema else "a string"
        case "boolean":
            return "true or false"
        case "number":
            return "a number above 0"
        case "array":
            return "a list of tables" if schema["items"]["type"] == "object" else "a list of strings"
        case "object":
            return "a table"
    return "one of " + ", ".join(f'"{choice}"' for choice in schema["enum"])


def _describe(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return f'"{value}"' if isinstance(value, str) else str(value)
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a table"
    return f"a {type(value).__name__}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A clause ``; did you mean `x`?`` with the nearest of the known words, or nothing if none is near."""
    near = nearest(word, known)
    return f"; did you mean `{near}`?" if near else ""
