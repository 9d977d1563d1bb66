"""What MkDocs builds beside the pages in this folder: a page for each rule, and those of the files at the top.

Each page of a rule shows what dllint says of the first bug in the rule's fixture, linted while the site is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from dllint.cli.pages import Page, pages
from dllint.findings import Finding
from dllint.registry import load_rules
from dllint.rule import Rule
from dllint.testing.cases import read_fixture
from dllint.testing.linting import Setup, lint

ROOT = Path(__file__).resolve().parent.parent
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)]+)\)")  # links to files of the repository that are no pages
_RECIPE = re.compile(r"(?m)^\[[^\]]+\]\((recipes/\w+\.yml)\)$")
_CODE = re.compile(r"(?m)(?:^ {4}\S.*\n(?:(?: {4}.*)?\n)*)+")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made here."""
    known = pages(load_rules())
    rules = {rule.code: rule for rule in load_rules()}
    made = {f"rules/{page.code}.md": _page(page, rules.get(page.code)) for page in known}
    made["rules/index.md"] = _index(known)
    made["index.md"] = _readme(known)
    for name in ("CHANGELOG", "SECURITY"):
        made[f"{name.lower()}.md"] = (ROOT / f"{name}.md").read_text("utf-8")
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Show recipes where they are linked, and name files that are no pages instead of linking to them."""
    shown = _RECIPE.sub(lambda match: f"```yaml\n{(ROOT / 'docs' / match[1]).read_text('utf-8')}```", markdown)
    return _OUTSIDE.sub(r"\1 (`\2`)", shown)


def _page(page: Page, rule: type[Rule] | None) -> str:
    facts = "\n".join(f"- **{name}**: {_linked(value)}" for name, value in page.facts)
    shown = "".join(_said(rule)) if rule is not None else ""
    return f"# {page.title}\n\n{facts}\n\n{_fenced(page.text)}\n\n{shown}"


def _linked(value: str) -> str:
    return f"<{value}>" if value.startswith("https://") else value


def _fenced(text: str) -> str:
    """The indented examples of a page as Python."""

    def block(match: re.Match[str]) -> str:
        code = "\n".join(line[4:] for line in match.group().rstrip().split("\n"))
        return f"\n```python\n{code}\n```\n\n"

    return re.sub(r"(?m)^(## .*)\n(?=\S)", r"\1\n\n", _CODE.sub(block, f"{text}\n"))


def _said(rule: type[Rule]) -> Iterator[str]:
    """What dllint says of the first bug in the fixture of a rule."""
    found = _first_finding(rule)
    if found is not None:
        code, finding = found
        yield f"## What dllint says\n\nOf this code:\n\n```python\n{code}\n```\n\n"
        yield f"- **{finding.severity}** in line {finding.location.line}: {finding.message}\n"
        yield "".join(f"- **{word}**: {text}\n" for word, text in (("effect", finding.effect), ("help", finding.help)))


def _first_finding(rule: type[Rule]) -> tuple[str, Finding] | None:
    fixtures = sorted((ROOT / "fixtures").rglob(f"{rule.code.lower()}_*.py"))
    for case in read_fixture(fixtures[0]).cases if fixtures else ():
        if len(case.files) == 1 and not case.explicit:
            [(name, text)] = case.files.items()
            for file in lint({name: text}, Setup([rule], case.versions)):
                if file.findings:
                    return re.sub(rf"\s*# {rule.code}\b.*", "", text).strip("\n"), file.findings[0]
    return None


def _index(known: list[Page]) -> str:
    static = "\n".join(_row(page) for page in known if page.is_static)
    observed = "\n".join(_row(page) for page in known if not page.is_static)
    head = "| code | name | finds |\n| --- | --- | --- |\n"
    return (
        "# Rules\n\nThe page of each rule says what the bug costs, with a number, what is not reported, and how often "
        f"the rule was right on public code.\n\n## Found in code\n\n{head}{static}\n\n## Shown by a run\n\nThese have "
        f"no static half yet: `dllint confirm` shows them.\n\n{head}{observed}\n"
    )


def _row(page: Page) -> str:
    return f"| [{page.code}]({page.code}.md) | `{page.name}` | {page.summary} |"


def _readme(known: list[Page]) -> str:
    """The README, whose links are those of this folder and whose rules link to their pages."""
    text = (ROOT / "README.md").read_text("utf-8").replace("](docs/", "](").replace("[docs/", "[")
    text = text.replace("](CHANGELOG.md)", "](changelog.md)").replace("](SECURITY.md)", "](security.md)")
    text = text.replace("[MIT license](LICENSE)", "MIT license")
    for page in known:
        text = text.replace(f"| {page.code} | `", f"| [{page.code}](rules/{page.code}.md) | `")
    return text
