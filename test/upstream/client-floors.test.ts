/** Floors of clients that are ahead of the shared state. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { ClientFloors } from '../../src/upstream/client-floors.ts';
import { Random } from '../support/random.ts';

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
  const floors = new ClientFloors(3);
  floors.raise('a', at(4n));
  floors.raise('b', at(7n));
  floors.raise('c', at(5n));
  assert.deepEqual([floors.raise('d', at(9n)), floors.raise('c', at(6n)), floors.size], ['full', true, 3]);
  assert.deepEqual([floors.clear(), floors.size, floors.clear()], [7n, 0, undefined]);
  floors.lowerTo(at(7n));
  assert.equal(floors.clear(), undefined);
});

test('floors that the shared states have passed go, and those that no node reaches are lowered', () => {
  const floors = new ClientFloors();
  for (const version of [5n, 6n, 7n, 8n]) floors.raise(`of ${version}`, at(version));
  floors.forgetUpTo(at(5n));
  floors.lowerTo(at(7n));
  assert.deepEqual(
    [5n, 6n, 7n, 8n].map((version) => floors.of(`of ${version}`)),
    [undefined, 6n, 7n, 7n],
  );
});

test('in any order of rises and of states that pass or are lost, exactly the floors between remain, and the lost ones are lowered', () => {
  const random = new Random(36);
  const floors = new ClientFloors();
  const model = new Map<string, bigint>();
  for (let step = 0; step < 20_000; step += 1) {
    const version = at(BigInt(random.below(12)));
    if (!random.chance(4)) {
      const client = `client ${random.below(6)}`;
      const rises = version > (model.get(client) ?? -1n);
      if (rises) model.set(client, version);
      assert.equal(floors.raise(client, version), rises);
    } else {
      const isPassed = random.chance(2);
      const upTo = random.chance(2) ? undefined : at(BigInt(random.below(12)));
      if (isPassed) floors.forgetUpTo(version);
      else floors.lowerTo(version, upTo);
      for (const [client, floor] of model) {
        if (isPassed && floor <= version) model.delete(client);
        else if (!isPassed && floor > version && floor <= (upTo ?? floor)) model.set(client, version);
      }
    }
    for (let client = 0; client < 6; client += 1)
      assert.equal(floors.of(`client ${client}`), model.get(`client ${client}`));
    assert.equal(floors.size, model.size);
  }
});

test('100,000 floors that a state has passed, or has not reached, go or stay without a walk over them', (t) => {
  const floors = new ClientFloors();
  for (let client = 0; client < 100_000; client += 1) floors.raise(String(client), at(BigInt(1_000 + (client % 9))));
  const walks = t.mock.method(Map.prototype, 'forEach');
  floors.forgetUpTo(at(999n));
  floors.lowerTo(at(1_008n));
  floors.lowerTo(at(900n), at(999n));
  const kept = floors.size;
  floors.forgetUpTo(at(1_008n));
  assert.deepEqual([kept, floors.size, walks.mock.callCount()], [100_000, 0, 0]);
});
