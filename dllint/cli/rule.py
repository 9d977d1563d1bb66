"""``dllint rule``: the page of a rule, or all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dllint.cli import streams
from dllint.cli.options import complete_rules, configuration, configuration_options

if TYPE_CHECKING:
    from dllint.cli.pages import Page

_ON_ASSUMPTIONS = """\
## What a finding may assume
A finding that assumes nothing is certain if the record of its rule is good: of ten or more such findings in code that
was new to the rule, at most one in fifty was false. Where something is taken for granted, the finding says what. It is
likely if claims that assume such a thing were measured to be true at least nine times in ten, and else possible: a
question, which `--possible` shows and `dllint confirm` can answer."""


@click.command("rule", short_help="Explain a rule.")
@click.argument("rule", required=False, metavar="CODE|NAME", shell_complete=complete_rules)
@click.option("--all", "every", is_flag=True, help="List all rules; as Markdown or JSON, in full.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="The format of the page.",
)
@configuration_options
def command(**given: Any) -> int:
    """Explain the rule of a code or a name: what it finds, what that does to training, what to do about it.

    Codes that only `dllint confirm` prints are explained, too.
    """
    from pathlib import Path

    from dllint.cli.pages import pages
    from dllint.config.resolve import rules_of

    if bool(given["rule"]) == given["every"]:
        raise click.UsageError("give the code or the name of a rule, or --all")
    known = pages(rules_of(configuration(given).load(Path.cwd())))
    chosen = known if given["every"] else [_find(given["rule"], known)]
    if given["output_format"] == "json":
        records = [page.record for page in chosen]
        streams.write(_json(records if given["every"] else records[0]))
    elif given["output_format"] == "text" and given["every"]:
        streams.write(_table(chosen))
    else:
        render = _markdown if given["output_format"] == "markdown" else _text
        streams.write("\n".join([*map(render, chosen), _footer()]))
    return 0


def _find(word: str, known: Sequence[Page]) -> Page:
    from dllint.config.schema import did_you_mean

    for page in known:
        if word in (page.code, page.name) or word.upper() == page.code:
            return page
    words = dict.fromkeys(key for page in known for key in (page.code, page.name))
    raise click.BadParameter(f"unknown rule `{word}`{did_you_mean(word, words)}", param_hint="CODE|NAME")


def _text(page: Page) -> str:
    width = max(len(name) for name, _ in page.facts) + 2
    facts = "\n".join(f"{name + ':':{width}}{value}" for name, value in page.facts)
    return f"{page.title}\n\n{facts}\n\n{page.text}\n"


def _markdown(page: Page) -> str:
    facts = "\n".join(f"- {name}: {value}" for name, value in page.facts)
    return f"# {page.title}\n\n{facts}\n\n{page.text}\n"


def _footer() -> str:
    """What findings of all rules may assume, and how sure that makes them."""
    from dllint.assumptions import KINDS
    from dllint.tiers import confidence_of_kinds

    lines = (f"- {kind} ({confidence_of_kinds({kind})}): {meaning}" for kind, meaning in KINDS.items())
    return f"{_ON_ASSUMPTIONS}\n\n" + "\n".join(lines) + "\n"


def _table(known: Sequence[Page]) -> str:
    rules = [page for page in known if page.is_static]
    observed = [(page.code if page.code != page.name else "", page) for page in known if not page.is_static]
    width = max(len(page.name) for page in known)
    lines = [f"{page.code:6} {page.name:{width}}  {' ' if page.is_default else '-'} {page.summary}" for page in rules]
    lines += ["", "- off by default", "", "What `dllint confirm` alone can show:"]
    lines += [f"{code:6} {page.name:{width}}    {page.summary}" for code, page in observed]
    return "\n".join(lines) + "\n"


def _json(data: Any) -> str:
    import json

    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
