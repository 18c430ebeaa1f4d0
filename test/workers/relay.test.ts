/** What a worker that begins is told of the nodes, and of functions that are left to them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Crew } from '../../src/workers/crew.ts';
import type { Member } from '../../src/workers/forked.ts';
import { Relay } from '../../src/workers/relay.ts';
import { ledgerInfo } from '../support/ledger-info.ts';

const crew = { members: [], serving: [] } as unknown as Crew;
const worker = { id: 1, isServing: true } as unknown as Member;
const told = (version: bigint, ageMs = 0) => ({ info: ledgerInfo({ version }), ageMs, elapsedMs: 1 });

test('what was found last of each node is known, the lowest head first, and nothing that is old', () => {
  const relay = new Relay(() => crew, 1_000);
  const { found } = relay.servicesFor(worker);
  found({ upstream: 'a', finding: told(950n) });
  found({ upstream: 'b', finding: told(900n) });
  found({ upstream: 'c', finding: told(920n, 4_000) });
  found({ upstream: 'd', finding: { info: undefined, ageMs: 0, elapsedMs: 1 } });
  found({ upstream: 'b', finding: told(910n) });

  const known = relay.known().map(({ upstream, finding }) => [upstream, finding.info?.version]);
  assert.deepEqual(known, [
    ['d', undefined],
    ['b', 910n],
    ['a', 950n],
  ]);
});

test('of a ledger that is gone nothing is known, also where it is told only afterwards', async () => {
  const relay = new Relay(() => crew, 1_000);
  const { found } = relay.servicesFor(worker);
  found({ upstream: 'a', finding: told(950n) });
  relay.startOver();
  found({ upstream: 'b', finding: told(960n, 500) });
  assert.deepEqual(relay.known(), []);

  await new Promise((resolve) => setTimeout(resolve, 2));
  found({ upstream: 'a', finding: told(100n) });
  assert.equal(relay.known().length, 1);
});

test('functions of one account push no function of another out of what is told', () => {
  const relay = new Relay(() => crew, 1_000);
  const { distrusted } = relay.servicesFor(worker);

  for (let index = 0; index < 2_000; index += 1) distrusted(`0xcafe::m${index}::f`);
  distrusted('0x1::coin::transfer');

  assert.deepEqual(relay.distrusted.names, ['0xcafe', '0x1::coin::transfer']);
});
