"""The grammar of suppression comments: from the comments of a module to directives with the lines they cover.

One comment may hold several, each behind its own ``#``, and words of other tools before and after them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from dllint.dataclass import dataclass
from dllint.errors import nearest
from dllint.syntax.statements import LAST_LINE, Comment, Layout

VERBS = ("ignore", "file-ignore", "disable", "enable")

_TAIL = r"(?P<tail>(?:(?!\s\#+\s*[^\W\d]).)*)"  # up to the next comment; `#123` in a reason does not begin one
_DLLINT = re.compile(r"(?<!\#)\#+\s*dllint\s*:\s*(?P<verb>[A-Za-z][\w-]*)(?:\s*\[(?P<words>[^\]]*)\])?" + _TAIL)
_NOQA = re.compile(r"(?<!\#)\#+\s*(?i:noqa)\s*:\s*(?P<words>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*)\b" + _TAIL)
_TRACE = re.compile(r"\#[ \t]*(?:dllint[ \t]*:|(?i:noqa)[ \t]*:[^\n\#]*\b[A-Z]{2,8}\d{2})")
_WORD = re.compile(r"[^,\s]+")
_OWN_CODE = re.compile(r"(?:DL|AXC)\d{2,3}")
_REASON = re.compile(r"\s*--\s*(\S.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Mention:
    """One word of a directive's list, the code it means (None: an unknown rule, or another tool's), and its place."""

    word: str
    code: str | None
    start: int
    end: int


@dataclass(slots=True)
class Directive:
    """One suppression: where it stands, what it names (nothing: every rule) and the lines it covers.

    ``start`` and ``end`` are offsets in the text of the comment. ``verb`` is one of :data:`VERBS`, ``noqa``, or
    empty where the comment is of no known form and suppresses nothing. ``reason`` is what follows its ``--``.
    ``ends`` holds, for rules that were enabled again, the last line covered. ``fault`` says what is wrong with it,
    ``cure`` what to do about that. ``used`` collects the codes of the findings it has suppressed. ``idle`` is an
    ``enable`` of what nothing above disables.
    """

    comment: Comment
    verb: str
    start: int
    end: int
    mentions: tuple[Mention, ...]
    reason: str
    first: int = 1
    last: int = 0
    fault: str = ""
    cure: str = ""
    idle: bool = False
    ends: dict[str, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def names(self, code: str) -> bool:
        """Whether it speaks of a rule, by naming it or by naming none."""
        return not self.mentions or any(mention.code == code for mention in self.mentions)


def mentions_suppression(text: str) -> bool:
    """Whether a text may have a suppression comment in it: a cheap test that most files do not pass."""
    return _TRACE.search(text) is not None


def may_suppress(text: str, known: Mapping[str, str]) -> bool:
    """As :func:`mentions_suppression`, for who knows the rules: what is for other tools alone does not count."""
    if not mentions_suppression(text):
        return False
    words = (word for match in _NOQA.finditer(text) for word in _WORD.findall(match["words"]))
    return _DLLINT.search(text) is not None or any(word in known or _OWN_CODE.fullmatch(word) for word in words)


def read_directives(layout: Layout, known: Mapping[str, str], require_reason: bool) -> list[Directive]:
    """The directives of a module, in order.

    Args:
        layout: the statements and comments of the module.
        known: the code of each rule, by its name and by its code.
        require_reason: find fault with those that give no reason.
    """
    directives: list[Directive] = []
    open_blocks: list[Directive] = []
    for comment in layout.comments:
        for directive in _parse(comment, known):
            if directive.verb == "enable":
                open_blocks = _enable(directive, open_blocks)
            else:
                directive.first, directive.last = _lines(directive, layout)
                if require_reason:
                    _demand_reason(directive)
                if directive.verb == "disable":
                    open_blocks.append(directive)
            directives.append(directive)
    return directives


def _parse(comment: Comment, known: Mapping[str, str]) -> list[Directive]:
    if not mentions_suppression(comment.text):
        return []
    found = [_from_dllint(comment, match, known) for match in _DLLINT.finditer(comment.text)]
    for match in _NOQA.finditer(comment.text):
        directive = _directive(comment, "noqa", match, known)
        own = [mention for mention in directive.mentions if mention.code or _OWN_CODE.fullmatch(mention.word)]
        if own:  # else it is for other tools
            _check_words(directive, own, known)
            found.append(directive)
    return sorted(found, key=lambda directive: directive.start)


def _from_dllint(comment: Comment, match: re.Match[str], known: Mapping[str, str]) -> Directive:
    """A directive of the form ``# dllint: verb[words] -- reason``, or one that is meant to be."""
    verb, tail = match.group("verb", "tail")
    bracketed = match.group("words") is not None
    directive = _directive(comment, verb, match, known)
    if verb not in VERBS:
        directive.fault = f"unknown suppression comment `{verb}`"
        directive.cure = f"write one of {', '.join(VERBS)}"
    elif bracketed and not directive.mentions:
        directive.fault, directive.cure = f"`{verb}[]` names no rule", "name the rules between the brackets"
    elif not bracketed and tail.strip() and not directive.reason:
        directive.fault = f"`{verb}` names no rule in brackets"
        directive.cure = f"write `# dllint: {verb}[rule] -- reason`"
    if directive.fault:
        directive.verb = ""
    else:
        _check_words(directive, directive.mentions, known)
    return directive


