import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { UnreachedError } from '../../../src/upstream/dispatch/fleet-request.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';
import { never, request, senderOf } from '../../support/sender.ts';

test('nodes that close every connection are not asked everything twice', async (t) => {
  let arrived = 0;
  const { sender } = await senderOf(
    t,
    ({ socket }) => {
      arrived += 1;
      socket.destroy();
    },
    { nodes: 2, connections: 16 },
  );
  const ask = async (times: number): Promise<void> => {
    for (let count = 0; count < times; count += 1) await assert.rejects(sender.whole(request('/x'), never));
  };
  // Until what is saved up for all nodes together is used up.
  await ask(1_500);
  arrived = 0;
  const startedMs = performance.now();

  await ask(300);

  // A share of the requests, and ten a second.
  const earned = 300 * 0.2 + ((performance.now() - startedMs) / 1000) * 10;
  assert.ok(arrived <= 300 + earned + 1, `${arrived} requests for 300`);
});

test('a look, which many requests wait for, goes on at another node when the share of retries is used up', async (t) => {
  let looks = 0;
  const { sender, counted } = await senderOf(
    t,
    ({ url }, response) => {
      const isAnswered = url === '/v1' && (looks += 1) === 2;
      if (isAnswered) response.writeHead(200, [...new Dialect('node').list(ledgerInfo({ version: 900n }))]).end('{}');
      else response.socket?.destroy();
    },
    { nodes: 2, connections: 16 },
  );
  while ((await counted('ledgergate_retries_total', 'outcome', 'refused')) === 0)
    await Promise.allSettled(Array.from({ length: 16 }, () => sender.whole(request('/x'), never)));

  assert.equal((await sender.whole({ ...request(''), isLook: true }, never)).status, 200);
});

test('the holder that failed stays one that was asked when the share of retries is used up', async (t) => {
  const { sender, fleet, upstream, counted } = await senderOf(t, (_, response) => response.writeHead(502).end(), {
    nodes: 2,
    connections: 16,
  });
  for (const [index, node] of fleet.upstreams.entries())
    fleet.observe(node, ledgerInfo({ version: index === 0 ? 900n : 500n }), performance.now());
  fleet.ledger.settle();
  const read = {
    ...request('/x'),
    need: { kind: 'version', version: LedgerVersion.of(800n), isChosen: true },
  } as const;
  const asked = new Set<unknown>();
  while ((await counted('ledgergate_retries_total', 'outcome', 'refused')) < 16) {
    const ends = await Promise.allSettled(Array.from({ length: 16 }, () => sender.whole(read, never)));
    for (const end of ends) {
      assert.ok(end.status === 'rejected' && end.reason instanceof UnreachedError);
      asked.add(end.reason.failed.map(({ name }) => name).join());
    }
  }

  assert.deepEqual([...asked], [upstream.name]);
});

test('a submission that never left goes to another node when the share of retries is used up', async (t) => {
  const headers = [...new Dialect('node').list(ledgerInfo({ version: 900n }))];
  const { sender, server, counted } = await senderOf(
    t,
    ({ method }, response) => {
      if (method === 'POST') response.writeHead(202, headers).end('{}');
      else response.writeHead(502).end();
    },
    { nodes: 2, connections: 64 },
  );
  while ((await counted('ledgergate_retries_total', 'outcome', 'refused')) < 16)
    await Promise.allSettled(Array.from({ length: 16 }, () => sender.whole(request('/x'), never)));
  server.close().closeAllConnections();
  const wire = { method: 'POST', path: '/transactions', headers: {}, body: Buffer.from('{}') } as const;
  const submission = { wire, need: { kind: 'head' }, isIdempotent: false } as const;

  const answers = await Promise.all(Array.from({ length: 40 }, () => sender.whole(submission, never)));

  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([202]));
});
