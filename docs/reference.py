"""The parts of the documentation that the code writes: ``python docs/reference.py --write``.

These are the table of rules in the README and ``docs/configuration.md``. Without ``--write`` the exit status tells
whether they are current.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dllint.cli.pages import pages
from dllint.config.schema import KEYS, Key
from dllint.registry import load_rules

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
CONFIGURATION = ROOT / "docs" / "configuration.md"
_RULES = re.compile(r"(?<=<!-- rules -->\n)(?:\|.*\n)*")

_OPENING = """\
# Configuration

dllint reads the nearest `.dllint.toml`, `dllint.toml` or `pyproject.toml` with a table `[tool.dllint]` above a file.
In the first two the keys stand at the top; in `pyproject.toml` they stand below `[tool.dllint]`. One file applies; it
can name another one with `extend`. Options of the command line win over files.

`dllint config --show PATH` shows the values in force, each with the file and the line that sets it; `dllint config
KEY` explains a key. Editors complete and check the file with [the schema](configuration.schema.json) (`dllint config
--schema`).

Rules are named by code (`DL101`), prefix (`DL1`), name (`softmax-before-cross-entropy`) or category (`correctness`);
`ALL` means all of them. A more precise selector wins over a less precise one.

This page is written by `python docs/reference.py --write` from the table that dllint checks configurations with.
"""

_EXAMPLES = {
    "select": 'select = ["DL", "adam-weight-decay"]',
    "ignore": 'ignore = ["DL301"]',
    "per-file-ignores": 'per-file-ignores = { "tests/**" = ["DL2"], "!src/**" = ["DL7"] }',
    "severity": 'severity = { DL207 = "error", suspicious = "info" }',
    "fix-safety": 'fix-safety = { DL101 = "suggestion" }',
    "ban": '[[tool.dllint.ban]]\ncall = "torch.load"\nunless = "weights_only=True"\nmessage = "load weights only"',
    "exclude": 'exclude = ["third_party", "*.gen.py"]',
    "rule-paths": 'rule-paths = ["lints"]',
    "versions": 'versions = { torchvision = "0.15" }',
    "knowledge": '[tool.dllint.knowledge.aliases]\n"mylib.losses.FancyCE" = "torch.nn.CrossEntropyLoss"',
}


def configuration() -> str:
    """The page on all keys."""
    return "\n".join([_OPENING, *map(_section, KEYS)])


def _section(key: Key) -> str:
    default = "not set" if key.default is None else f"`{json.dumps(key.default)}`"
    lines = [f"## `{key.name}`\n", f"{key.help}\n", f"- takes {_kind(key.schema)}\n- default: {default}\n"]
    if example := _EXAMPLES.get(key.name):
        lines.append(f"```toml\n{example}\n```\n")
    if key.name == "knowledge":
        lines.append("What can be said there is in [knowledge.md](knowledge.md).\n")
    return "\n".join(lines)


def _kind(schema: Mapping[str, Any]) -> str:
    """What a schema accepts, in words."""
    if "enum" in schema:
        return "one of " + ", ".join(f'`"{choice}"`' for choice in schema["enum"])
    match schema["type"]:
        case "array":
            return f"a list, each {_kind(schema['items'])}"
        case "object" if "properties" in schema:
            return "a table with " + ", ".join(f"`{name}`" for name in schema["properties"])
        case "object":
            return f"a table from names to {_kind(schema['additionalProperties'])}"
        case "string" if "pattern" in schema:
            return 'a version such as `"2.1"`'
        case "number":
            return "a number above 0"
        case "boolean":
            return "`true` or `false`"
    return "a string"


def rule_rows() -> Iterator[str]:
    """The table of rules."""
    yield "| code | name | by default | finds |"
    yield "| --- | --- | --- | --- |"
    rules = load_rules()
    runs = {rule.code: "preview" if rule.preview else "on" if rule.default else "off" for rule in rules}
    for page in pages(rules):
        if page.is_static:
            yield f"| {page.code} | `{page.name}` | {runs[page.code]} | {page.summary} |"


def written() -> dict[Path, str]:
    """The files as they should be."""
    table = "".join(f"{row}\n" for row in rule_rows())
    return {README: _RULES.sub(lambda _: table, README.read_text("utf-8")), CONFIGURATION: configuration()}


def main() -> int:
    """Write the files, or compare them."""
    files = written()
    if "--write" in sys.argv[1:]:
        for path, text in files.items():
            path.write_text(text, "utf-8")
        return 0
    return int(any(path.read_text("utf-8") != text for path, text in files.items()))


if __name__ == "__main__":
    sys.exit(main())