def _directive(comment: Comment, verb: str, match: re.Match[str], known: Mapping[str, str]) -> Directive:
    """The directive of a match. A reason is a part of it, other text behind it is not."""
    reason = _REASON.match(match.group("tail"))
    end = match.end() if reason else match.start("tail")
    words = _WORD.finditer(comment.text, *match.span("words")) if match.group("words") else ()
    mentions = tuple(Mention(word.group(), known.get(word.group()), *word.span()) for word in words)
    return Directive(comment, verb, match.start(), end, mentions, reason.group(1).strip() if reason else "")


def _check_words(directive: Directive, mentions: Collection[Mention], known: Mapping[str, str]) -> None:
    if unknown := [mention.word for mention in mentions if mention.code is None]:
        near = nearest(unknown[0], known)
        directive.fault = f"unknown rule `{unknown[0]}` in a suppression comment"
        directive.cure = f"did you mean `{near}`?" if near else "`dllint rule --all` lists the rules"


def _demand_reason(directive: Directive) -> None:
    if not directive.fault and not directive.mentions:
        directive.fault, directive.cure = "suppression of every rule", "name the rules, and say why"
    elif not directive.fault and not directive.reason:
        directive.fault, directive.cure = "suppression without a reason", "end it with ` -- ` and the reason"


def _lines(directive: Directive, layout: Layout) -> tuple[int, int]:
    """The first and the last line that a directive covers; an empty range where it stands above nothing."""
    comment = directive.comment
    if directive.verb == "file-ignore":
        return 1, LAST_LINE
    owner = layout.owner(comment)
    if directive.verb != "disable":
        return (owner.first, owner.last) if owner else (1, 0)
    first, indent, index = comment.line, comment.column, comment.owner
    if owner and owner.first <= comment.line:  # it stands in the statement, not above it
        first, indent, index = owner.first, owner.indent, index + 1
    return first, layout.block_end(index, indent)


def _enable(enable: Directive, blocks: Sequence[Directive]) -> list[Directive]:
    """End what an ``enable`` names in the ``disable`` comments that are open where it stands.

    Returns:
        Those that stay open for something.
    """
    codes = {mention.code for mention in enable.mentions if mention.code}
    line = enable.comment.line
    enable.idle = True
    for block in blocks:
        if not enable.mentions:
            block.last = min(block.last, line)
            enable.idle = False
        for code in filter(block.names, codes):
            block.ends.setdefault(code, min(block.last, line))
            enable.idle = False
    if not enable.mentions:
        return []
    return [block for block in blocks if not block.mentions or any(m.code not in block.ends for m in block.mentions)]
