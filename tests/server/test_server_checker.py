"""What is shown is about the text that the editor has, however quickly an edit is taken back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from lsprotocol import types

from dllint.server.checker import Checker
from dllint.server.documents import Documents, uri_of
from dllint.server.options import Options
from dllint.server.session import Result
from dllint.server.workspace import Workspace

TIMEOUT = 60.0


class Stepwise(Workspace):
    """A workspace whose checks wait before and after each result, until they are told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.has_result = threading.Event()
        self.may_give = threading.Event()
        self.has_given = threading.Event()
        self.may_go_on = threading.Event()

    def check(self, texts: Mapping[Path, str], is_outdated: Callable[[], bool]) -> Iterator[tuple[Path, Result]]:
        for path, result in super().check(texts, is_outdated):
            self.has_result.set()
            self.may_give.wait(TIMEOUT)
            yield path, result
            self.has_given.set()
            self.may_go_on.wait(TIMEOUT)

    def let_go(self) -> None:
        self.may_give.set()
        self.may_go_on.set()


class Desk:
    """An editor with one file, and what it shows there."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.uri = uri_of(file)
        self.documents = Documents("utf-16")
        self.workspace = Stepwise()
        self.shown: list[str] = []
        self.messages: list[str] = []
        self.checker = Checker(self.documents, self.workspace, self.show, self.messages.append)

    def show(self, path: Path, result: Result) -> None:
        assert path == self.file
        self.shown = [finding.code for finding in result.findings]

    def open(self, text: str) -> None:
        self.documents.open(types.TextDocumentItem(self.uri, "python", 1, text))
        self.checker.poke()

    def change(self, text: str) -> None:
        self.documents.change(self.uri, 2, [types.TextDocumentContentChangeWholeDocument(text)])
        self.checker.poke()

    def close(self) -> None:
        self.documents.close(self.uri)
        self.shown = []
        self.checker.forget(self.file)
        self.checker.poke()

    async def until(self, event: threading.Event) -> None:
        assert await asyncio.to_thread(event.wait, TIMEOUT)
        await asyncio.sleep(0.01)  # what the thread has sent to the loop arrives

    async def end(self) -> None:
        self.workspace.let_go()
        await self.checker.settled()
        self.checker.close()
        assert self.messages == []


async def opened(folder: Path, text: str) -> Desk:
    """A desk with the file open, and a check of it that has a result and has not given it yet."""
    desk = Desk(folder / "a.py")
    await desk.checker.run(lambda: desk.workspace.configure([folder], Options(), {}))
    desk.open(text)
    await desk.until(desk.workspace.has_result)
    return desk


def test_an_edit_that_is_taken_back_before_the_next_check(tmp_path: Path) -> None:
    async def scenario() -> None:
        desk = await opened(tmp_path, "def f(:\n")
        desk.change("def f():\n    pass\n")
        desk.workspace.may_give.set()
        await desk.until(desk.workspace.has_given)
        assert desk.shown == []  # it is about another text
        desk.change("def f(:\n")
        await desk.end()
        assert desk.shown == ["DL001"]

    asyncio.run(scenario())


def test_an_edit_that_stays(tmp_path: Path) -> None:
    async def scenario() -> None:
        desk = await opened(tmp_path, "def f(:\n")
        desk.change("def f():\n    pass\n")
        await desk.end()
        assert desk.shown == []

    asyncio.run(scenario())


def test_a_file_that_is_closed_and_opened_before_the_next_check(tmp_path: Path) -> None:
    async def scenario() -> None:
        desk = await opened(tmp_path, "def f(:\n")
        desk.workspace.may_give.set()
        await desk.until(desk.workspace.has_given)
        assert desk.shown == ["DL001"]
        desk.close()
        desk.open("def f(:\n")
        await desk.end()
        assert desk.shown == ["DL001"]

    asyncio.run(scenario())


def test_a_file_that_is_closed_shows_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        desk = await opened(tmp_path, "def f(:\n")
        desk.close()
        await desk.end()
        assert desk.shown == []
        assert desk.file not in desk.checker.results

    asyncio.run(scenario())
