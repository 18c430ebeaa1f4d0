/** Tests as scripts: calls of one object in turn, in one line each, with the results that they must have. */
import assert from 'node:assert/strict';
import { rowsIn } from './tables.ts';

/** The calls of a script, by name. */
export type Steps = Readonly<Record<string, (...given: readonly never[]) => unknown>>;

const valueIn = (word: string): unknown => (/^(?:true|false|-?[\d.]+)$/.test(word) ? JSON.parse(word) : word);

/** Runs a script such as `refused 0 5 = 100, 2x answered 7 9, on 104 = true`: numbers and truths are given as such. */
export async function runScript(steps: Steps, script: string): Promise<void> {
  for (const step of script.split(', ')) {
    const [, times = '1', call = '', result] = /^(?:(\d+)x )?([^=]+?)(?: = (.*))?$/.exec(step) ?? [];
    const [name = '', ...given] = call.split(' ');
    for (let left = Number(times); left > 0; left -= 1) {
      const actual = await (steps[name] as (...given: unknown[]) => unknown)(...given.map(valueIn));
      if (result !== undefined) assert.equal(String(actual), result, step);
    }
  }
}

/** The rows of a table of claims and scripts. */
export function scriptsIn(table: string): readonly (readonly [claim: string, script: string])[] {
  return rowsIn(table) as readonly [string, string][];
}
