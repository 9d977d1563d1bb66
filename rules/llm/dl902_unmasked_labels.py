"""Labels that were padded with the input, and whose padding nobody takes out: the model is taught to pad.

Models of transformers leave labels of -100 out of the loss, and no others. A copy of padded `input_ids` has the padding
token at every padded position, and the loss counts each of them. Most of them are right at once: the loss looks good,
and says little about the text.

Measured on transformers 5.23 (a llama of two layers, sequences of 4 to 12 tokens padded to 64, 100 steps): with padding
in the labels the loss is .44, that of the text alone 2.82; with -100 there it is 1.52, which is that of the text.

## Bad
    def tokenize(example):
        encoded = tokenizer(example["text"], padding="max_length", truncation=True)
        encoded["labels"] = encoded["input_ids"].copy()
        return encoded

    dataset = dataset.map(tokenize)

## Good
    def tokenize(example):
        encoded = tokenizer(example["text"], padding="max_length", truncation=True)
        pairs = zip(encoded["input_ids"], encoded["attention_mask"])
        encoded["labels"] = [token if seen else -100 for token, seen in pairs]
        return encoded

    dataset = dataset.map(tokenize)

## Not reported
Projects in which anything is set to -100, or that use a collator which makes the labels itself
(`DataCollatorForLanguageModeling`); a loss of the project's own that ignores padding; texts that are not padded here.

## On real code
75 public repositories that load models of transformers: 2 findings, of which one was true (the targets of a T5) and one
false: the loss that leaves padding out was in the script that imports the data. As projects that speak of -100 or of
padding in labels anywhere are left alone since, both are silent now. So little proves nothing, and the rule reads words
rather than values: it is off by default.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Finding, Program, Rule, Site

_MASKED = (
    r"(?<![!=]=)(?<![!=]= )(?<!\d)-100\b|pad_token_id\b.*labels|labels.*pad_token_id|ignore_index|masked_fill"
    r"|mask_token|DataCollatorFor(?:LanguageModeling|CompletionOnlyLM|WholeWordMask)"
)
_PADDED = (True, "longest", "max_length")
_COPIES = ("copy", "clone", "detach", "tolist", "squeeze", "to", "contiguous")


# ------------------------------------------------------------------------------------------------- excuses


def is_masked(labels: Site, ctx: Context) -> bool:
    """some code takes padding out of labels or losses, or a collator makes the labels itself"""
    return ctx.project_mentions(_MASKED, where="here") or ctx.project_mentions(_MASKED)


class UnmaskedLabels(Rule):
    code = "DL902"
    name = "unmasked-labels"
    category = "correctness"
    severity = "warning"
    default = False
    triggers = (("labels",), ("padding",), ("input_ids",))
    of_files = True
    references = ("https://huggingface.co/docs/transformers/glossary#labels",)
    excuses = (is_masked,)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        if not ctx.imports("transformers"):
            return
        for function in [node for node in ast.walk(program.module.tree) if isinstance(node, ast.FunctionDef)]:
            stored = [each.id for each in ast.walk(function) if isinstance(each, ast.Name) and _is_stored(each)]
            padded = {name: call for node in ast.walk(function) for name, call in _padded(node)}
            for node in ast.walk(function) if padded else ():
                labels = _labels(node)
                tokens = _tokens_of(labels) if labels is not None else ""
                if labels is None or tokens not in padded or stored.count(tokens) != 1:
                    continue
                site, made = Site(program.module, labels), Site(program.module, padded[tokens])
                if _branches_around(site, ctx) == _branches_around(made, ctx) and not ctx.excused(self, site):
                    yield ctx.finding(
                        self,
                        site,
                        "these labels have padding in them, which the loss counts",
                        effect="the loss is mostly that of padding; it looks good, and says little about the text",
                        help="set the labels to -100 where the attention mask is 0",
                        trace=[(made, "the texts are padded"), (site, "and become the labels")],
                    )
                break


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _branches_around(site: Site, ctx: Context) -> set[ast.AST]:
    return {*ctx.ancestors(site, ast.If, ast.IfExp, ast.Try)}


def _padded(node: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """The names to which what a tokenizer makes of texts with padding is assigned."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return
    call = node.value
    named = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    padding = given.get("padding")
    is_tokenizer = "tokenize" in named.lower() or not given.keys().isdisjoint(("truncation", "return_tensors"))
    if is_tokenizer and isinstance(padding, ast.Constant) and padding.value in _PADDED:
        yield from ((target.id, call) for target in node.targets if isinstance(target, ast.Name))


def _labels(node: ast.AST) -> ast.expr | None:
    """What becomes the labels: by an assignment, or as an entry of a dict."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        key = node.targets[0].slice
        return node.value if isinstance(key, ast.Constant) and key.value == "labels" else None
    if isinstance(node, ast.Dict):
        keys = zip(node.keys, node.values, strict=True)
        return next((v for k, v in keys if isinstance(k, ast.Constant) and k.value == "labels"), None)
    return node.value if isinstance(node, ast.keyword) and node.arg == "labels" else None


def _tokens_of(node: ast.expr) -> str:
    """The name of the batch whose `input_ids` an expression is, as they are or copied."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COPIES:
        node = node.func.value
    if isinstance(node, ast.Attribute) and node.attr == "input_ids":
        return getattr(node.value, "id", "")
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == "input_ids":
        return getattr(node.value, "id", "")
    return ""
