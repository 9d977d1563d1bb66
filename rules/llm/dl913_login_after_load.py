"""A login to the Hugging Face Hub that comes after the load which needs it.

A model behind a form (`meta-llama/…`, `google/gemma-…`) is given only to those who are logged in. Where `login` comes
after the load, the script ends before it with `You are trying to access a gated repo`. On the machine of whoever wrote
it nothing happens, as an earlier login is kept in the home directory: it is a fresh machine that shows it.

Measured on huggingface_hub 2.4: `get_token()`, which each load asks, is `None` until `login` has been called.

## Bad
    from huggingface_hub import login
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B")
    login(token=os.environ["HF_TOKEN"])

## Good
    from huggingface_hub import login
    from transformers import AutoModelForCausalLM

    login(token=os.environ["HF_TOKEN"])
    model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B")

## Not reported
Models that everybody gets, as the login may be for what is pushed later; loads that are given a token; files that set
`HF_TOKEN`, load a `.env`, or log in by a command; loads in another branch or function than the login; paths that begin
like a folder.

## Fix (safe)
Moves the login in front of the load, where nothing that it needs is set between them.

## On real code
20 of 495 public repositories in which something is called `login`: no finding, and none in a search of public code for
the call, as far as its 9 excerpts show what comes before. So little proves nothing, and the rule is off by default.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, LibraryCall, Rule, move_before

_LOGINS = ("huggingface_hub.login", "huggingface_hub.notebook_login", "huggingface_hub.interpreter_login")
_LOADS = ("transformers.", "diffusers.", "datasets.load_dataset", "peft.", "pyannote.", "sentence_transformers.")
_GATED = (
    "meta-llama/", "google/gemma", "google/paligemma", "mistralai/Mistral-7B-", "mistralai/Mixtral",
    "bigcode/starcoder",
    "CohereForAI/", "black-forest-labs/FLUX.1-dev", "stabilityai/stable-diffusion-3", "pyannote/speaker-diarization",
)  # fmt: skip
_TOKENS = ("token", "use_auth_token", "api_key")
_ELSEWHERE = (
    r"load_dotenv|(?:huggingface-cli|hf auth) login|HfFolder|HF_TOKEN['\"]\s*\]\s*=|HUGGING_?FACE\w*TOKEN['\"]\s*\]\s*="
)


# ------------------------------------------------------------------------------------------------- excuses


def is_told_a_token(login: LibraryCall, load: LibraryCall, ctx: Context) -> bool:
    """the load is given a token"""
    return not load.arguments.exact or any(name in load.arguments.keywords for name in _TOKENS)


def is_logged_in_elsewhere(login: LibraryCall, load: LibraryCall, ctx: Context) -> bool:
    """some code of the program's files sets a token otherwise, or logs in by a command"""
    return ctx.project_mentions(_ELSEWHERE, where="here")


class LoginAfterLoad(Rule):
    code = "DL913"
    name = "login-after-load"
    category = "correctness"
    severity = "warning"
    default = False
    triggers = (("login", "notebook_login", "interpreter_login"), ("from_pretrained", "load_dataset", "pipeline"))
    fix_safety = "safe"
    references = ("https://huggingface.co/docs/hub/models-gated",)
    excuses = (is_told_a_token, is_logged_in_elsewhere)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name not in _LOGINS or any(each is not event for each in _logins_before(event, ctx)):
            return
        for load in ctx.all_of(LibraryCall):
            if not isinstance(load, LibraryCall) or not _is_of_gated(load, ctx):
                continue
            is_before = ctx.position(load) < ctx.position(event) and ctx.same_turn(load, event)
            if is_before and not ctx.excused(self, event, load):
                yield ctx.finding(
                    self,
                    event,
                    "the login comes after a load that needs it",
                    on=[load],
                    effect="on a machine that nobody has logged in from, the load is refused",
                    help="log in before the first load",
                    trace=[(load.site, "what is loaded is behind a form"), (event.site, "and the login comes here")],
                    fix=("Log in before the load", move_before(event.site, load.site)),
                )
                return


def _logins_before(event: LibraryCall, ctx: Context) -> Iterator[LibraryCall]:
    """The logins of the program up to one of them."""
    for each in ctx.all_of(LibraryCall):
        if isinstance(each, LibraryCall) and each.name in _LOGINS and ctx.position(each) <= ctx.position(event):
            yield each


def _is_of_gated(load: LibraryCall, ctx: Context) -> bool:
    """Whether a call loads what only those get who have agreed to its terms, by its name."""
    if not load.name.startswith(_LOADS):
        return False
    names = [ctx.constant(each) for each in load.arguments.all()]
    return any(isinstance(name, str) and name.startswith(_GATED) for name in names)
