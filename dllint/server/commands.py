"""The commands behind code actions: explain, add to the baseline, confirm at run time, fix all."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from lsprotocol import types

from dllint.errors import UserError
from dllint.files.source import SourceError, read_source
from dllint.findings import Finding
from dllint.server.actions import ADD_TO_BASELINE, CONFIRM, EXPLAIN, FIX_ALL_COMMAND, find
from dllint.server.confirming import Verdict, confirm
from dllint.server.documents import Document, OpenNotebook, uri_of
from dllint.server.features import fix_all, up_to_date
from dllint.server.pages import page, rules_by_code
from dllint.server.server import Server


def register(server: Server) -> None:
    """Add the handlers to a server."""

    @server.command(EXPLAIN)
    async def explain(uri: str, code: str) -> None:
        await _explain(server, uri, code)

    @server.command(ADD_TO_BASELINE)
    async def add_to_baseline(uri: str, key: Any) -> None:
        found = await _finding(server, uri, key)
        if found is not None:
            await _add_to_baseline(server, *found)

    @server.command(CONFIRM)
    async def confirm_finding(uri: str, key: Any) -> str | None:
        found = await _finding(server, uri, key)
        return await _confirm(server, *found) if found is not None else None

    @server.command(FIX_ALL_COMMAND)
    async def fix_everything(uri: str) -> None:
        edit = await fix_all(server, uri)
        if edit is not None:
            await server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit, "dllint: fix all"))


async def _finding(server: Server, uri: str, key: Any) -> tuple[Document | OpenNotebook, Finding] | None:
    """The finding that a command is about; None, and a message, if it is no more."""
    checked = await up_to_date(server, uri)
    finding = find(checked[1], key) if checked is not None else None
    if checked is None or finding is None:
        server.tell("the finding is no longer there")
        return None
    return checked[0], finding


async def _explain(server: Server, uri: str, code: str) -> None:
    """Open the page of a rule, or show its first lines where the client opens no documents."""
    checked = await up_to_date(server, uri)
    rule = rules_by_code(checked[2]).get(code) if checked is not None else None
    if rule is None:
        server.tell(f"there is no rule {code}")
        return
    if not server.opens_documents:
        summary = page(rule).partition("\n##")[0].strip()
        server.window_show_message(types.ShowMessageParams(types.MessageType.Info, summary))
        return
    folder = Path(tempfile.gettempdir(), "dllint-pages")
    folder.mkdir(exist_ok=True)
    file = folder / f"{rule.code}-{rule.name}.md"
    file.write_text(page(rule), encoding="utf-8")
    await server.window_show_document_async(types.ShowDocumentParams(uri_of(file), take_focus=True))


async def _add_to_baseline(server: Server, document: Document | OpenNotebook, finding: Finding) -> None:
    session = server.projects.session(document.path)
    assert session is not None  # it has found something
    try:
        file = await server.checker.run(lambda: session.take_into_baseline(document.path, finding))
    except UserError as error:
        server.tell(str(error))
        return
    server.window_show_message(types.ShowMessageParams(types.MessageType.Info, f"{finding.name} added to {file}"))
    server.checker.poke()


async def _confirm(server: Server, document: Document | OpenNotebook, finding: Finding) -> str | None:
    """Run the script, and show what it says about a finding beside it. Returns the answer."""
    session = server.projects.session(document.path)
    assert session is not None  # it has found something
    text = document.source
    if not server.projects.options_of(document.path).may_run:
        server.tell("nothing is run in a folder that is not trusted")
        return None
    try:
        if read_source(document.path).text != text:
            server.tell("save the file first: a run executes what is on disk")
            return None
        job = confirm(document.path, session.settings.root, finding)
        verdict = await server.work(f"Confirming {finding.name}", job)
    except asyncio.CancelledError:
        return None  # given up, by who asked for it
    except (UserError, SourceError) as error:
        server.tell(str(error))
        return None
    server.settle(document.path, text, finding, _diagnostic_text(verdict))
    return verdict.answer


def _diagnostic_text(verdict: Verdict) -> str:
    return f"at run time: {verdict.answer}" + (f": {verdict.reason}" if verdict.reason else "")
