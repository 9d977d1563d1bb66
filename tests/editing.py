"""What tests of edits share: a text after its edits, and the statements in it."""

from __future__ import annotations

import ast
from pathlib import Path

from dllint.files.source import SourceFile
from dllint.findings import Edit, Finding, Fix
from dllint.fixes import apply_fixes

HERE = Path("module.py")


def applied(source: SourceFile, edits: tuple[Edit, ...]) -> str:
    """The text after edits, put through the fixer as a rule's would be."""
    place = source.location_of(0, 0)
    finding = Finding("DL999", "x", "x", place, "error", "correctness", fixes=(Fix("x", edits, "safe"),))
    step = apply_fixes(source, [finding], unsafe=False)
    assert step.applied or not edits
    return step.text


def statements(tree: ast.Module) -> list[ast.stmt]:
    """All statements of a module, in no order that matters."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
