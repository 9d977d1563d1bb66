"""The folders that are open in the editor, and a session for each project in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from dllint.config.load import Config, project_root
from dllint.config.resolve import resolve
from dllint.config.settings import Settings
from dllint.errors import UserError
from dllint.server.options import Folder, Options
from dllint.server.session import Result, Session


class Workspace:
    """Finds the project of each file. Its methods are for the thread of the analysis, where nothing else is said."""

    def __init__(self) -> None:
        self._options = Options()
        self._folders: dict[Path, Folder] = {}
        self._own_options: dict[Path, Options] = {}
        self._sessions: dict[Path, Session] = {}  # by root of the project
        self._session_of: dict[Path, Session | None] = {}  # by file
        self._messages: list[str] = []
        self._told: set[str] = set()

    def configure(self, folders: Sequence[Path], options: Options, own: Mapping[Path, Options]) -> None:
        """Set the folders, the options of the client, and those it has for single folders. All is read again."""
        self._options = options
        self._own_options = dict(own)
        self._folders = {folder: self._folder(folder) for folder in folders}
        self._sessions.clear()
        self._session_of.clear()
        self._told.clear()

    def reload(self) -> None:
        """A configuration file has changed: read all of them again."""
        self.configure(list(self._folders), self._options, self._own_options)

    def reread(self) -> None:
        """Files have changed on disk."""
        for session in self._sessions.values():
            session.forget()

    def options_of(self, path: Path) -> Options:
        """The options of the client for a file."""
        return self._folder_of(path).options

    def interrupt(self) -> None:
        """There is a new edit. This may be called on any thread."""
        for session in list(self._sessions.values()):
            session.interrupt()

    def watch(self, thread: int) -> None:
        """Stop what goes on for far too long on a thread. This is called on another one."""
        for session in list(self._sessions.values()):
            session.watch(thread)

    def take_messages(self) -> list[str]:
        """What the user is to be told since the last call: configuration that cannot be used, rules not loaded."""
        messages, self._messages = self._messages, []
        return messages

    def session(self, path: Path) -> Session | None:
        """The session of the project of a file; None if the project excludes it."""
        if path not in self._session_of:
            self._session_of[path] = self._find(path)
        return self._session_of[path]

    def check(self, texts: Mapping[Path, str], is_outdated: Callable[[], bool]) -> Iterator[tuple[Path, Result]]:
        """Bring everything that is open up to date, and give each file whose result has changed.

        A file that is no longer checked has an empty result.
        """
        own: dict[int, tuple[Session, list[Path]]] = {}
        for path in texts:
            session = self.session(path)
            if session is None:
                yield path, Result(None)
            else:
                own.setdefault(id(session), (session, []))[1].append(path)
        for session in self._sessions.values():
            yield from session.check(texts, own.get(id(session), (session, []))[1], is_outdated)

    def _folder(self, root: Path) -> Folder:
        options = self._own_options.get(root, self._options)
        try:
            return Folder(root, options)
        except UserError as error:
            self._tell(str(error))
            return Folder(root, replace(options, overrides=None))

    def _folder_of(self, path: Path) -> Folder:
        """The innermost folder that has a file; for one outside of all, its own folder."""
        around = [folder for folder in self._folders if path.is_relative_to(folder)]
        if around:
            return self._folders[max(around, key=lambda folder: len(folder.parts))]
        return self._folder(path.parent)

    def _find(self, path: Path) -> Session | None:
        folder = self._folder_of(path)
        settings = self._settings(folder, path)
        if settings is None:
            return None
        if settings.root not in self._sessions:
            self._sessions[settings.root] = Session(settings, folder.root, partial(folder.files, settings))
        if settings.root in folder.untrusted:
            self._tell(f"rule files and plug-ins of {settings.root} are not loaded: the folder is not trusted")
        return self._sessions[settings.root]

    def _settings(self, folder: Folder, path: Path) -> Settings | None:
        try:
            return folder.settings(path)
        except UserError as error:
            self._tell(f"{error}\nThe default configuration is used instead.")
            return resolve(Config(project_root(path.parent), ()))

    def _tell(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            self._messages.append(message)
