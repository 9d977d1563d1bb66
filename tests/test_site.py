"""The documentation site, as far as it is tested without building it; ``.ci/run`` builds it and checks its links."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dllint.confirm.rules import judged
from dllint.registry import load_rules
from dllint.rule import address_of

ROOT = Path(__file__).resolve().parent.parent


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = set(re.findall(r": ([\w/-]+\.md)$", text, re.MULTILINE))
    made = {"index.md", "rules/index.md", "changelog.md", "security.md"}
    assert listed == made | {path.name for path in (ROOT / "docs").glob("*.md")}
    assert yaml.safe_load(text)["strict"] is True


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    faults = script("links").faults
    assert list(faults(tmp_path)) == [f"{tmp_path}: no pages"]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "index.html").write_text(
        '<h1 id="top"></h1><a href="../index.html#there"></a><a href="#top"></a>'
    )
    page = tmp_path / "index.html"
    page.write_text('<p id="there"></p><a href="a/"></a><a href="a/#top"></a><a href="https://elsewhere/"></a>')
    assert list(faults(tmp_path)) == []
    page.write_text('<a href="b/"></a><a href="a/#bottom"></a><script src="https://cdn/x.js"></script>')
    assert {fault.partition(": ")[2] for fault in faults(tmp_path)} == {
        "loads https://cdn/x.js",
        "b/ leads nowhere",
        "a/#bottom has no such anchor",
        "../index.html#there has no such anchor",
    }


def test_a_page_for_each_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    from mkdocs.config import load_config
    from mkdocs.structure.files import Files

    config = load_config(str(ROOT / "mkdocs.yml"))
    config.plugins._current_plugin = "site"  # who makes a file is asked for while an event is told
    files = {file.src_uri: file for file in script("site").on_files(Files([]), config)}
    codes = {rule.code for rule in load_rules()} | set(judged())
    assert {f"rules/{code}.md" for code in codes} <= set(files)
    page = files["rules/DL101.md"].content_string
    assert "```python\nloss = F.cross_entropy(torch.softmax" in page
    assert "## What dllint says" in page and "**help**: pass the logits" in page
    monkeypatch.setattr("dllint.rule.SITE", "https://docs/")
    assert address_of("DL101") == f"https://docs/{files['rules/DL101.md'].url}"
