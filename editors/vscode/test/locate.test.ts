/** dllint is found where it is, and nowhere else. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { locate } from "../src/locate";
import { commandLine, KEYS, optionsOf } from "../src/options";
import manifest from "../package.json";

const python = process.env.PYTHON ?? "python3";

test("dllint is found in the interpreter", async () => {
  const found = await locate({ interpreters: ["/nowhere/python", python] });
  assert.deepEqual(found?.command, { program: python, args: ["-m", "dllint"] });
  assert.match(found?.version ?? "", /^\d+\.\d+/);
});

test("a program that was set is the only one that is tried", async () => {
  assert.equal(await locate({ path: "/nowhere/dllint", interpreters: [python] }), undefined);
});

test("a program of another name is not dllint", async () => {
  assert.equal(await locate({ path: "node", interpreters: [] }), undefined);
});

test("every option of the server is a setting", () => {
  const settings = Object.keys(manifest.contributes.configuration.properties);
  assert.deepEqual(KEYS.filter((key) => !settings.includes(`dllint.${key}`)), []);
});

test("words with blanks are quoted", () => {
  assert.equal(commandLine(["/my tools/dllint", "check", "--since=main", "."]), '"/my tools/dllint" check --since=main .');
});

test("empty settings are not sent", () => {
  const settings: Record<string, unknown> = { select: ["DL101"], ignore: [], baseline: "", severity: {}, codeLens: false };
  assert.deepEqual(optionsOf((key) => settings[key], false), { trusted: false, select: ["DL101"] });
});
