/** Floors of clients that are ahead of the shared state. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { ClientFloors } from '../../src/upstream/floors.ts';
import { Random } from '../support/random.ts';
import { runScript, scriptsIn, type Steps } from '../support/script.ts';

const at = (version: bigint): LedgerVersion => LedgerVersion.of(version);

const v = (version: number) => at(BigInt(version));

function stepsOf(most?: number): Steps {
  const floors = new ClientFloors(most);
  return {
    raise: (client: string, version: number) => floors.raise(client, v(version)),
    of: (client: string) => floors.of(client),
    size: () => floors.size,
    clear: () => floors.clear(),
    passed: (version: number) => floors.forgetUpTo(v(version)),
    lower: (version: number) => floors.lowerTo(v(version)),
  };
}

const scripts = `
a floor rises for its client alone, and reports each rise | raise a 5 = true, raise a 5 = false, raise a 4 = false, raise a 6 = true, of a = 6, of b = undefined, size = 1
beyond the bound another client has no room | raise a 4, raise b 7, raise c 5, raise d 9 = full, raise c 6 = true, size = 3
all are forgotten for their newest | raise a 4, raise b 7, raise c 5, clear = 7, size = 0, clear = undefined, lower 7, clear = undefined
floors that the shared states have passed go, and those that no node reaches are lowered | raise a 5, raise b 6, raise c 7, raise d 8, passed 5, lower 7, of a = undefined, of b = 6, of c = 7, of d = 7
`;

for (const [claim, script] of scriptsIn(scripts))
  test(claim, () => runScript(stepsOf(claim.startsWith('beyond') ? 3 : undefined), script));

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
