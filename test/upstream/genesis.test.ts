/** Which ledger it is that outlives the process in Redis. */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Genesis } from '../../src/upstream/genesis.ts';
import { ledgerHeaders, ledgerInfo } from '../support/ledger-info.ts';
import { senderOf } from '../support/sender.ts';

type Told = { readonly status: number; readonly body: unknown };

const first = (digit: string): Told => ({ status: 200, body: { hash: `0x${digit.repeat(64)}` } });
const pruned: Told = { status: 410, body: { message: 'm', error_code: 'version_pruned', vm_error_code: null } };

/** A ledger whose node says of its first transaction what `told` is at the moment. */
async function ledgerOf(t: TestContext, told: () => Told) {
  const answer = (_request: unknown, response: ServerResponse): void => {
    const { status, body } = told();
    const text = JSON.stringify(body);
    const headers = { ...ledgerHeaders({ version: 900n }), 'content-type': 'application/json' };
    response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(text) }).end(text);
  };
  const { sender, fleet, upstream } = await senderOf(t, answer, { connections: 4 });
  fleet.observe(upstream, ledgerInfo({ version: 900n }), performance.now());
  const genesis = new Genesis(fleet, sender);
  t.after(() => genesis.close());
  const goBack = (): void => {
    const older = ledgerInfo({ version: 100n });
    const nowMs = performance.now();
    fleet.observe(upstream, older, nowMs + 20_000);
    fleet.observe(upstream, older, nowMs + 40_000, nowMs + 40_000);
  };
  return { genesis, fleet, goBack };
}

async function nameOf(genesis: Genesis, is: (name: string | undefined) => boolean): Promise<string | undefined> {
  for (let tries = 0; tries < 200 && !is(genesis.name); tries += 1) await sleep(5);
  return genesis.name;
}

test('a ledger is called by the hash of its first transaction', async (t) => {
  const { genesis } = await ledgerOf(t, () => first('a'));
  assert.equal(genesis.name, undefined);
  await genesis.start();
  assert.equal(genesis.name, 'aaaaaaaa');
});

test('where nobody tells the first transaction there is one name for all', async (t) => {
  const unknown = { message: 'm', error_code: 'resource_not_found', vm_error_code: null };
  for (const told of [pruned, { status: 404, body: unknown }, { status: 200, body: { hash: '' } }]) {
    const { genesis } = await ledgerOf(t, () => told);
    await genesis.start();
    assert.equal(genesis.name, 'nogenesis');
  }
});

test('a node that is broken says nothing', async (t) => {
  const { genesis } = await ledgerOf(t, () => ({ status: 503, body: {} }));
  await genesis.start();
  assert.equal(genesis.name, undefined);
});

test('a ledger that went back has the name of its own first transaction', async (t) => {
  let told = first('a');
  const { genesis, fleet, goBack } = await ledgerOf(t, () => told);
  await genesis.start();
  const before = fleet.generation;
  told = first('b');
  goBack();
  assert.ok(fleet.generation > before);
  assert.equal(genesis.name, undefined);
  assert.equal(await nameOf(genesis, (name) => name !== undefined), 'bbbbbbbb');
});

test('a ledger that went back and tells no first transaction is called as others are', async (t) => {
  let told = first('a');
  const { genesis, goBack } = await ledgerOf(t, () => told);
  await genesis.start();
  told = pruned;
  goBack();
  // Whether it is the ledger of before, its history tells (`cache/history.ts`).
  assert.equal(await nameOf(genesis, (name) => name !== undefined), 'nogenesis');
});
