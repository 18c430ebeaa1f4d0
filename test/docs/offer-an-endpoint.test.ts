// The page for providers, from nothing to a customer who is served: each block in order, as its reader would.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isMissing } from './snippet-world.ts';
import { pageWorld } from './page-world.ts';
import { snippetsOf } from './snippets.ts';
import { OpenApi } from '../support/openapi.ts';

const page = 'docs/offer-an-endpoint.md';
const programs = ['curl', 'nginx', 'openssl', 'redis-server'];
const missing = programs.filter(isMissing);
const skip = missing.length > 0 && `${missing.join(', ')} is not installed`;
const api = new OpenApi();

test('every block of the page does what the page states, in its order', { skip }, async (t) => {
  const world = await pageWorld(t);
  let printed = '';
  for (const snippet of snippetsOf(page)) {
    const { line, language, text } = snippet;
    await t.test(`${page}:${line} ${language}`, async () => {
      if (language === 'json') assert.deepEqual(formOf(JSON.parse(printed)), formOf(JSON.parse(text)), printed);
      else if (language === 'http') checkHeaders(text, printed);
      else printed = await world.run(snippet);
    });
  }
});

/** Names and kinds of values: numbers, keys and times differ from run to run. */
function formOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(formOf);
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, formOf(part)]));
}

/** Documented headers are in the answer that curl has printed, and have values of the interface. */
function checkHeaders(text: string, printed: string): void {
  for (const line of text.trim().split('\n')) {
    const [, name = '', value = ''] = /^([\w-]+): (.+)$/.exec(line) ?? [];
    assert.ok(printed.toLowerCase().includes(`\n${name.toLowerCase()}: `), `${name} is not in\n${printed}`);
    assert.deepEqual(api.headerProblems(name, value), [], line);
  }
}
