"""What the client asks for: diagnostics, code actions, hover and code lenses."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from dllint.config.settings import Settings
from dllint.server.actions import FIX_ALL, Offers, changes_between, versions_of
from dllint.server.convert import offset_at, place_of, range_in, workspace_edit
from dllint.server.documents import Document, OpenNotebook
from dllint.server.pages import page, rule_at, rules_by_code
from dllint.server.server import Server
from dllint.server.session import Result

_NOTEBOOK_PREFIX = "notebook."  # editors ask for the source actions of a whole notebook with this in front


def register(server: Server) -> None:
    """Add the handlers to a server."""
    _diagnostics(server)
    _actions(server)
    _reading(server)


def _diagnostics(server: Server) -> None:
    options = types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False, identifier="dllint")

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)
    async def diagnose(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        return await server.report(params.text_document.uri, params.previous_result_id)


def report_everything(server: Server) -> None:
    """Let the client ask for what was found in files that are not open. To be called before it is told what it can."""

    @server.feature(types.WORKSPACE_DIAGNOSTIC)
    async def diagnose_everything(params: types.WorkspaceDiagnosticParams) -> types.WorkspaceDiagnosticReport:
        previous = {each.uri: each.value for each in params.previous_result_ids}
        return types.WorkspaceDiagnosticReport(await server.report_unopened(previous))


def _actions(server: Server) -> None:
    kinds = [types.CodeActionKind.QuickFix, FIX_ALL, _NOTEBOOK_PREFIX + FIX_ALL]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(kinds, resolve_provider=True))
    async def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        checked = await up_to_date(server, params.text_document.uri)
        if checked is None:
            return []
        document, result, settings = checked
        found: list[types.CodeAction] = []
        if wants(params.context.only, types.CodeActionKind.QuickFix):
            offers = Offers(document, result, settings, params.context.diagnostics, server.takes_versions)
            found.extend(offers.at(params.text_document.uri, params.range))
        for kind in (FIX_ALL, _NOTEBOOK_PREFIX + FIX_ALL):
            if wants(params.context.only, kind) and _has_safe_fix(result):
                if params.context.only is None and kind != FIX_ALL:
                    continue
                action = types.CodeAction("Fix all that dllint can fix safely", kind, data=document.uri)
                found.append(action if server.resolves else await _with_fixes(server, action))
        return found

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(action: types.CodeAction) -> types.CodeAction:
        return await _with_fixes(server, action)


async def _with_fixes(server: Server, action: types.CodeAction) -> types.CodeAction:
    if isinstance(action.data, str):
        action.edit = await fix_all(server, action.data)
    return action


async def fix_all(server: Server, uri: str) -> types.WorkspaceEdit | None:
    """The edit that applies all safe fixes to a document; None if there is nothing to fix."""
    checked = await up_to_date(server, uri)
    if checked is None:
        return None
    document, result, _ = checked
    source = result.source
    session = server.projects.session(document.path)
    if source is None or session is None:
        return None
    after = await server.checker.run(lambda: session.fixed(source))
    changes = changes_between(document, after)
    return workspace_edit(changes, versions_of(document), versioned=server.takes_versions) if changes else None


def _has_safe_fix(result: Result) -> bool:
    return any(fix.safety == "safe" for finding in result.findings for fix in finding.fixes)


def wants(only: Sequence[types.CodeActionKind | str] | None, kind: str) -> bool:
    """Whether a client that asks for some kinds of actions, or for any, asks for a kind."""
    if only is None:
        return True
    asked = [str(getattr(each, "value", each)) for each in only]
    return any(kind == each or kind.startswith(f"{each}.") or not each for each in asked)


async def up_to_date(server: Server, uri: str) -> tuple[Document | OpenNotebook, Result, Settings] | None:
    """An open document, the result for it as it is now, and the settings of its project; None if it has none."""
    await server.checker.settled()
    document = server.documents.find(uri)
    result = server.checker.results.get(document.path) if document is not None else None
    session = server.projects.session(document.path) if document is not None else None
    if document is None or result is None or session is None:
        return None
    return document, result, session.settings


def _reading(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        checked = await up_to_date(server, params.text_document.uri)
        return _hover(*checked, params) if checked is not None else None

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS)
    async def lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        document = server.documents.find(params.text_document.uri)
        if document is None or not server.projects.options_of(document.path).code_lens:
            return []
        checked = await up_to_date(server, params.text_document.uri)
        session = server.projects.session(document.path)
        if checked is None or session is None:
            return []
        found: list[types.CodeLens] = []
        for location, text in await server.checker.run(lambda: session.loops(document.path)):
            place = place_of(document, location)
            if place is not None and place[0] == params.text_document.uri:
                found.append(types.CodeLens(range_in(place[1], location), types.Command(text, "")))
        return found


def _hover(
    document: Document | OpenNotebook, result: Result, settings: Settings, params: types.HoverParams
) -> types.Hover | None:
    """The pages of the rules that a position is about: of findings there, or named in a suppression comment."""
    uri, where = params.text_document.uri, params.position
    rules = rules_by_code(settings)
    pages: list[str] = []
    found: types.Range | None = None
    for finding in [*result.findings, *result.known]:
        place = place_of(document, finding.location)
        if place is None or place[0] != uri:
            continue
        span = range_in(place[1], finding.location)
        inside = (span.start.line, span.start.character) <= (where.line, where.character)
        if inside and (where.line, where.character) <= (span.end.line, span.end.character) and finding.code in rules:
            text = page(rules[finding.code])
            if text not in pages:
                pages.append(text)
            found = found or span
    offset = offset_at(document, result.source, uri, where)
    if not pages and result.source is not None and offset is not None:
        named = rule_at(result.source, offset, settings)
        if named is not None:
            code, start, end = named
            location = result.source.location_of(start, end)
            place = place_of(document, location)
            pages, found = [page(rules[code])], range_in(place[1], location) if place is not None else None
    if not pages:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "\n---\n\n".join(pages)), found)
