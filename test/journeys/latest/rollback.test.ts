/** A test network that was recreated behind the same address. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../support/eventually.ts';
import type { FakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, probe, type TestGateway } from '../../support/gateway.ts';

const hour = 3_600_000;

test('after a node moved to another chain with a lower head, reads of latest continue from its head', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest: { maxStalenessMs: hour } } }, { chainId: 1 });
  await gateway.get(probe);
  const asked = node.requestsTo('resource');

  node.clock.head = 500n;
  node.fault = { kind: 'wrong chain id', chainId: 2 };
  await gateway.get('/accounts/0x1/module/coin?ledger_version=400');
  const latest = await gateway.get(probe);

  assert.deepEqual([latest.status, latest.headers['ledgergate-served-version']], [200, '500']);
  assert.equal(latest.headers['x-node-ledger-version'], '500');
  assert.equal(node.requestsTo('resource'), asked + 1);
});

test('a chain that returns is read again: no earlier answer is used', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { chainId: 1 });
  const read = () => gateway.get(`${probe}?ledger_version=400`);
  await read();
  const news = () => gateway.get('/accounts/0x1/module/coin?ledger_version=401', { accept: 'text/html' });
  node.fault = { kind: 'wrong chain id', chainId: 2 };
  await news();
  node.fault = undefined;
  await gateway.get('/accounts/0x1/module/coin?ledger_version=402');

  const again = await read();

  assert.equal(again.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-0');
  assert.equal((await read()).headers['cache-status'], 'ledgergate; hit; detail=memory');
});

function isRead({ url }: { readonly url: string }): boolean {
  return url.endsWith('ledger_version=400');
}

/** Moves the node to another chain and back, for all requests but those that `isHeld` selects. */
async function leaveAndReturn(
  node: FakeNode,
  gateway: TestGateway,
  isHeld: (request: { readonly url: string }) => boolean,
): Promise<void> {
  const isOn = async (chainId: number): Promise<boolean> => {
    await gateway.get('/accounts/0x1/module/coin?ledger_version=401', { accept: 'text/html' });
    return gateway.fleet()[0]?.chainId === chainId;
  };
  node.faults.add({ kind: 'wrong chain id', chainId: 2 }, { when: (request) => !isHeld(request) });
  await until(() => isOn(2));
  node.faults.clear();
  await until(() => isOn(1));
}

test('an answer of the earlier ledger reaches its waiting clients, and is not stored', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { chainId: 1 });
  const { promise: held, resolve: release } = Promise.withResolvers<undefined>();
  node.faults.add({ kind: 'hold', until: held }, { when: isRead });
  const asked = node.log.next();
  const waiting = gateway.get(`${probe}?ledger_version=400`);
  await asked;
  // Another chain, and the first one again: the ledger may be another one under the same id.
  await leaveAndReturn(node, gateway, isRead);
  release(undefined);

  const { status, headers } = await waiting;
  assert.deepEqual([status, headers['cache-control'], headers['etag']], [200, 'no-store', undefined]);
  const again = await gateway.get(`${probe}?ledger_version=400`);
  assert.equal(again.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-0');
  assert.match(again.headers['cache-control'] ?? '', /immutable/);
});

function isAtHead({ url }: { readonly url: string }): boolean {
  return url.endsWith('ledger_version=900');
}

test('a read of latest whose version its node lost meanwhile is answered at the version that it has now', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { chainId: 1 });
  const { promise: held, resolve: release } = Promise.withResolvers<undefined>();
  node.faults.add({ kind: 'hold', until: held }, { when: isAtHead });
  const asked = node.log.next();
  const waiting = gateway.get(probe);
  await asked;
  // Another chain, and then a ledger of the first one that does not have version 900 yet.
  node.clock.head = 500n;
  await leaveAndReturn(node, gateway, isAtHead);
  release(undefined);

  const { status, headers, text } = await waiting;
  assert.deepEqual([status, headers['ledgergate-served-version']], [200, '500'], text);
});
