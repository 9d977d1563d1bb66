/** What the extension sends and expects, against the real server. */

import assert from "node:assert/strict";
import { ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { pathToFileURL } from "node:url";

import {
  CodeAction,
  CodeActionRequest,
  CodeActionResolveRequest,
  createProtocolConnection,
  DidChangeTextDocumentNotification,
  DidOpenTextDocumentNotification,
  DocumentDiagnosticRequest,
  ExecuteCommandRequest,
  FullDocumentDiagnosticReport,
  InitializedNotification,
  InitializeRequest,
  ApplyWorkspaceEditRequest,
  ConfigurationRequest,
  ExitNotification,
  ProtocolConnection,
  RegistrationRequest,
  ShutdownRequest,
  StreamMessageReader,
  StreamMessageWriter,
} from "vscode-languageserver-protocol/node";

import { locate } from "../src/locate";
import { optionsOf } from "../src/options";

const TEXT = "a = 1  # dllint: ignore[DL101]\nb = 2  # dllint: ignore[DL101]\n";

let server: ChildProcess;
let connection: ProtocolConnection;
let folder: string;
let uri: string;
const applied: unknown[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "dllint-"));
  uri = pathToFileURL(join(folder, "train.py")).toString();
  writeFileSync(join(folder, "train.py"), TEXT);
  writeFileSync(join(folder, "pyproject.toml"), "[tool.dllint]\n");
  const found = await locate({ interpreters: [process.env.PYTHON ?? "python3"] });
  assert.ok(found);
  server = spawn(found.command.program, [...found.command.args, "server"], { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  connection = createProtocolConnection(new StreamMessageReader(server.stdout!), new StreamMessageWriter(server.stdin!));
  const options = optionsOf((key) => (key === "select" ? ["DL004", "DL101"] : undefined), false);
  connection.onRequest(ConfigurationRequest.type, (params) => params.items.map(() => options));
  connection.onRequest(RegistrationRequest.type, () => undefined);
  connection.onRequest(ApplyWorkspaceEditRequest.type, (params) => {
    applied.push(params.edit);
    return { applied: true };
  });
  connection.listen();
  const folders = [{ uri: pathToFileURL(folder).toString(), name: "project" }];
  const answer = await connection.sendRequest(InitializeRequest.type, {
    processId: process.pid,
    rootUri: folders[0].uri,
    workspaceFolders: folders,
    initializationOptions: options,
    capabilities: {
      notebookDocument: { synchronization: {} },
      workspace: { configuration: true, workspaceEdit: { documentChanges: true } },
      textDocument: { diagnostic: {}, codeAction: { resolveSupport: { properties: ["edit"] } } },
    },
  });
  assert.ok(answer.capabilities.notebookDocumentSync);
  await connection.sendNotification(InitializedNotification.type, {});
  await connection.sendNotification(DidOpenTextDocumentNotification.type, {
    textDocument: { uri, languageId: "python", version: 1, text: TEXT },
  });
});

afterEach(async () => {
  await connection.sendRequest(ShutdownRequest.type);
  await connection.sendNotification(ExitNotification.type);
  connection.dispose();
  server.kill();
});

async function codes(): Promise<unknown[]> {
  const report = await connection.sendRequest(DocumentDiagnosticRequest.type, { textDocument: { uri } });
  return (report as FullDocumentDiagnosticReport).items.map((item) => item.code);
}

async function actions(only?: string[]): Promise<CodeAction[]> {
  const range = { start: { line: 0, character: 0 }, end: { line: 0, character: 10 } };
  const found = await connection.sendRequest(CodeActionRequest.type, {
    textDocument: { uri },
    range,
    context: { diagnostics: [], only },
  });
  return (found ?? []) as CodeAction[];
}

test("diagnostics follow the text", async () => {
  assert.deepEqual(await codes(), ["DL004", "DL004"]);
  await connection.sendNotification(DidChangeTextDocumentNotification.type, {
    textDocument: { uri, version: 2 },
    contentChanges: [{ range: { start: { line: 0, character: 5 }, end: { line: 0, character: 30 } }, text: "" }],
  });
  assert.deepEqual(await codes(), ["DL004"]);
});

test("the fix of a line is offered, and preferred", async () => {
  const fix = (await actions(["quickfix"])).find((action) => action.isPreferred);
  assert.equal(fix?.title, "Remove the suppression");
});

test("fix all is resolved when it is chosen", async () => {
  const [action] = await actions(["source.fixAll.dllint"]);
  assert.equal(action.edit, undefined);
  const resolved = await connection.sendRequest(CodeActionResolveRequest.type, action);
  assert.ok(resolved.edit);
});

test("the command that fixes all edits the document", async () => {
  applied.length = 0;
  await connection.sendRequest(ExecuteCommandRequest.type, { command: "dllint.fixAll", arguments: [uri] });
  assert.equal(applied.length, 1);
});
