"""The words of dllint: one spelling, short messages, and helps that say what to do."""

from __future__ import annotations

import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from dllint.cli import group
from dllint.confirm.rules import judged
from dllint.findings import Finding
from dllint.registry import load_rules
from dllint.testing.cases import read_fixture
from dllint.testing.checking import find_rules
from dllint.testing.linting import Setup, lint

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = [
    path for path in sorted((ROOT / "fixtures").rglob("*.py")) if re.fullmatch(r"(dl|axc)\d+_\w+\.py", path.name)
]
LONGEST = 100

# Stems that are spelled with an s in Britain and with a z in America, and words that differ otherwise.
_STEMS = (
    "normal initial regular optim organ recogn general special summar serial util minim maxim visual standard local "
    "final parallel synchron vector token quant memor priorit categor custom penal random factor emphas character real"
)
BRITISH = re.compile(
    rf"\b((un|de|re|pre)?({'|'.join(_STEMS.split())})is(e|ed|es|ing|er|ers|ation|ations|able)"
    r"|(un|re)?analys(e|ed|ing|er)|(colo|behavio|neighbo|favo|hono)ur\w*|centr(e|es|ed)|(labe|mode|cance)ll(ed|ing)"
    r"|(mis)?spelt|learnt|grey|catalogue|artefact)\b",
    re.IGNORECASE,
)
QUOTED = re.compile(r"``?[^`]*``?|\{[^{}]*\}|\]\([^)]*\)|https?://\S+")

IMPERATIVES = frozenset(
    re.findall(
        r"\w+",
        """
    adapt add align allow apply ask assign average begin bring build cache call cast check choose clean clear clip
    correct clone collect compare compute connect convert copy count create cut decode define delete detach divide do
    draw drop end evaluate exclude fail fill filter find follow force freeze gather generate give group guard hand
    index initialize insert join keep leave let limit list load log look lower make map mark mask match
    measure merge monitor move multiply name normalize open pad pass permute pick prepare print provide put raise read
    rebuild register remove rename replace report reset reshape resize restore resume return reverse run sample save
    scale score seed select send separate set shift shuffle size skip sort split squeeze standardize start
    state step store subtract sum swap switch take tell test train transform transpose turn unfreeze unscale unwrap
    update use validate wait warm weigh weight wrap write
        """,
    )
)


@cache
def findings(path: Path) -> tuple[Finding, ...]:
    """What a rule reports in its own fixture."""
    fixture = read_fixture(path)
    rule = find_rules([fixture.code], load_rules())[0]
    setups = ((case.files, Setup([rule], case.versions, case.explicit, notes=case.notes)) for case in fixture.cases)
    return tuple(found for files, setup in setups for file in lint(files, setup) for found in file.findings)


def texts() -> Iterator[tuple[str, str]]:
    """What is written for people: pages, and the strings and comments of the code, as far as they are sentences."""
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")):
        code = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
        yield str(page.relative_to(ROOT)), code.sub("", page.read_text("utf-8"))
    for path in (*(ROOT / "dllint").rglob("*.py"), *(ROOT / "rules").rglob("*.py"), *(ROOT / "bench").glob("*.py")):
        with tokenize.open(path) as file:
            tokens = list(tokenize.generate_tokens(io.StringIO(file.read()).readline))
        spoken = [token.string for token in tokens if token.type in (tokenize.COMMENT, tokenize.STRING)]
        yield str(path.relative_to(ROOT)), "\n".join(text for text in spoken if " " in text and "(?" not in text)
    for path in (ROOT / "dllint" / "confirm" / "judged").glob("*.toml"):
        yield str(path.relative_to(ROOT)), path.read_text("utf-8")


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for part in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), part)
            assert found is not None
            yield from commands(found, f"{name} {part}")


def test_there_is_one_spelling() -> None:
    read = dict(texts())
    assert len(read) > 300
    wrong = {
        path: sorted({match.group() for match in BRITISH.finditer(QUOTED.sub("", text))}) for path, text in read.items()
    }
    generated = ("docs/corpus-report.md", "docs/rule-api.md")
    assert {path: words for path, words in wrong.items() if words and path not in generated} == {}


def test_the_spelling_of_names() -> None:
    names = [rule.name for rule in load_rules()] + [known.name for known in judged().values()]
    assert [name for name in names if BRITISH.search(name.replace("-", " "))] == []


@pytest.mark.parametrize("path", FIXTURES, ids=[path.stem for path in FIXTURES])
def test_messages_are_short_and_helps_are_imperatives(path: Path) -> None:
    found = findings(path)
    assert found
    for finding in found:
        assert len(finding.message) < LONGEST, finding.message
        assert finding.help.split()[0] in IMPERATIVES, finding.help
        for text in (finding.message, finding.effect, finding.help):
            assert not text.endswith("."), "reports add the full stop"
            assert not re.search(r"\banew\b|is not there|\s\s", text), text


def test_helps_of_what_a_run_shows_are_imperatives() -> None:
    for code, known in judged().items():
        assert not known.help or known.help.split()[0].lower().rstrip(",") in IMPERATIVES, (code, known.help)


def test_log_of_softmax_underflows() -> None:
    rule = next(rule for rule in load_rules() if rule.code == "DL113")
    said = [finding.message for path in FIXTURES if "dl113" in path.name for finding in findings(path)]
    assert said and all("underflows" in message for message in said)
    assert "overflow" not in inspect.cleandoc(rule.__doc__ or "")


def test_options_and_commands_say_what_they_do() -> None:
    for name, command in commands(group, "dllint"):
        assert command.get_short_help_str(limit=200)[0].isupper(), name
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.help and parameter.help[0].isupper(), (name, parameter.name)
                assert parameter.help.partition("  [default")[0].endswith((".", "?")), (name, parameter.help)
