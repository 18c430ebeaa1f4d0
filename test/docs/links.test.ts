// Every relative link of the documents leads to a file, and every anchor to a heading of it.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { documents, repository } from './snippets.ts';

interface Link {
  readonly line: number;
  readonly target: string;
}

/** Lines outside fences, by their number, without what is in backticks. */
function proseOf(markdown: string): readonly (readonly [number, string])[] {
  let fence: string | undefined;
  return markdown.split('\n').flatMap((line, at) => {
    const marks = /^\s*(`{3,}|~{3,})/.exec(line)?.[1];
    if (marks !== undefined && (fence === undefined || fence === marks))
      fence = fence === undefined ? marks : undefined;
    return marks !== undefined || fence !== undefined ? [] : [[at + 1, line] as const];
  });
}

/** Links and pictures, inline or by reference; of the target what stands ahead of a title. */
function linksIn(markdown: string): readonly Link[] {
  return proseOf(markdown).flatMap(([line, text]) => {
    const plain = text.replaceAll(/`[^`]*`/g, '');
    const inline = plain.matchAll(/\]\(\s*<?([^)\s>]+)/g);
    const references = plain.matchAll(/^\s*\[[^\]]+\]:\s*<?([^\s>]+)/g);
    return [...inline, ...references].map(([, target = '']) => ({ line, target }));
  });
}

/** The anchors that a page gives its headings: as GitHub makes them of their text. */
function anchorsOf(markdown: string): ReadonlySet<string> {
  const seen = new Map<string, number>();
  const anchors = new Set<string>();
  for (const [, line] of proseOf(markdown)) {
    const heading = /^#{1,6}\s+(.*?)\s*#*$/.exec(line)?.[1];
    if (heading === undefined) continue;
    const text = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const anchor = text.replaceAll(/[^\p{L}\p{N}\s_-]/gu, '').replaceAll(/\s/g, '-');
    const times = seen.get(anchor) ?? 0;
    seen.set(anchor, times + 1);
    anchors.add(times === 0 ? anchor : `${anchor}-${times}`);
  }
  return anchors;
}

const isOutside = (target: string): boolean => /^(?:[a-z][a-z\d+.-]*:|\/\/)/i.test(target);

function faultOf(document: string, { line, target }: Link): readonly string[] {
  if (isOutside(target)) return [];
  const [path = '', anchor] = target.split('#', 2);
  const file = path === '' ? document : normalize(join(dirname(document), decodeURI(path)));
  const where = `${document}:${line}: ${target}`;
  if (file.startsWith('..') || !existsSync(repository + file)) return [`${where}: there is no such file`];
  if (anchor === undefined || !file.endsWith('.md')) return [];
  const anchors = anchorsOf(readFileSync(repository + file, 'utf8'));
  return anchors.has(decodeURI(anchor)) ? [] : [`${where}: there is no such heading`];
}

test('links and anchors are read as a page shows them', () => {
  const markdown =
    '# A `b`, and c\n## A b, and c\n```md\n[no](no.md)\n```\n`[no](no.md)` [x](y.md#z "t") ![p](p.png)\n[r]: r.md\n';

  assert.deepEqual([...anchorsOf(markdown)], ['a-b-and-c', 'a-b-and-c-1']);
  assert.deepEqual(
    linksIn(markdown).map(({ target }) => target),
    ['y.md#z', 'p.png', 'r.md'],
  );
  assert.equal(faultOf('README.md', { line: 1, target: 'docs/none.md' }).length, 1);
  assert.equal(faultOf('README.md', { line: 1, target: 'docs/limits.md#none' }).length, 1);
});

test('every relative link leads somewhere', () => {
  const all = [...documents(), 'CHANGELOG.md', 'bench/RESULTS.md', 'src/sample/data/README.md'];
  const links = all.map((document) => [document, linksIn(readFileSync(repository + document, 'utf8'))] as const);

  const faults = links.flatMap(([document, found]) => found.flatMap((link) => faultOf(document, link)));

  assert.ok(links.flatMap(([, found]) => found).length > 50);
  assert.deepEqual(faults, []);
});
