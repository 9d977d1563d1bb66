"""The codes that the engine itself reports, with the metadata and the page that any rule has."""

from __future__ import annotations

from dllint.rule import Rule


class SyntaxErrorRule(Rule):
    """A file that Python cannot parse, or in which a call gives a keyword twice, so that it cannot be compiled.

    The message is Python's own. The file is looked at without the statements that are broken, and without the functions
    that they are part of; nothing is offered to be fixed in it.
    """

    code = "DL001"
    name = "syntax-error"
    category = "correctness"
    severity = "error"


class CrashRule(Rule):
    """A rule, or the interpreter, failed on this file.

    This is a bug in dllint. The failing rule is skipped for this file, every other rule still runs, a reproducer is
    written whose path is in the message, and the exit code is 2.
    """

    code = "DL002"
    name = "internal-error"
    category = "correctness"
    severity = "error"


class LimitRule(Rule):
    """A file that was not analyzed to the end: too large, too deeply nested, or over the time limit.

    Limits keep one generated file from stalling a run: 5 MB of source, Python's own recursion limit for nested
    expressions, and a time limit per file (`time-limit` in the configuration).
    """

    code = "DL003"
    name = "not-analyzed"
    category = "suspicious"
    severity = "info"


class UnusedSuppressionRule(Rule):
    """A suppression comment that suppresses nothing.

    The bug it spoke of is gone, or the comment is on the wrong line. Fix (safe): the comment, or the one code in it
    that is unused, is removed; codes of other tools are left alone.
    """

    code = "DL004"
    name = "unused-suppression"
    category = "suspicious"
    severity = "warning"
    fix_safety = "safe"


class InvalidSuppressionRule(Rule):
    """A suppression comment that names no known rule, has no rule in it, or lacks a required reason.

    With `require-reason = true`, a comment needs ` -- reason` after the codes.
    """

    code = "DL005"
    name = "invalid-suppression"
    category = "correctness"
    severity = "error"


class BannedCallRule(Rule):
    """A call that the configuration of the project bans.

    Each `[[tool.dllint.ban]]` names a `call` by its full name, an argument with which it is fine (`unless`), and what
    to say of it (`message`). Such rules are data: they run no code.

    ## Not reported
    Calls of what a file may have bound otherwise, and calls with `**options`, among which the argument may be.
    """

    code = "DL006"
    name = "banned-call"
    category = "suspicious"
    severity = "warning"


ENGINE_RULES: tuple[type[Rule], ...] = (
    SyntaxErrorRule,
    CrashRule,
    LimitRule,
    UnusedSuppressionRule,
    InvalidSuppressionRule,
    BannedCallRule,
)
