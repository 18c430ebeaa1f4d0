/** Looks of the prober: at the heads of nodes, and at a node whose name moves to another address while connections to the old one hang. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { FleetState } from '../../../src/upstream/fleet-state.ts';
import { Prober } from '../../../src/upstream/node/probe.ts';
import { until } from '../../support/eventually.ts';
import { quietEvents } from '../../support/fleet-events.ts';
import { ledgerHeaders, ledgerInfo } from '../../support/ledger-info.ts';
import { ask, nodeAt, textOf } from '../../support/node-client.ts';
import { senderOf } from '../../support/sender.ts';

const noLog = { debug: () => undefined, record: () => undefined };

/** A node whose head the test moves while it answers, and its prober. */
async function probed(t: TestContext) {
  const ledger = { version: 900n, looks: 0, isHanging: false };
  const { fleet, upstream } = await senderOf(
    t,
    (_request, response) => {
      ledger.looks += 1;
      if (ledger.isHanging) return;
      const headers = { ...ledgerHeaders(ledger), 'content-type': 'application/json', 'content-length': 2 };
      response.writeHead(200, headers).end('{}');
    },
    { connections: 4 },
  );
  const prober = new Prober(fleet, { intervalMs: 3_600_000, timeoutMs: 5_000 }, noLog);
  t.after(() => prober.close());
  await prober.look(upstream);
  return { ledger, upstream, prober };
}

test('a node that failed a look of the latest state provides the newest state once it answers a probe', async (t) => {
  const { upstream, prober } = await probed(t);
  upstream.newest.fail('look', performance.now(), performance.now());
  const before = upstream.providesNewest;

  await prober.look(upstream);

  assert.deepEqual([before, upstream.providesNewest], [false, true]);
});

test('heads are compared anew by looks that begin after the call, which callers share', async (t) => {
  const { ledger, upstream, prober } = await probed(t);
  // Its node reports 900 to the look in flight.
  const inFlight = prober.look(upstream);
  await new Promise((resolve) => setImmediate(resolve));
  ledger.version = 950n;
  await Promise.all([inFlight, prober.compareAnew(), prober.compareAnew()]);
  assert.equal(upstream.head, 950n);

  const looks = ledger.looks;
  const startedMs = performance.now();
  for (let round = 0; round < 5; round += 1) await prober.compareAnew();
  assert.equal(ledger.looks, looks + 5);
  assert.ok(performance.now() - startedMs >= 5 * 45);
});

test('a comparison that has not begun its looks serves further callers: they wait for no second one', async (t) => {
  const { ledger, prober } = await probed(t);
  await prober.compareAnew();
  const looks = ledger.looks;
  const first = prober.compareAnew();
  await new Promise((resolve) => setTimeout(resolve, 5));
  await Promise.all([first, prober.compareAnew()]);
  assert.equal(ledger.looks, looks + 1);
});

test('a node that hangs delays a comparison of heads by 100 ms, not by its time-out', async (t) => {
  const { ledger, prober } = await probed(t);
  ledger.isHanging = true;
  const startedMs = performance.now();
  await prober.compareAnew();
  assert.ok(performance.now() - startedMs < 3_000);
});

const dialect = new Dialect('node');

interface Site {
  readonly server: Server;
  /** Paths that requests came for, in their order. */
  readonly paths: string[];
  isHanging: boolean;
  /** Until it answers. */
  delayMs: number;
}

/** A node at `address` whose ledger is at `version`. */
async function site(t: TestContext, address: string, port: number, version: bigint): Promise<Site> {
  const paths: string[] = [];
  const server = createServer(({ url = '' }, response) => {
    paths.push(url);
    if (made.isHanging || url === '/held') return;
    response.writeHead(200, [...dialect.list(ledgerInfo({ version }))]);
    setTimeout(() => response.end(address), made.delayMs);
  });
  const made: Site = { server, paths, isHanging: false, delayMs: 0 };
  server.listen(port, address);
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return made;
}

/** A node of a name that resolves to 127.0.0.1, until `move` lets it resolve to 127.0.0.2. */
async function movingNode(t: TestContext) {
  let address = '127.0.0.1';
  const old = await site(t, '127.0.0.1', 0, 100n);
  const { port } = old.server.address() as AddressInfo;
  const healthy = await site(t, '127.0.0.2', port, 200n);
  const node = nodeAt(t, port, {
    url: new URL(`http://node.example:${port}`),
    connections: 4,
    lookup: (_name, options, callback) => {
      if (options.all === true) callback(null, [{ address, family: 4 }]);
      else callback(null, address, 4);
    },
  });
  const fleet = new FleetState([node], dialect, quietEvents);
  const prober = new Prober(fleet, { intervalMs: 100, timeoutMs: 20_000 }, noLog);
  t.after(() => prober.close());
  await prober.start();
  const move = (): void => {
    address = '127.0.0.2';
  };
  return { node, fleet, prober, old, healthy, move };
}

test('a name that moved while its old address hangs is found long before a probe times out', async (t) => {
  const { node, fleet, old, move } = await movingNode(t);
  assert.equal(await textOf(ask(node, '/a')), '127.0.0.1');
  old.isHanging = true;
  move();

  const startedMs = performance.now();
  await until(() => fleet.head?.version === 200n);

  assert.ok(performance.now() - startedMs < 10_000);
  assert.equal(await textOf(ask(node, '/b')), '127.0.0.2');
  assert.equal(await textOf(ask(node, '/c', { purpose: 'submission', method: 'POST' })), '127.0.0.2');
  assert.equal(node.health, 'usable');
});

test('requests in flight at the old address finish there, and no later one goes there', async (t) => {
  const { node, fleet, old, move } = await movingNode(t);
  const client = new AbortController();
  const held = ask(node, '/held', { signal: client.signal });
  await until(() => old.paths.includes('/held'));
  old.isHanging = true;
  move();
  await until(() => fleet.head?.version === 200n);

  const before = old.paths.length;
  for (const path of ['/a', '/b']) assert.equal(await textOf(ask(node, path)), '127.0.0.2');
  assert.equal(old.paths.length, before);
  const ended = assert.rejects(held, /given up/);
  client.abort(new Error('given up'));
  await ended;
});

test('a slow node keeps its connections: those that are open answer first', async (t) => {
  const { prober, node, old } = await movingNode(t);
  const { client } = node;
  old.delayMs = 400;
  const before = old.paths.length;
  await prober.look(node);
  assert.equal(node.client, client);
  assert.ok(old.paths.length >= before + 2, 'it was asked over a new connection, too');
});

test('a node that hangs at its new address, too, keeps its connections and goes down', async (t) => {
  const { node, old, healthy, move } = await movingNode(t);
  const { client } = node;
  [old.isHanging, healthy.isHanging] = [true, true];
  move();
  const prober = new Prober(new FleetState([node], dialect, quietEvents), { intervalMs: 1_000, timeoutMs: 300 }, noLog);
  t.after(() => prober.close());
  for (let at = 0; at < 2; at += 1) await prober.look(node);
  assert.deepEqual([node.health, node.client === client], ['down', true]);
  assert.equal(healthy.paths.length >= 2, true);
});
