"""``dllint new``: the files a new rule starts from."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from dllint.cli import streams
from dllint.cli.options import configuration, configuration_options

_CODE = re.compile(r"(DL[1-9])(\d\d|[xX]{2})")

_FAMILIES = {
    "DL1": "loss",
    "DL2": "loop",
    "DL3": "optim",
    "DL4": "data",
    "DL5": "vision",
    "DL6": "finetune",
    "DL7": "checkpoint",
    "DL8": "precision",
    "DL82": "tensor",
    "DL83": "tensor",
    "DL84": "script",
    "DL87": "metrics",
    "DL9": "llm",
    "DL94": "diffusion",
    "DL95": "rl",
}

_RULE = '''\
"""What is wrong, as a noun phrase.

What it does to training, and how that comes about.

Measured on torch ...: what you have found, in numbers.

## Bad
    loss = F.cross_entropy(model(x), target, reduction="sum")

## Good
    loss = F.cross_entropy(model(x), target)

## Not reported
What looks like it and is right.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, LossCall, Rule


class {class_name}(Rule):
    code = "{code}"
    name = "{name}"
    category = "correctness"
    since = "{version}"
    triggers = (("cross_entropy", "CrossEntropyLoss"),)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss == "torch.nn.functional.cross_entropy" and ctx.constant(event.options.get("reduction")) == "sum":
            yield ctx.finding(
                self,
                event,
                "what is there, and what follows from it",
                effect="what it does to training",
                help="what to do about it",
            )
'''

_FIXTURE = """\
# Each case is checked as it is written, in variations that must not matter, and with doubts that must (see "Writing
# rules"). Below the header of a case, `# doubt: no-opaque -- reason` leaves out a doubt that cannot matter to it.
import torch.nn as nn
import torch.nn.functional as F


# case: what is found
def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, reduction="sum")  # {code}
        loss.backward()
        optimizer.step()


# case: the same through an object
criterion = nn.CrossEntropyLoss(reduction="sum")
loss = criterion(model(x), y)  # {code}
loss.backward()


# case: what looks like it and is right
def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()


# case: another one that is right
criterion = nn.MSELoss(reduction="sum")
loss = criterion(model(x), y)


# case: and a third, for there should be more of them than bugs
loss = F.cross_entropy(model(x), y, reduction="none").sum() / len(y)
"""


@click.command("new", short_help="Write the files a new rule starts from.")
@click.argument("code", metavar="DLnnn|DLnxx")
@click.argument("name")
@click.option("--family", metavar="FOLDER", help="The folder below rules/ and fixtures/.")
@configuration_options
def command(**given: Any) -> int:
    """Write rules/FAMILY/dlnnn_name.py and its fixture, here.

    With DL1xx the rule gets the first code of DL101 to DL199 that is free. NAME is what is wrong, as in
    softmax-before-cross-entropy. pytest checks each case of the fixture as it is written, in variations that must not
    matter, and with doubts that must.
    """
    from dllint import __version__
    from dllint.config.resolve import listed_rules
    from dllint.rule import RETIRED

    here = Path.cwd()
    rules = listed_rules(configuration(given).load(here))
    taken = {key for rule in rules for key in (rule.code, rule.name)} | set(RETIRED)
    code, name = _code(given["code"], taken), _name(given["name"], taken)
    family = given["family"] or _FAMILIES.get(code[:4], _FAMILIES[code[:3]])
    stem = f"{code.lower()}_{name.replace('-', '_')}.py"
    class_name = "".join(word.capitalize() for word in name.split("-"))
    for folder, template in (("rules", _RULE), ("fixtures", _FIXTURE)):
        path = here / folder / family / stem
        _write(path, template.format(code=code, name=name, class_name=class_name, version=__version__))
        streams.note(f"wrote {path.relative_to(here).as_posix()}")
    return 0


def _code(text: str, taken: Collection[str]) -> str:
    match = _CODE.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is neither a code such as DL119 nor DL1xx", param_hint="CODE")
    family, number = match.groups()
    if number.isdigit():
        if text in taken:
            raise click.BadParameter(f"{text} is taken", param_hint="CODE")
        return text
    free = (code for count in range(1, 100) if (code := f"{family}{count:02}") not in taken)
    if (first := next(free, None)) is None:
        raise click.BadParameter(f"no code of {family} is free", param_hint="CODE")
    return first


def _name(text: str, taken: Collection[str]) -> str:
    from dllint.rule import NAME

    if not NAME.fullmatch(text):
        raise click.BadParameter(f"{text!r} is not of the form some-bad-pattern", param_hint="NAME")
    if text in taken:
        raise click.BadParameter(f"{text} is taken", param_hint="NAME")
    return text


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise streams.OutputError(f"{path} cannot be written: {error.strerror}") from error
