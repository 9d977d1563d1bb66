"""The files of a project that are no modules, and may name what its modules define: configuration, notes, notebooks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set
from pathlib import Path

from dllint.interp.source.commands import Command, commands_in
from dllint.interp.source.files_below import Below, commands_below, configuration_below, notebooks_below
from dllint.interp.source.listings import text_of
from dllint.interp.source.words import PackedWords, Vocabulary, words_of

_COMMAND = re.compile(r"\b(?:python[\d.]*|torchrun|accelerate|deepspeed|srun)\b([^\n]*)")
_SCRIPT = re.compile(r"([\w-]+)\.py\b|-m ([\w.]+)")
_DATA = (".ipynb", ".json")  # no lines as they are typed
_PICTURE = re.compile(r'"[A-Za-z0-9+/=\\]{200,}"')


class OtherFiles:
    """The other files of one project.

    Args:
        files: lists those of a kind.
        use: is told each file that an answer depends on.
        vocabulary: the words of the project.
    """

    def __init__(
        self, files: Callable[[Below], tuple[Path, ...]], use: Callable[[Path], object], vocabulary: Vocabulary
    ) -> None:
        self._files = files
        self._use = use
        self._vocabulary = vocabulary
        self._words: dict[Path, Set[str]] = {}

    def text(self, file: Path) -> str:
        """The text of a file; empty if there is none."""
        self._use(file)
        return text_of(file)

    def is_configured(self, name: str, *, with_path: bool = False) -> bool:
        """Whether a configuration file or a shell script has a name: ``_target_: package.models.Net``.

        Comments and options of commands, which begin with a dash, do not count; ``with_path`` the bare name does not,
        either, but one that ends a path or is imported there.
        """
        before = r"(?:[.:]|\bimport\s(?:[^#\n]*\W)?)" if with_path else r"(?<![\w-])"
        word = re.compile(rf"^(?:[^#\n]|(?<=\w)#)*?{before}{re.escape(name)}(?![\w-])", re.MULTILINE)
        texts = map(self.text, self._files(configuration_below))
        return any(name in text and word.search(text) is not None for text in texts)

    def configured_as(self, name: str) -> tuple[str, ...]:
        """What each configuration file sets an option to, as it is written: `False`, `0.1`."""
        setting = re.compile(rf"""(?<![\w-])['"]?{re.escape(name)}['"]?\s*[:=]\s*([^\s,#}}]+)""")
        texts = map(self.text, self._files(configuration_below))
        return tuple(value for text in texts for value in setting.findall(text))

    def scripts_run(self) -> frozenset[str]:
        """The scripts, by their names without the ending, that commands in notes and scripts run."""
        texts = map(self.text, self._files(commands_below))
        named = (name for text in texts for command in _COMMAND.findall(text) for name in _SCRIPT.findall(command))
        return frozenset(file or module.rpartition(".")[2] for file, module in named)

    def commands(self) -> tuple[Command, ...]:
        """The commands in notes and scripts that run a file and give it options."""
        texts = ((file, self.text(file)) for file in self._files(commands_below) if file.suffix not in _DATA)
        return tuple(each for file, text in texts if ".py" in text for each in commands_in(file, text) if each.options)

    def is_noted(self, name: str) -> bool:
        """Whether notes, scripts or configuration have a name anywhere."""
        word = re.compile(rf"\b{re.escape(name)}\b")
        return any(name in text and word.search(text) for text in map(self.text, self._files(commands_below)))

    def sets_search_path(self) -> bool:
        """Whether notes, scripts or configuration speak of where Python is to look for modules, besides the usual."""
        return any("PYTHONPATH" in text for text in map(self.text, self._files(commands_below)))

    def notebooks_naming(self, name: str) -> Iterator[Path]:
        """The notebooks that have a name in them, in their code or elsewhere."""
        return (file for file in self._files(notebooks_below) if name in self._words_in(file))

    def _words_in(self, file: Path) -> Set[str]:
        """The words in a notebook, which is searched for many names; most of it may be pictures."""
        self._use(file)
        if file not in self._words:
            self._words[file] = PackedWords(words_of(_PICTURE.sub('""', text_of(file))), self._vocabulary)
        return self._words[file]
