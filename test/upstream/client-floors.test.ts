/** Floors of clients that are ahead of the shared state. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { ClientFloors } from '../../src/upstream/client-floors.ts';

const at = (version: bigint): LedgerVersion => LedgerVersion.of(version);

test('a floor rises for its client alone, and reports each rise', () => {
  const floors = new ClientFloors();
  const raised = [
    floors.raise('a', at(5n)),
    floors.raise('a', at(5n)),
    floors.raise('a', at(4n)),
    floors.raise('a', at(6n)),
  ];
  assert.deepEqual(
    [raised, floors.of('a'), floors.of('b'), floors.size],
    [[true, false, false, true], 6n, undefined, 1],
  );
});

test('beyond the bound another client has no room; all are forgotten for their newest', () => {
  const floors = new ClientFloors(2);
  floors.raise('a', at(7n));
  floors.raise('b', at(5n));
  assert.deepEqual([floors.raise('c', at(6n)), floors.raise('b', at(6n)), floors.size], ['full', true, 2]);
  assert.deepEqual([floors.clear(), floors.size, floors.clear()], [7n, 0, undefined]);
});

test('floors that the shared states have passed go, and those that no node reaches', () => {
  const floors = new ClientFloors();
  for (const version of [5n, 6n, 7n, 8n]) floors.raise(`of ${version}`, at(version));
  floors.forgetUpTo(at(5n));
  floors.forgetAbove(at(7n));
  assert.deepEqual(
    [5n, 6n, 7n, 8n].map((version) => floors.of(`of ${version}`)),
    [undefined, 6n, 7n, undefined],
  );
});
