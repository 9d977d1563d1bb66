/** The extension: starts the server of the project's dllint, and adds commands to what the server offers. */

import * as vscode from "vscode";
import { LanguageClient, LanguageClientOptions, ServerOptions, State } from "vscode-languageclient/node";

import { Found, locate } from "./locate";
import { commandLine, optionsOf } from "./options";

const INSTALL = "Install";
const SETTINGS = "Open Settings";
const SELECTOR = [
  { scheme: "file", language: "python" },
  { notebook: { scheme: "file", notebookType: "jupyter-notebook" }, language: "python" },
];

let client: LanguageClient | undefined;
let found: Found | undefined;
let log: vscode.OutputChannel;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  log = vscode.window.createOutputChannel("dllint");
  const command = (name: string, run: () => Promise<void>) =>
    context.subscriptions.push(vscode.commands.registerCommand(name, run));
  context.subscriptions.push(log);
  command("dllint.restart", restart);
  command("dllint.showLog", async () => log.show());
  command("dllint.applyAllFixes", applyAllFixes);
  command("dllint.confirmHere", confirmHere);
  command("dllint.showReport", showReport);
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("dllint.path") || event.affectsConfiguration("dllint.interpreter")) {
        await restart();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
  );
  const python = await pythonExtension();
  python?.environments?.onDidChangeActiveEnvironmentPath?.(() => void restart());
  await restart();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

async function restart(): Promise<void> {
  if (client !== undefined && client.state !== State.Stopped) {
    await client.stop();
  }
  client = undefined;
  const folder = vscode.workspace.workspaceFolders?.[0];
  const settings = vscode.workspace.getConfiguration("dllint", folder);
  const path = settings.get<string>("path") || undefined;
  found = await locate({ path, interpreters: await interpreters(settings, folder) }, folder?.uri.fsPath);
  if (found === undefined) {
    void explainMissing(path);
    return;
  }
  log.appendLine(`dllint ${found.version}: ${[found.command.program, ...found.command.args].join(" ")}`);
  client = new LanguageClient("dllint", "dllint", serverOptions(found, folder), clientOptions());
  await client.start();
}

function serverOptions(of: Found, folder: vscode.WorkspaceFolder | undefined): ServerOptions {
  return {
    command: of.command.program,
    args: [...of.command.args, "server"],
    options: { cwd: folder?.uri.fsPath },
  };
}

function clientOptions(): LanguageClientOptions {
  const trusted = vscode.workspace.isTrusted;
  return {
    documentSelector: SELECTOR,
    outputChannel: log,
    initializationOptions: optionsOf((key) => vscode.workspace.getConfiguration("dllint").get(key), trusted),
    middleware: {
      workspace: {
        // The server asks for each folder: hand over what is set, in the form that it takes.
        configuration: (params) =>
          params.items.map((item) => {
            const scope = item.scopeUri ? vscode.Uri.parse(item.scopeUri) : undefined;
            const settings = vscode.workspace.getConfiguration("dllint", scope);
            return optionsOf((key) => settings.get(key), trusted);
          }),
      },
    },
  };
}

interface PythonApi {
  environments?: {
    getActiveEnvironmentPath?(resource?: vscode.Uri): { path: string } | undefined;
    resolveEnvironment?(path: { path: string }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath?(listener: () => void): vscode.Disposable;
  };
}

async function pythonExtension(): Promise<PythonApi | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>("ms-python.python");
  return extension === undefined ? undefined : await extension.activate();
}

/** The interpreters that may have dllint, the most wanted first. */
async function interpreters(
  settings: vscode.WorkspaceConfiguration,
  folder: vscode.WorkspaceFolder | undefined,
): Promise<string[]> {
  const set = settings.get<string>("interpreter");
  if (set) {
    return [set];
  }
  const environments = (await pythonExtension())?.environments;
  const active = environments?.getActiveEnvironmentPath?.(folder?.uri);
  const resolved = active && (await environments?.resolveEnvironment?.(active));
  const selected = resolved?.executable.uri?.fsPath ?? active?.path;
  return selected ? [selected] : [];
}

async function explainMissing(path: string | undefined): Promise<void> {
  const message = path
    ? `dllint does not run as ${path}.`
    : 'dllint was found neither in the selected interpreter nor on the path. It is installed with: pip install "dllint[lsp]"';
  const chosen = await vscode.window.showWarningMessage(message, ...(path ? [SETTINGS] : [INSTALL, SETTINGS]));
  if (chosen === SETTINGS) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "dllint.path");
  } else if (chosen === INSTALL) {
    const terminal = vscode.window.createTerminal("dllint");
    terminal.show();
    terminal.sendText('python -m pip install "dllint[lsp]"', false); // it is for the user to start it
  }
}

async function applyAllFixes(): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (editor !== undefined && client !== undefined) {
    await client.sendRequest("workspace/executeCommand", {
      command: "dllint.fixAll",
      arguments: [client.code2ProtocolConverter.asUri(editor.document.uri)],
    });
  }
}

async function confirmHere(): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) {
    return;
  }
  const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
    "vscode.executeCodeActionProvider",
    editor.document.uri,
    editor.selection,
    vscode.CodeActionKind.QuickFix.value,
  );
  const action = actions.find((each) => each.command?.command === "dllint.confirm");
  if (action?.command === undefined) {
    void vscode.window.showInformationMessage("There is no finding at the cursor that a run can settle.");
    return;
  }
  await editor.document.save();
  await vscode.commands.executeCommand(action.command.command, ...(action.command.arguments ?? []));
}

async function showReport(): Promise<void> {
  if (found === undefined) {
    await explainMissing(undefined);
    return;
  }
  const { program, args } = found.command;
  const folder = vscode.workspace.workspaceFolders?.[0];
  const more = vscode.workspace.getConfiguration("dllint", folder).get<string[]>("reportArguments") ?? [];
  const terminal = vscode.window.createTerminal({ name: "dllint report", cwd: folder?.uri });
  terminal.show();
  terminal.sendText(commandLine([program, ...args, "check", ...more, "."]));
}
