import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { PageIndex } from '../../src/cache/page-index.ts';
import { fc } from '../support/fast-check.ts';

function idOf(text: string | number): string {
  return hash('sha256', String(text), 'binary');
}

test('pages are found by their ids, and listed by use, whatever comes, is used and goes', () => {
  const step = fc.record({ what: fc.constantFrom('add', 'touch', 'remove', 'oldest'), name: fc.nat({ max: 40 }) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const index = new PageIndex();
      /** Names, least lately used first. */
      const model = new Map<number, number>();
      const use = (name: number, page: number): void => {
        model.delete(name);
        model.set(name, page);
      };
      for (const { what, name } of steps) {
        const page = index.find(idOf(name));
        assert.equal(page, model.get(name));
        if (what === 'add' && page === undefined) use(name, index.add(idOf(name)));
        if (page === undefined) continue;
        if (what === 'touch') {
          index.touch(page);
          use(name, page);
        }
        if (what === 'remove') {
          index.remove(page);
          model.delete(name);
          assert.equal(index.holds(page), false);
        }
        if (what === 'oldest') assert.equal(index.oldest, [...model.values()][0]);
      }
      assert.deepEqual([...index.list()], [...model.values()].reverse());
      assert.equal(index.size, model.size);
      assert.equal(index.oldest, [...model.values()][0]);
    }),
  );
});

test('tables grow, and places are used again', () => {
  const index = new PageIndex();
  const pages = Array.from({ length: 10_000 }, (_, name) => index.add(idOf(name)));
  for (let name = 0; name < 10_000; name += 2) index.remove(pages[name] as number);
  for (let name = 10_000; name < 15_000; name += 1) index.add(idOf(name));
  for (let name = 0; name < 15_000; name += 1) {
    assert.equal(index.find(idOf(name)) !== undefined, name >= 10_000 || name % 2 === 1, `page ${name}`);
  }
  assert.equal(Math.max(...index.list()), 9_999);
});

test('ids that differ in any of their first 160 bits are of different pages', () => {
  const index = new PageIndex();
  const id = idOf('a');
  const page = index.add(id);
  for (let at = 0; at < 20; at += 1) {
    const other = id.slice(0, at) + String.fromCharCode(id.charCodeAt(at) ^ 1) + id.slice(at + 1);
    assert.equal(index.find(other), undefined);
  }
  assert.equal(index.find(id), page);
});
