"""What the tests of the engine share."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from dllint.findings import Finding
from dllint.registry import load_registry
from dllint.testing.checking import find_rules
from dllint.testing.linting import Setup, lint


def found(codes: str, source: str, files: Mapping[str, str] | None = None) -> list[Finding]:
    """What some rules, named with blanks between them, find in a project of ``main.py`` and other files."""
    setup = Setup(find_rules(codes.split(), load_registry((), ()).rules))
    texts = {name: textwrap.dedent(text) for name, text in {"main.py": source, **(files or {})}.items()}
    return [finding for linted in lint(texts, setup) for finding in linted.findings]
