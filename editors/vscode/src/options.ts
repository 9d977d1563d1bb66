/** The settings of the editor in the form in which the server takes them. */

export const KEYS = [
  "codeLens",
  "workspaceDiagnostics",
  "isolated",
  "config",
  "select",
  "extendSelect",
  "ignore",
  "perFileIgnores",
  "severity",
  "exclude",
  "baseline",
  "torchVersion",
  "versions",
  "knowledge",
  "rulePaths",
  "plugins",
  "requireReason",
  "timeLimit",
] as const;

/** The words of a command line for a terminal: those with anything but plain characters are quoted. */
export function commandLine(words: readonly string[]): string {
  return words.map((word) => (/^[\w@%+=:,./\\-]+$/.test(word) ? word : `"${word}"`)).join(" ");
}

/** What is set, without what is empty; `trusted` says whether code of the project may run. */
export function optionsOf(get: (key: string) => unknown, trusted: boolean): Record<string, unknown> {
  const options: Record<string, unknown> = { trusted };
  for (const key of KEYS) {
    const value = get(key);
    if (!isEmpty(value)) {
      options[key] = value;
    }
  }
  return options;
}

function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) {
    return value.length === 0;
  }
  return !value || (typeof value === "object" && Object.keys(value).length === 0);
}
