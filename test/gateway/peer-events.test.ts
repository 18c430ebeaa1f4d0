import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { LocalUsage } from '../../src/access/usage/usage-store.ts';
import { keyOn } from '../../src/cache/key.ts';
import { createBus, type PeerEvent } from '../../src/gateway/bus.ts';
import { buildServing, startServing } from '../../src/gateway/serving.ts';
import type { LedgerInfo } from '../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { SharedFiles } from '../../src/metrics/renewals.ts';
import { eventually } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { fetchReply, testConfig } from '../support/gateway.ts';
import { ledgerInfo } from '../support/ledger-info.ts';

const chainId = 4;

/** Peers that record the events which a worker publishes. */
function recordingPeers() {
  const published: PeerEvent[] = [];
  const peers = {
    flights: { enter: () => assert.fail(), leave: () => undefined },
    usageStore: new LocalUsage(),
    limitService: {
      take: () => assert.fail('there are no limits'),
      settle: () => undefined,
      countAlone: () => undefined,
      standings: () => assert.fail('there are no limits'),
    },
    distrusted: { names: [], marked: { salt: '', table: undefined } },
    publish: (event: PeerEvent) => {
      published.push(event);
      return undefined;
    },
    files: new SharedFiles(new Map(), () => undefined),
  };
  return { peers, published };
}

/** A worker with two nodes at version 900 and a staleness of an hour. */
async function worker(t: TestContext) {
  const full = [await fakeNode(t, { head: 900n, chainId }), await fakeNode(t, { head: 900n, chainId })];
  const config = testConfig({
    full,
    config: { upstream: { probeIntervalMs: 3_600_000 }, latest: { maxStalenessMs: 3_600_000 } },
  });
  const { peers, published } = recordingPeers();
  const serving = await startServing(config, { peers });
  t.after(() => serving.stop());
  const url = `http://127.0.0.1:${serving.port}/v1/accounts/0x1/resource/0x1::ledgergate_sample::Probe`;
  const looks = () => full.reduce((sum, { log }) => sum + log.countOf('ledgerInfo'), 0);
  const atStart = looks();
  return {
    serving,
    published,
    looks: () => looks() - atStart,
    read: async () => {
      const { headers } = await fetchReply(url, { method: 'GET' });
      return [headers['ledgergate-served-version'], headers['x-node-ledger-version']];
    },
  };
}

function snapshot(info: LedgerInfo, { upstream = 'full-0', ageMs = 0 } = {}, floor: 'client' | 'gateway' = 'client') {
  const asOfMs = performance.now() - ageMs;
  return {
    kind: 'snapshot',
    snapshot: { info, body: Buffer.from('{}'), asOfMs, upstream },
    bounds: [200],
    floor,
  } as const;
}

const now = BigInt(Date.now()) * 1_000n;
const at = (version: bigint) => ledgerInfo({ version, timestampUsec: now + version });

test('reads share the snapshot of a peer without a request to a node', async (t) => {
  const { serving, looks, read } = await worker(t);
  void serving.applyPeerEvent(snapshot(at(900n)));
  assert.deepEqual([await read(), looks()], [['900', '900'], 0]);
});

const useless: Readonly<Record<string, PeerEvent>> = {
  'of an unknown node': snapshot(at(900n), { upstream: 'other' }),
  'of another chain': snapshot({ ...at(900n), chainId: 99 }),
  'of a head that other nodes contradict': snapshot(ledgerInfo({ version: 900_000_000n, timestampUsec: 1n })),
  'that is too old': snapshot(at(900n), { ageMs: 3_700_000 }),
};

for (const [what, event] of Object.entries(useless)) {
  test(`a snapshot ${what} is not shared: a node gets a request`, async (t) => {
    const { serving, looks, read } = await worker(t);
    void serving.applyPeerEvent(event);
    assert.deepEqual(await read(), ['900', '900']);
    assert.ok(looks() > 0);
  });
}

test('an older snapshot of a peer does not replace a newer one', async (t) => {
  const { serving, looks, read } = await worker(t);
  void serving.applyPeerEvent(snapshot(at(900n)));
  void serving.applyPeerEvent(snapshot(at(899n)));
  assert.deepEqual([await read(), looks()], [['900', '900'], 0]);
});

