"""The commands that a project writes down in its notes and shell scripts: which script they run, and with what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dllint.dataclass import dataclass

_CONTINUED = re.compile(r"\\[ \t]*\n")
_BEFORE = (  # a prompt, an item of a list, quoting, settings of the environment, and what starts a program
    r"[ \t>*+-]*(?:\d+[.)][ \t]+)?(?:[$!%][ \t]*|`+)?"
    r"(?:(?:export[ \t]+)?[A-Z_]+=(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'])*[ \t]+)*"
    r"(?:(?:sudo|nohup|time|exec|srun|(?:poetry|uv|pipenv)[ \t]+run)[ \t]+)*"
)
_PROGRAM = r"(?:\S*/)?(?:python[\d.]*|torchrun|accelerate[ \t]+launch|deepspeed)"
_STARTED = re.compile(rf"^{_BEFORE}(?P<start>{_PROGRAM})[ \t]+(?P<rest>[^\n]*)", re.MULTILINE)
_NAMED = re.compile(  # `PY=~/envs/torch/bin/python`, and not `PY=python sh run.sh`
    r"^[ \t]*(?:(?:export|readonly|local)[ \t]+)?(?P<name>\w+)="
    r"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"';|&]+)[ \t]*(?:[;#][^\n]*)?$",
    re.MULTILINE,
)
_USED = re.compile(r"(?P<quote>\"?)\$(?:\{(?P<braced>\w+)\}|(?P<plain>\w+))(?P=quote)(?=[ \t])")
_BY_DEFAULT = re.compile(r"\$\{\w+:?-(?P<default>[^{}\n]*)\}")  # `${PYTHON:-python3}`
_ENDS = re.compile(r"[|;&<>`]|(?:^|\s)#")  # what comes next is of the shell, or of another command
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""")
_OPTION = re.compile(r"(--?[A-Za-z][\w-]*)(?:=.*)?", re.DOTALL)
_OTHERWISE = re.compile(r"-c|-m(?!\s+(?:torch\.distributed\.(?:launch|run)|accelerate\.commands\.launch)\s)")  # no file

_HIDDEN = re.compile(r"<!--.*?-->", re.DOTALL)  # from who reads a page

_PASSED_OVER = re.compile(  # what a shell reads and never runs, as comments of several lines are written
    r"^[ \t]*(?::|true)[ \t]*<<-?[ \t]*[\\'\"]?(?P<word>[^\s'\";|&<>]+)[^\n]*\n.*?(?:^\t*(?P=word)[ \t]*$|\Z)"
    r"|^[ \t]*:[ \t]+(?P<quote>['\"])[ \t]*\n.*?(?P=quote)"
    r"|^(?P<indent>[ \t]*)if[ \t]+false\b[ \t;]*\n?[ \t]*then\b.*?^(?P=indent)(?:else|elif|fi)\b",
    re.MULTILINE | re.DOTALL,
)

_CHANGED = re.compile(r"\bcd[ \t]+[\"']?([\w./~$-]+)")
_CLONED = re.compile(r"\bgit[ \t]+clone\b[^\n]*?([\w.-]+?)(?:\.git)*/?[)\"'`]*[ \t]*$", re.MULTILINE)
_COMPUTED = re.compile(r"\$\([^()\n]*\)|`[^`\n]*`|<\([^()\n]*\)")  # what another command gives


@dataclass(frozen=True, slots=True)
class Command:
    """A command that runs a script.

    Attributes:
        file: the note or shell script that has it.
        line: where it begins there.
        script: the path of the script, as it is written.
        options: the flags that the script is given, without their values.
        folder: the one that the note or script changed to last; empty if to none.
        folders: those that it changes to at all, before or after.
        cloned: the names of the repositories that it fetches, to one of which the command may belong.
    """

    file: Path
    line: int
    script: str
    options: tuple[str, ...]
    folder: str
    folders: tuple[str, ...]
    cloned: tuple[str, ...]


def commands_in(file: Path, text: str) -> Iterator[Command]:
    """The commands in a text that have lines of their own and run a file; comments of a shell script have none.

    So has what stands in their place: a here-document or a text for `:`, which does nothing, or what `if false` keeps.
    """
    whole = _CONTINUED.sub(lambda match: " " * (len(match[0]) - 1) + "\r", text.replace("\r\n", "\n"))  # just as long
    whole = _PASSED_OVER.sub(_blank, _HIDDEN.sub(_blank, _with_programs(whole)))
    changes, cloned = list(_CHANGED.finditer(whole)), tuple(_CLONED.findall(whole))
    folders = tuple(dict.fromkeys(change[1] for change in changes))
    for match in _STARTED.finditer(whole):
        is_quoted = "`" in whole[match.start() : match.start("start")]  # up to the next backtick
        rest = match["rest"] if is_quoted else _COMPUTED.sub("$", match["rest"])
        words = [word.strip("\"'") for word in _WORD.findall(_ENDS.split(rest, maxsplit=1)[0])]
        at = next((place for place, word in enumerate(words) if word.endswith(".py")), None)
        if at is None or _OTHERWISE.match(match["rest"]):
            continue
        line = len(re.findall(r"[\n\r]", whole[: match.start("start")])) + 1
        given = (_OPTION.fullmatch(word) for word in words[at + 1 :])
        options = tuple(dict.fromkeys(each[1] for each in given if each is not None))
        folder = next((change[1] for change in reversed(changes) if change.start() < match.start()), "")
        yield Command(file, line, words[at], options, folder, folders, cloned)


def _blank(match: re.Match[str]) -> str:
    """As many lines, and nothing in them."""
    return re.sub(r"[^\n\r]", " ", match[0])


def _with_programs(text: str) -> str:
    """A text with the programs themselves where variables stand for them that it sets: ``$PY train.py``."""
    text = _BY_DEFAULT.sub(lambda match: match["default"], text)
    values: dict[str, set[str]] = {}
    for match in _NAMED.finditer(text):
        values.setdefault(match["name"], set()).add(match["value"].strip("\"'"))
    programs = {name: min(found) for name, found in values.items() if all(map(_is_program, found))}
    if not programs:
        return text
    return _USED.sub(lambda match: programs.get(match["braced"] or match["plain"], match[0]), text)


def _is_program(value: str) -> bool:
    """Whether a value of a variable starts a program that runs scripts."""
    return _STARTED.match(f"{value} ") is not None
