import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError } from '../../src/ledger/errors.ts';
import { ledgerVersion, type LedgerVersion } from '../../src/ledger/version.ts';
import type { Fleet } from '../../src/upstream/fleet.ts';
import { Floor } from '../../src/upstream/floor.ts';
import { ShownAlone } from '../../src/upstream/shown.ts';
import { ledgerInfo } from '../support/ledger-info.ts';

const late = new GatewayError('unavailable', 'try again');

/** Of a gateway whose nodes have got to `head`, that has shown 900 and heard that another replica has shown 905. */
function heard(head: bigint): { readonly floor: Floor; readonly unreached: readonly LedgerVersion[] } {
  const unreached: LedgerVersion[] = [];
  const fleet = { generation: 0, head: ledgerInfo({ version: head }) } as unknown as Fleet;
  const onUnreached = (version: LedgerVersion): void => void unreached.push(version);
  const floor = new Floor(fleet, { onServed: () => undefined, onUnreached }, new ShownAlone(fleet));
  void floor.recordServed(ledgerVersion(900n));
  floor.hear(ledgerVersion(905n));
  return { floor, unreached };
}

async function refuse(): Promise<never> {
  return Promise.reject(late);
}

test('what no node here gets to is given up, and said once; what was shown here is not', async () => {
  const { floor, unreached } = heard(900n);
  const asked: (LedgerVersion | undefined)[] = [];
  const answer = await floor.keep(undefined, new AbortController().signal, async (min) => {
    asked.push(min);
    return min === 905n ? refuse() : Promise.resolve('answer');
  });
  assert.deepEqual([answer, asked, unreached], ['answer', [905n, 900n], [905n]]);
  assert.equal(floor.above(undefined), 900n);
});

test('a client that hangs up has nothing to say of what other replicas have shown', async () => {
  const { floor, unreached } = heard(900n);
  const client = new AbortController();
  let asks = 0;
  const gone = floor.keep(undefined, client.signal, () => {
    asks += 1;
    client.abort(new Error('hung up'));
    return refuse();
  });
  await assert.rejects(gone, late);
  assert.deepEqual([asks, unreached, floor.above(undefined)], [1, [], 905n]);
});

test('nor have nodes that are there and have no time', async () => {
  const { floor, unreached } = heard(905n);
  let asks = 0;
  const refused = floor.keep(undefined, new AbortController().signal, () => {
    asks += 1;
    return refuse();
  });
  await assert.rejects(refused, late);
  assert.deepEqual([asks, unreached, floor.above(undefined)], [1, [], 905n]);
});
