"""Texts that are scored after `generate` has cut them at its default length: 20 tokens.

Where neither the call nor the model's own configuration says how long an answer may be, `generate` stops after 20
tokens. BLEU, ROUGE and exact matches are then those of beginnings of sentences.

Measured on transformers 5.23: prompts of 3, 15 and 30 tokens are continued by exactly 20 tokens each, and a T5 returns
21, of which the first one starts.

## Bad
    from transformers import AutoModelForSeq2SeqLM

    model = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    out = model.generate(batch["input_ids"])
    texts = tokenizer.batch_decode(out, skip_special_tokens=True)
    score = rouge.compute(predictions=texts, references=references)

## Good
    from transformers import AutoModelForSeq2SeqLM

    model = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    out = model.generate(batch["input_ids"], max_new_tokens=128)
    texts = tokenizer.batch_decode(out, skip_special_tokens=True)
    score = rouge.compute(predictions=texts, references=references)

## Not reported
Calls and configurations that say anything of a length; models whose own configuration does (most of BART and Pegasus);
texts that no code scores. Models that are not known by name are a question, unless an adapter's configuration names
them and the project speaks of T5 or GPT-2 alone.

## On real code
75 public repositories that load models of transformers: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Assumption, Context, Finding, Instance, OpaqueCall, Rule, Symbol, nodes_of

_PLAIN = ("t5-", "t5_", "flan-t5", "mt5", "byt5", "codet5", "gpt2", "opt-", "pythia", "gpt-neo")
_OF_PLAIN = r"(?i)['\"/](?:flan-|code)?t5[-_]|['\"/]m?t5-|\bgpt2\b"
_OF_OTHERS = r"(?i)bart\b|bart-|pegasus|marian|opus-mt|m2m|nllb|prophetnet|\bled-|blip|whisper|llama|mistral|qwen|gemma"
_SAID = r"generation_config|GenerationConfig|stopping_criteria|gen_kwargs|generation_kwargs"
_LENGTH = "max_new_tokens"
_SCORES = r"(?i)\b(?:rouge|sacrebleu|bleu|meteor|chrf|exact_match|bertscore|corpus_bleu|cider)\w*"
_UNKNOWN = "the model's own configuration says nothing of a length"


# ------------------------------------------------------------------------------------------------- excuses


def is_told(event: OpaqueCall, ctx: Context) -> bool:
    """the call, or code of its file, says how long an answer may be"""
    call = event.site.node
    given = {keyword.arg or "" for keyword in call.keywords} if isinstance(call, ast.Call) else {""}
    if any("length" in name or "tokens" in name or "config" in name or name == "max_time" for name in given):
        return True
    if ctx.project_mentions(_SAID, where="here") or _sets_length(event, ctx):
        return True
    if "" in given and ctx.project_mentions(rf"\b{_LENGTH}\b", where="here"):
        return True
    return any(_says_length(tree) for _, tree in ctx.trees(_LENGTH))


def _sets_length(event: OpaqueCall, ctx: Context) -> bool:
    """Whether a length is set as an attribute: `model.config.max_length = 64`."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "max_length" and isinstance(node.ctx, ast.Store)
        for _, tree in ctx.trees("max_length")
        for node in ast.walk(tree)
    )


def _says_length(tree: ast.Module) -> bool:
    """Whether a file hands a length to a library, or puts it into a dict or an object, and not only to its own code."""
    nodes = nodes_of(tree)
    own = {each.name for each in nodes.of(ast.FunctionDef) if _LENGTH in _names_it_takes(each)}
    if any(isinstance(each.ctx, ast.Store) for each in nodes.attributes.get(_LENGTH, ())):
        return True
    if any(isinstance(each, ast.Constant) and each.value == _LENGTH for each in nodes.of(ast.Constant)):
        return True
    return any(
        keyword.arg == _LENGTH and getattr(call.func, "attr", getattr(call.func, "id", "")) not in own
        for call in nodes.of(ast.Call)
        for keyword in call.keywords
    )


def _names_it_takes(function: ast.FunctionDef) -> list[str]:
    return [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def is_not_scored(event: OpaqueCall, ctx: Context) -> bool:
    """no code of the program scores texts"""
    return not ctx.project_mentions(_SCORES, where="here")


class GenerationDefaultLength(Rule):
    code = "DL918"
    name = "generation-default-length"
    category = "correctness"
    severity = "warning"
    triggers = (("generate",), ("from_pretrained",))
    references = ("https://huggingface.co/docs/transformers/main_classes/text_generation",)
    excuses = (is_told, is_not_scored)

    def on_opaque_call(self, event: OpaqueCall, ctx: Context) -> Iterator[Finding]:
        model = ctx.loaded_model(event.receiver)
        if event.name != "generate" or model is None or not isinstance(event.site.node, ast.Call):
            return
        if ctx.excused(self, event):
            return
        yield ctx.finding(
            self,
            event,
            "`generate` stops after 20 tokens, as nothing says how long a text may be",
            on=[model],
            assuming=() if _is_plain(model, ctx) else (Assumption("effect", _UNKNOWN),),
            effect="what is scored are the beginnings of texts",
            help="pass `max_new_tokens`",
            trace=[(event.site, "no length is given")],
        )


def _is_plain(model: Instance, ctx: Context) -> bool:
    """Whether a model is of a family whose configurations say nothing of a length, as its name says; where that stands
    in an adapter's configuration, as all names of models in the project say."""
    given = model.arguments.get(0, "pretrained_model_name_or_path")
    name = ctx.constant(given)
    if name is not None:
        return any(known in str(name).lower() for known in _PLAIN)
    is_of_adapter = isinstance(given, Symbol) and given.detail == "base_model_name_or_path"
    return is_of_adapter and ctx.project_mentions(_OF_PLAIN) and not ctx.project_mentions(_OF_OTHERS)
