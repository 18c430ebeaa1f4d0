import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { WideMap } from '../../../src/cache/memory/answers.ts';

/** Under churn one Map of V8 takes half of 2^24: more for once, with 3 GB: LEDGERGATE_WIDE_MAP=9000000. */
const live = Number(process.env['LEDGERGATE_WIDE_MAP'] ?? 50_000);

test('a wide map has the entries of a map', () => {
  const step = fc.record({
    what: fc.constantFrom('set', 'delete', 'clear'),
    at: fc.nat({ max: 300 }),
    value: fc.nat(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const [wide, model] = [new WideMap<number>(), new Map<number, number>()];
      for (const { what, at, value } of steps) {
        if (what === 'set') [wide, model].forEach((map) => map.set(at, value));
        else if (what === 'delete') [wide, model].forEach((map) => map.delete(at));
        else [wide, model].forEach((map) => map.clear());
      }
      for (let at = 0; at <= 300; at += 1) assert.equal(wide.get(at), model.get(at));
    }),
  );
});

test('entries may come and go, however many there are', () => {
  const wide = new WideMap<number>();
  for (let next = 0; next < 3 * live; next += 1) {
    wide.set(next, next);
    if (next >= live) wide.delete(next - live);
  }
  assert.deepEqual(
    [wide.get(2 * live - 1), wide.get(2 * live), wide.get(3 * live - 1)],
    [undefined, 2 * live, 3 * live - 1],
  );
});
