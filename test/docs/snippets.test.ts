// Every fenced block of the documents is run, or checked by its language; snippets.ts has the marks.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { checks } from './snippet-checks.ts';
import { documents, snippetsOf, type Snippet } from './snippets.ts';
import { snippetWorld, type World } from './snippet-world.ts';

const nameOf = ({ document, line, language }: Snippet): string => `${document}:${line} ${language}`;
const known = new Set(['serves', 'file', 'keys', 'rules', 'parses', 'answers', 'needs', 'not run, because']);

/** offer-an-endpoint.test.ts runs it as one, from top to bottom. */
const apart = 'docs/offer-an-endpoint.md';

test('every snippet of the documents is right', { concurrency: true }, async (t) => {
  const world = await snippetWorld(t);
  const found = documents()
    .filter((document) => document !== apart)
    .map((document) => [document, snippetsOf(document)] as const);

  assert.ok(found.flatMap(([, snippets]) => snippets).length > 100);
  await Promise.all(
    found.map(([document, snippets]) =>
      // In order, because commands use files that stand before them.
      t.test(document, async (t) => {
        for (const snippet of snippets) await t.test(nameOf(snippet), (t) => run(t, snippet, world));
      }),
    ),
  );
});

async function run(t: TestContext, snippet: Snippet, world: World): Promise<void> {
  const { language, directives } = snippet;
  for (const word of directives.keys()) assert.ok(known.has(word), `nothing is known of the directive ${word}`);
  const reason = directives.get('not run, because');
  if (reason !== undefined) {
    assert.match(reason, /\w+ \w+/, 'a reason is needed');
    return;
  }
  const check = Object.hasOwn(checks, language) ? checks[language] : undefined;
  assert.ok(
    check,
    `nothing is known of the language "${language}": teach it to snippet-checks.ts, or say why it is not run`,
  );
  const missing = await check(t, snippet, world);
  if (missing !== undefined) t.skip(missing);
}
