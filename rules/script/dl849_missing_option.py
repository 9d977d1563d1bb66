"""An option that is read, and that the parser does not have.

`args.warmup` is read where the parser was told `--warmup-steps`, or in a script that was copied without the line of
its parser. Python finds out when it comes there: after the model is built and the data are read, or after the last
epoch, where the results are written.

Measured on Python 3.11 (a script of three epochs that ends with `torch.save(state, args.out_path)`, where the option is
`--out`): all three are trained, then comes `AttributeError: 'Namespace' object has no attribute 'out_path'`, and no
file is written.

## Bad
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="model.pt")
    options = parser.parse_args()
    torch.save(model.state_dict(), options.out_path)

## Good
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="model.pt")
    options = parser.parse_args()
    torch.save(model.state_dict(), options.out)

## Not reported
Options that any file of the program may set (`args.device = ...`, `setattr`, `vars(args)`, settings that are read from
a file), or has as a text (`getattr(args, "device")`); parsers that get options elsewhere: from a function, a parent, a
loop; parsers that ask for one option of several, as the branch for none of them is never taken; namespaces that unknown
code gets before, by themselves or in another object; what is caught; notebooks, which parse nothing.

## On real code
552 public repositories: five findings. Three were true (a parser that calls the option something else, twice one that
does not have it), one was in a draft that nobody runs, and one was false, in the last branch of a choice that the
parser asks for; such parsers are passed over since. Five more are questions, as no command runs the file to that line.
In 977 others 12: 11 true, and one doubtful, in a draft that says of itself that it is none yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, LibraryCall, OptionMissing, Rule, misspelled


def is_expected(event: OptionMissing, ctx: Context) -> bool:
    """that the option is missing is caught"""
    return ctx.is_caught(event.site, "AttributeError")


class MissingOption(Rule):
    code = "DL849"
    name = "missing-option"
    category = "correctness"
    severity = "error"
    triggers = (("parse_args", "parse_known_args"), ("torch", "transformers", "lightning", "pytorch_lightning"))
    of_files = True
    references = ("https://docs.python.org/3/library/argparse.html#the-namespace-object",)
    excuses = (is_expected,)

    def on_option_missing(self, event: OptionMissing, ctx: Context) -> Iterator[Finding]:
        if ctx.excused(self, event):
            return
        meant = _meant(event, ctx)
        yield ctx.finding(
            self,
            event,
            f"the parser has no option `{event.name}`",
            assuming=ctx.assumed_run(),
            effect="Python raises an AttributeError here, and the run ends",
            help=f"read `{meant}`" if meant else f"add `--{event.name.replace('_', '-')}` to the parser",
            trace=[
                (event.parsed, "the options are parsed here"),
                *ctx.calls_to(event),
                (event.site, f"and `{event.name}` is read"),
            ],
        )


def _meant(event: OptionMissing, ctx: Context) -> str:
    """The option that is spelled nearly so; empty if there is none."""
    added = (each for each in ctx.all_of(LibraryCall) if each.name == "argparse.ArgumentParser.add_argument")
    known = [ctx.option_name(each) for each in added if each.site.module is event.parsed.module]
    return misspelled(event.name, known)
