/** The status page and its JSON, while nodes and traffic change. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { call } from '../../commands/command-line.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, nodeAndGateway, patient, testGateway } from '../../support/gateway.ts';
import { kindsOf, statusOf, statusWhen } from '../../support/status.ts';

const at = (version: number | bigint, struct = 'Probe'): string =>
  `/accounts/0x1/resource/0x1::ledgergate_sample::${struct}?ledger_version=${version}`;

test('the facts hold the fleet, its windows, and the outcomes of requests', async (t) => {
  const [full, archival] = [await fakeNode(t, { oldest: 500n }), await fakeNode(t, { archival: true })];
  const gateway = await testGateway(t, { full: [full], archival: [archival] });
  for (const version of [600, 600, 600, 20]) assert.equal((await gateway.get(at(version))).status, 200);
  assert.equal((await gateway.get('/accounts/nobody/resource/no')).status, 400);

  const { state, problems, ledger, nodes, windows, cache } = await statusOf(gateway);

  assert.deepEqual({ state, problems }, { state: 'ready', problems: [] });
  assert.deepEqual(
    { head: ledger.head, oldest: ledger.oldest, chainId: ledger.chainId },
    { head: '1000', oldest: '0', chainId: 1 },
  );
  assert.deepEqual(
    nodes.map(({ name, tier, state, oldest, head, lag }) => [name, tier, state, oldest, head, lag]),
    [
      ['full-0', 'full', 'usable', '500', '1000', '0'],
      ['archive-0', 'archival', 'usable', '0', '1000', '0'],
    ],
  );
  for (const window of windows) {
    const counts = Object.fromEntries(window.outcomes.map(({ outcome, requests }) => [outcome, requests]));
    assert.deepEqual(counts, { memory: 2, miss: 2, refused: 1 });
    assert.equal(window.hitShare, 0.5);
    assert.equal(window.withoutNodeShare, 0.5);
    assert.deepEqual(
      window.routes.map(({ route, withoutNodeShare }) => [route, withoutNodeShare]),
      [['resource', 0.5]],
    );
    // The latest state alone is counted by its distance from the head.
    assert.deepEqual(window.distances, []);
  }
  assert.equal(cache.entries, 2);
});

test('a node that dies is one event, and its return another', async (t) => {
  const [one, other] = [await fakeNode(t), await fakeNode(t)];
  const lines: unknown[] = [];
  const gateway = await testGateway(t, {
    full: [one, other],
    config: { upstream: { probeIntervalMs: 50 } },
    onLog: ({ msg, upstream }) => upstream === 'full-0' && String(msg).startsWith('upstream is') && lines.push(msg),
  });

  await one.refuse();
  const down = await statusWhen(gateway, ({ state }) => state === 'degraded');
  assert.deepEqual(down.problems, ['full-0 is down: connection refused']);
  assert.equal(down.nodes[0]?.state, 'down');
  assert.ok((down.nodes[0]?.failures.total ?? -1) >= 0);
  const page = (await fetchReply(`${gateway.operationsUrl}/status`, { method: 'GET' })).text;
  assert.match(page, /full-0 is down/);

  await one.accept();
  const back = await statusWhen(gateway, ({ state }) => state === 'ready');

  // One event per line of the log, newest first.
  assert.deepEqual(kindsOf(back, 'full-0'), ['node usable', 'node down', 'node usable']);
  assert.deepEqual(lines, ['upstream is usable', 'upstream is down', 'upstream is usable']);
});

test('a node behind maxLag is a problem by name, and no longer when it has caught up', async (t) => {
  const [ahead, behind] = [await fakeNode(t, { head: 50_000n }), await fakeNode(t, { head: 1_000n })];
  const upstream = { probeIntervalMs: 50, maxLagMs: 10_000 };
  const gateway = await testGateway(t, { full: [ahead, behind], config: { upstream } });

  const { problems, nodes } = await statusWhen(gateway, ({ state }) => state === 'degraded');
  const { out } = await call(['status', gateway.operationsUrl]);
  behind.clock.head = 50_000n;
  const after = await statusWhen(gateway, ({ state }) => state === 'ready');

  assert.match(problems.join(), /^full-1 is \d+ (?:min|h)[^(]* behind \(49k versions\), more than upstream\.maxLag$/);
  assert.deepEqual(
    nodes.map(({ name, isLagging }) => [name, isLagging]),
    // Problems first.
    [
      ['full-1', true],
      ['full-0', false],
    ],
  );
  assert.match(out, /full-1 is [^(]* behind \(49k versions\)[^]*full-1 +▲ behind/);
  assert.deepEqual(after.problems, []);
});

test('410s, 503s and a used-up allowance are problems', async (t) => {
  const full = await fakeNode(t, { oldest: 500n, head: 1_000n });
  const limited = [{ url: full.url, maxRequestsPerSecond: 30 }];
  // A busy machine makes no answer late: every 503 is one of the allowance.
  const gateway = await testGateway(t, { full: limited, config: { upstream: patient } });

  const replies = await Promise.all(Array.from({ length: 400 }, (_, version) => gateway.get(at(version))));

  const { problems } = await statusOf(gateway);
  const count = (wanted: number) => replies.filter(({ status }) => status === wanted).length;
  assert.ok(count(410) > 20 && count(503) > 20, `${count(410)} ${count(503)}`);
  assert.match(problems[0] ?? '', /^\d+\.\d % of requests in 100 s got 503$/);
  assert.match(problems[1] ?? '', /^\d+\.\d % of requests in 100 s got 410$/);
  const refused = Number(/^the allowance of full-0 is used up: (\d+) refused in 100 s$/.exec(problems[2] ?? '')?.[1]);
  // A token that comes back while a request is refused leaves it uncounted.
  assert.ok(refused <= count(503) && refused >= count(503) - 10, `${problems[2]}, ${count(503)} times 503`);
});

test('an outage is an event, and so is its end', async (t) => {
  const { node, gateway } = await nodeAndGateway(
    t,
    { config: { upstream: { probeIntervalMs: 50 } } },
    { head: 1_000n },
  );

  await node.refuse();
  await statusWhen(gateway, ({ state }) => state === 'outage');
  await node.accept();
  const facts = await statusWhen(gateway, ({ state }) => state === 'ready');

  assert.deepEqual(
    kindsOf(facts).filter((kind) => kind.startsWith('outage')),
    ['outage over', 'outage'],
  );
});

test('an ejected node is shown with the reason', async (t) => {
  // Asked first, because its window is the shorter one.
  const [hung, well] = [await fakeNode(t, { oldest: 50_000n, head: 90_000n }), await fakeNode(t, { head: 90_000n })];
  hung.faults.add({ kind: 'hang' }, { when: ({ url }) => url.includes('/resource/') });
  const gateway = await testGateway(t, { full: [hung, well], config: { upstream: { timeoutMs: 200 } } });
  for (let version = 60_000; version < 60_004; version += 1) assert.equal((await gateway.get(at(version))).status, 200);

  const { nodes, problems, events, repairs } = await statusOf(gateway);

  assert.deepEqual(nodes[0]?.ejected, [{ readClass: 'head', reason: 'timeout' }]);
  assert.deepEqual(problems, ['full-0 is passed over for reads of recent state (no answer in time)']);
  const event = events.find(({ kind }) => kind === 'ejected');
  assert.match(
    event?.text ?? '',
    /^full-0 is passed over for reads of recent state: no answer in time, first trial in 1 s$/,
  );
  assert.ok((repairs.find(({ what }) => what === 'retried')?.count.total ?? 0) >= 2);
});

test('a purge and refusals are published without their targets', async (t) => {
  const { gateway } = await nodeAndGateway(t, { isOverloaded: () => true }, { head: 1_000n });
  await gateway.get(at(600));
  const purged = await fetchReply(`${gateway.operationsUrl}/admin/purge`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ account: '0xabcdef0123456789' }),
  });
  assert.equal(purged.status, 200);

  const facts = await statusOf(gateway);

  assert.equal(kindsOf(facts)[0], 'purge');
  assert.equal(facts.refusals.find(({ reason }) => reason === 'event loop')?.count.last10s, 1);
  assert.match(facts.problems.join(), /the event loop is late/);
  assert.doesNotMatch(JSON.stringify(facts), /abcdef0123456789/);
});

test('the page shows no address of a node, is not cacheable, and runs its own script alone', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { head: 1_000n });

  for (const path of ['/status', '/status.json']) {
    const { status, headers, text } = await fetchReply(gateway.operationsUrl + path, { method: 'GET' });
    assert.equal(status, 200);
    assert.equal(headers['cache-control'], 'no-store');
    assert.equal(headers['x-content-type-options'], 'nosniff');
    assert.doesNotMatch(text, new RegExp(`127\\.0\\.0\\.1|:${new URL(node.url).port}`));
  }
  const { headers } = await fetchReply(`${gateway.operationsUrl}/status`, { method: 'GET' });
  assert.match(headers['content-security-policy'] ?? '', /^default-src 'none'; style-src 'sha256-/);
});