test('a report of a peer does not decide the dialect: that is up to answers of nodes', async (t) => {
  const node = await fakeNode(t, { head: 900n, chainId, dialect: 'aptos' });
  await node.refuse();
  const config = {
    ...testConfig({ full: [node], config: { upstream: { probeIntervalMs: 50 } } }),
    dialect: 'auto' as const,
  };
  const { peers } = recordingPeers();
  const serving = await startServing(config, { peers });
  t.after(() => serving.stop());
  void serving.applyPeerEvent({ kind: 'head', upstream: 'full-0', info: at(900n) });
  void serving.applyPeerEvent({
    kind: 'ledger replaced',
    reports: [{ name: 'full-0', isSuspect: false, info: at(900n) }],
  });
  void serving.applyPeerEvent(snapshot(at(900n)));
  const url = `http://127.0.0.1:${serving.port}/v1/accounts/0x1/resource/0x1::ledgergate_sample::Probe`;
  const early = await fetchReply(url, { method: 'GET' });

  await node.accept();
  const { headers } = await eventually(
    () => fetchReply(url, { method: 'GET' }),
    ({ status }) => status === 200,
  );

  assert.deepEqual([early.status, early.headers['x-node-ledger-version']], [503, undefined]);
  assert.deepEqual([headers['x-aptos-ledger-version'], headers['x-node-ledger-version']], ['900', undefined]);
});

test('a worker publishes the head and version of an answer ahead of its client', async (t) => {
  const { published, read } = await worker(t);
  await read();
  const kinds = published.map((event) => event.kind);
  assert.deepEqual(new Set(kinds), new Set(['head', 'snapshot']));
});

test('a worker publishes no replacement of the ledger before its first reports are in', async (t) => {
  const { peers, published } = recordingPeers();
  const config = testConfig({ full: [{ url: 'http://127.0.0.1:1' }, { url: 'http://127.0.0.1:2' }] });
  const serving = await buildServing(config, { peers });
  t.after(() => serving.stop());
  const { fleet } = serving;
  const lie = ledgerInfo({ version: 900_000_000n, timestampUsec: 1n });
  fleet.onNews({ kind: 'head', upstream: 'full-0', info: lie });
  fleet.onNews({ kind: 'head', upstream: 'full-1', info: at(900n) });
  assert.deepEqual([fleet.generation, fleet.head?.version, published], [1, 900n, []]);
  await fleet.start();
  fleet.replaceHistory(900n as LedgerVersion);
  assert.deepEqual(
    published.map(({ kind }) => kind),
    ['ledger replaced'],
  );
});

function fail(): never {
  assert.fail();
}

test('an event goes as far as its row says: to replicas those of states, floors and refused versions', () => {
  const version = LedgerVersion.of(900n);
  const served = { kind: 'served', version } as const;
  const refused = { kind: 'refused', fingerprint: 'a', version } as const;
  const floor = { kind: 'floor', client: '10.0.0.1', version } as const;
  const shared = { kind: 'shared', info: at(900n), bounds: [200] } as const;
  const page = {
    first: version,
    body: Buffer.from('[]'),
    ranges: new Uint32Array(),
    hashes: [],
    contentType: 'application/json',
    ownHeaders: undefined,
    info: at(900n),
    upstream: 'full-0',
  };
  const events: readonly PeerEvent[] = [
    served,
    refused,
    floor,
    snapshot(at(900n)),
    snapshot(at(900n), {}, 'gateway'),
    { kind: 'head', upstream: 'full-0', info: at(900n) },
    { kind: 'ledger replaced', reports: [] },
    { kind: 'submitted', hash: '0x1', upstream: 'full-0' },
    { kind: 'distrusted', functionId: '0x1::coin::transfer' },
    { kind: 'fork found' },
    { kind: 'dropped', key: keyOn('a page', 0) },
    { kind: 'page', page },
    { kind: 'follow wanted' },
    { kind: 'rolled back', version },
    { kind: 'pages distrusted' },
  ];
  const [{ peers, published }, news] = [recordingPeers(), [] as unknown[]];
  const cache = { publish: (one: unknown) => void news.push(one), purgeHere: () => assert.fail() };
  const routes = { recordSubmission: () => assert.fail(), distrust: () => assert.fail() };
  const reads = {
    tail: { rollBack: fail, distrust: fail },
    follower: { takeOfPeer: fail, want: fail },
  };
  const bus = createBus({ access: undefined, cache, fleet: { onNews: fail }, reads, routes }, peers);

  for (const event of events) void bus.publish(event);

  assert.deepEqual(published, events);
  assert.deepEqual(news, [served, refused, floor, shared, served]);
});
