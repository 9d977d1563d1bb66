"""Packed documents that see each other.

To save padding, several texts are put into one row. Positions that begin again with each text keep them apart, as
models of transformers make a mask for attention of them; trl passes them with its default strategy. With
`packing_strategy="wrapped"` it passes none: all of the row is one text, cut where the row is full, and each text
attends to those before it. Models that do not look at positions in this way (OPT, BLOOM, Falcon, MPT) leak in any case.

Measured on transformers 5.23 and trl 1.16 (the outputs of the second text of a row, when the tokens of the first are
replaced): with positions that begin again they do not move, by 0.0, in models of the kinds of Llama, Qwen2, GPT-2 and
Gemma2; without them, or with a mask of ones beside them, they move by .03 to .4.

## Bad
    from trl import SFTConfig, SFTTrainer

    args = SFTConfig(output_dir="out", packing=True, packing_strategy="wrapped", max_length=2048)
    SFTTrainer(model="Qwen/Qwen2.5-0.5B", args=args, train_dataset=data).train()

## Good
    from trl import SFTConfig, SFTTrainer

    args = SFTConfig(output_dir="out", packing=True, max_length=2048)
    SFTTrainer(model="Qwen/Qwen2.5-0.5B", args=args, train_dataset=data).train()

## Not reported
Packing that the user switches on or off; texts that a script chunks by itself, as for pretraining; settings that no
trainer gets; comments beside the strategy that say why it is chosen; models of other kinds, whatever their attention.

## Fix (unsafe)
Takes the strategy of trl's own choice, `bfd`. Unsafe because it changes training, as it should.

## On real code
23 of 495 public repositories that speak of packing: no finding. In a search of public code 5 scripts choose the
strategy, one of them for a benchmark, and one with a comment that gives up quality for it. What it costs depends on the
data, so the rule is off by default.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Edits, Finding, Instance, LibraryCall, Rule, Value, set_argument

_WITHOUT_POSITIONS = ("facebook/opt-", "bigscience/bloom", "tiiuae/falcon-7b", "tiiuae/falcon-40b", "mosaicml/mpt-")
_KINDS = ("OPTForCausalLM", "BloomForCausalLM", "FalconForCausalLM", "MptForCausalLM")


# ------------------------------------------------------------------------------------------------- excuses


def is_explained(trainer: LibraryCall, chosen: Value, ctx: Context) -> bool:
    """a comment beside the strategy or the trainer says why"""
    sites = [each for each in (chosen.site, trainer.site) if each is not None]
    said = " ".join(text for site in sites for text in (*ctx.comments_at(site), *ctx.comments_in(site))).lower()
    return any(word in said for word in ("pack", "wrap", "bfd", "contamin", "attention", "leak"))


class PackingLeaksAttention(Rule):
    code = "DL905"
    name = "packing-leaks-attention"
    category = "suspicious"
    severity = "warning"
    default = False
    confirmable = True
    triggers = (("SFTTrainer",), ("packing",))
    fix_safety = "unsafe"
    references = ("https://huggingface.co/docs/trl/reducing_memory_usage#packing",)
    excuses = (is_explained,)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if not event.name.startswith("trl.") or not event.name.endswith(".SFTTrainer"):
            return
        settings = event.arguments.get(1, "args")
        given = dict(settings.arguments.keywords) if isinstance(settings, Instance) else {}
        packing = given.get("packing") or event.arguments.get(None, "packing")
        if packing is None or ctx.is_setting(packing) or ctx.constant(packing) is not True:
            return
        strategy = given.get("packing_strategy")
        if strategy is not None and ctx.constant(strategy) == "wrapped" and not ctx.is_setting(strategy):
            why, chosen = "packed without positions that begin again with each text", strategy
            helped = 'leave `packing_strategy` at `"bfd"`, which keeps them apart'
        elif _ignores_positions(event.arguments.get(0, "model"), ctx):
            why, chosen = "packed for a model that does not look at where a text begins", packing
            helped = "train without packing, or with a model that makes a mask of its positions"
        else:
            return
        if ctx.excused(self, event, chosen):
            return
        site = chosen.site or event.site
        written = settings.site if chosen is strategy and settings is not None else None
        edits = set_argument(written, "packing_strategy", '"bfd"') if written is not None else Edits()
        yield ctx.finding(
            self,
            site,
            f"texts are {why}",
            on=[event, packing, chosen],
            assuming=ctx.assumed_use(event.result, "the trainer"),
            effect="each text attends to those before it in its row, which have nothing to do with it",
            help=helped,
            trace=[(site, "it is chosen here"), (event.site, "for this trainer")],
            fix=("Keep the texts apart", edits),
        )


def _ignores_positions(model: Value | None, ctx: Context) -> bool:
    """Whether a model is of a kind that makes no mask of positions which begin again, by its name or class."""
    loaded = ctx.loaded_model(model)
    name = (
        ctx.constant(model)
        if loaded is None
        else ctx.constant(loaded.arguments.get(0, "pretrained_model_name_or_path"))
    )
    is_named = isinstance(name, str) and name.startswith(_WITHOUT_POSITIONS)
    return is_named or (loaded is not None and any(kind in loaded.library_name for kind in _KINDS))
