"""The reference for authors of rules is what the code says, and the code says something about each of its members."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def page() -> str:
    spec = importlib.util.spec_from_file_location("rule_api", ROOT / "bench" / "rule_api.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = module.page()
    assert isinstance(text, str)
    return text


def test_reference_is_current() -> None:
    written = (ROOT / "docs" / "rule-api.md").read_text("utf-8")
    assert written == page(), "run `python bench/rule_api.py --write`"


def test_everything_is_documented() -> None:
    assert re.findall(r"^\| (`[^|]*`) \|\s*\|$", page(), re.MULTILINE) == [], "these have no docstring"
