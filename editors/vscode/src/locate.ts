/** Finding dllint: the program that was set, the selected interpreter, then the path. Knows nothing of the editor. */

import { execFile } from "node:child_process";

export interface Command {
  readonly program: string;
  readonly args: readonly string[];
}

export interface Places {
  /** The program that the user has set. */
  readonly path?: string;
  /** The interpreters to ask, the most wanted first. */
  readonly interpreters: readonly string[];
}

export interface Found {
  readonly command: Command;
  readonly version: string;
}

/** The first dllint that runs, or undefined. */
export async function locate(places: Places, cwd?: string): Promise<Found | undefined> {
  const candidates: Command[] = places.path
    ? [{ program: places.path, args: [] }]
    : [
        ...places.interpreters.map((program) => ({ program, args: ["-m", "dllint"] })),
        { program: "dllint", args: [] },
      ];
  for (const command of candidates) {
    const version = await versionOf(command, cwd);
    if (version !== undefined) {
      return { command, version };
    }
  }
  return undefined;
}

/** The version of a dllint, or undefined if it is none. */
export function versionOf(command: Command, cwd?: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(command.program, [...command.args, "--version"], { cwd, timeout: 20_000 }, (error, output) => {
      const match = /^dllint (\S+)/.exec(output ?? "");
      resolve(error === null && match !== null ? match[1] : undefined);
    });
  });
}
