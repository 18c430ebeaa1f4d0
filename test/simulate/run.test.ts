/** Properties of simulated deployments: seeds, limits, and a sample that stands for the whole. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { capacityOf } from '../../simulate/capacity.ts';
import { checkedTraces, differenceOf } from '../../simulate/check.ts';
import { HotReads } from '../../simulate/hot.ts';
import { Lane, Latest } from '../../simulate/latest.ts';
import { SimulatedLedger } from '../../simulate/ledger.ts';
import { storedBytes } from '../../simulate/measured.ts';
import { archiveShares } from '../../simulate/month.ts';
import { playReal, playSimulated } from '../../simulate/played.ts';
import { randomOf, Zipf } from '../../simulate/random.ts';
import { sharesTable, withTables } from '../../simulate/report.ts';
import { simulate, type RunOptions } from '../../simulate/run.ts';
import { shapeOf, shapes, usualTraffic, type Shape, boundsOf } from '../../simulate/shape.ts';
import { requestShapes, type RequestShape } from '../../simulate/shapes.ts';
import { Tally } from '../../simulate/tally.ts';
import type { Subject } from '../../simulate/traffic.ts';
import { noRedis } from '../support/redis-server.ts';

const deepOnly: readonly RequestShape[] = [
  { route: 'resource', share: 1, subjects: { kind: 'state', of: 1_000, pinned: 1, deep: 1 }, bytes: 400 },
];

function run(shape: Shape, options: Partial<RunOptions> = {}) {
  const outcome = simulate(shape, { seed: 1, requests: 2_500, ...options });
  return { outcome, capacity: capacityOf(outcome) };
}

const redis = { shards: 1, rttMs: 0.5, historyMs: 0, news: 'version' } as const;
const small = { ...usualTraffic, accounts: 1_000, links: 1_000, rate: 1_000 };

test('one seed gives one outcome, another seed another', () => {
  const shape = shapes.find(({ redis }) => redis !== undefined);
  assert.ok(shape);
  const [one, again, other] = [1, 1, 2].map((seed) => run(shape, { seed }).outcome.tally);
  assert.deepEqual(again, one);
  assert.notDeepEqual(other, one);
});

test('reads that are all different are all of nodes', () => {
  const traffic = { ...small, requests: deepOnly, links: 1_000_000, linkSkew: 0 };
  const { capacity } = run(shapeOf('', 1_000, { traffic }));
  assert.ok(capacity.shares.upstream > 0.99);
  // Below every full node's edge.
  assert.equal(capacity.calls.full, 0);
});

test('one key is asked for once by each replica', () => {
  const traffic = { ...small, requests: deepOnly, links: 1 };
  const shape = shapeOf('', 1_000, { traffic, replicas: 4 });
  // In the warm-up, so that nothing is left to be counted.
  assert.equal(run(shape, { sample: 4 }).capacity.calls.archival, 0);
  assert.equal(run(shape, { sample: 4 }).capacity.shares.memory, 1);
});

test('one simulated replica stands for eight: the others are drawn, or simulated as well', () => {
  const traffic = { ...small, accounts: 20_000, rate: 8_000 };
  const shape = shapeOf('', 8_000, { traffic, replicas: 8, redis });
  const [drawn, whole] = [run(shape, { requests: 5_000 }), run(shape, { sample: 8, requests: 40_000 })];
  for (const server of ['memory', 'redis', 'upstream'] as const) {
    const [a, b] = [drawn.capacity.shares[server], whole.capacity.shares[server]];
    assert.ok(Math.abs(a - b) < 0.03, `${server}: ${a} drawn, ${b} simulated`);
  }
});

test('a tenth of the traffic on a tenth of the replicas is a tenth of the work, where nothing is shared', () => {
  const [large, little] = [100, 10].map((replicas) => run(shapeOf('', replicas * 1_000, { replicas })).capacity);
  assert.ok(large && little);
  assert.ok(Math.abs(large.calls.all / little.calls.all - 10) < 0.5);
  assert.ok(Math.abs(large.cores / little.cores - 10) < 0.5);
});

test('the shares of the routes add up to all requests, and name each route once', () => {
  const sum = requestShapes.reduce((all, { share }) => all + share, 0);
  assert.ok(Math.abs(sum - 1) < 1e-9, String(sum));
  assert.equal(new Set(requestShapes.map(({ route }) => route)).size, requestShapes.length);
});

test('a follower makes ten calls a second, and answers the transactions of its pages', () => {
  const requests: readonly RequestShape[] = [
    { route: 'byHash', share: 1, subjects: { kind: 'hash', own: 0 }, bytes: 1_500 },
  ];
  const traffic = { ...small, requests, rate: 100 };
  const [off, always, brief] = [undefined, 30_000, 0].map((keptMs) => {
    const follow = keptMs === undefined ? undefined : { everyMs: 100, keptMs };
    return run(shapeOf('', 100, { traffic, ...(follow && { follow }) })).capacity;
  });
  assert.ok(off && always && brief);
  // A few in a hundred are of a block behind the last page, or older than what is kept.
  assert.ok(always.calls.full < 15 && always.calls.full >= 9.9, String(always.calls.full));
  assert.ok(Math.abs(brief.calls.full - off.calls.full - 10) < 0.2, `${brief.calls.full} beside ${off.calls.full}`);
});

// The state that each client is answered from: floors, lanes, and reads ahead of their first client.

const one = { client: 1, connection: 1 };
const other = { client: 2, connection: 2 };
/** The first shared state is some fifty blocks old by then, at 5 s of staleness. */
const atMs = 2_000;

function latestOf(changes: Partial<Shape>) {
  const shape = shapeOf('', 1_000, { maxStalenessMs: 5_000, ...changes });
  const ledger = new SimulatedLedger(shape.ledger);
  const lanes = boundsOf(shape).map(
    (boundMs) => new Lane(shape, ledger, { boundMs, simulated: 1, random: randomOf(1) }),
  );
  const tally = new Tally(0);
  const latest = new Latest({ shape, ledger, tally, lanes, floors: new Map(), random: randomOf(2) });
  const read = (sender: typeof one, minBlock = -1, boundMs = 5_000) =>
    latest.choose(atMs, { sender, boundMs, minBlock }).block;
  return { latest, read, tally, newest: ledger.blockAt(atMs - shape.nodes.lagMs) };
}

test('a floor of the gateway moves everybody, a floor of a client that client alone, with one look', () => {
  for (const floor of ['gateway', 'client'] as const) {
    const { read, newest, tally } = latestOf({ floor });
    const shared = read(other);
    assert.ok(shared < newest - 40);
    assert.equal(read(one, newest), newest);
    assert.equal(read(one), newest);
    assert.equal(read(other), floor === 'gateway' ? newest : shared);
    assert.equal(tally.calls.get('look'), 2);
  }
});

test('a transaction that a client got is a floor on all its connections, and for no other client of one', () => {
  const { latest, read, newest } = latestOf({});
  const shared = read(other);
  latest.recordShown(one, newest);
  assert.equal(read({ client: 1, connection: 3 }), newest);
  assert.equal(read({ client: 4, connection: 1 }), shared);
  assert.equal(read(other), shared);
});

test('a read takes the loosest state within its bound that its connection has not passed', () => {
  const { read } = latestOf({ maxStalenessMs: 200, overrides: { view: { boundMs: 5_000, ofItems: 1 } } });
  const [loose, tight] = [read(one), read(one, -1, 200)];
  assert.ok(loose < tight);
  assert.equal(read(one), tight);
  assert.equal(read(other), loose);
});

test('hot are the reads that were asked often enough within one state, the most frequent first', () => {
  const [shape] = requestShapes;
  assert.ok(shape);
  const subject = (text: string): Subject => ({ operation: 'view', text, bytes: 1, shape, share: 1, wire: '' });
  const hot = new HotReads({ times: 2, most: 2 });
  for (const text of ['a', 'b', 'b', 'c', 'c', 'c', 'd', 'd', 'd', 'd']) hot.record(subject(text));
  assert.deepEqual(
    hot.end().map(({ text }) => text),
    ['d', 'c'],
  );
  hot.record(subject('a'));
  assert.deepEqual(hot.end(), []);
});

// Parts of the simulation that are easily wrong without being seen.

test('ranks are drawn in proportion to their share', () => {
  const zipf = new Zipf(100, 1);
  const random = randomOf(5);
  const counts = Array.from({ length: 100 }, () => 0);
  for (let draw = 0; draw < 50_000; draw += 1) counts[zipf.draw(random)]! += 1;
  for (const rank of [0, 1, 9, 50]) {
    assert.ok(Math.abs(counts[rank]! / 50_000 / zipf.shareOf(rank) - 1) < 0.15, `rank ${rank}`);
  }
});

test('sizes of records are those that were measured, and lie between them otherwise', () => {
  assert.deepEqual([storedBytes(400), storedBytes(701), storedBytes(3_959)], [438, 739, 3_997]);
  assert.deepEqual([storedBytes(8_191), storedBytes(8_192), storedBytes(15_576)], [8_229, 1_751, 4_576]);
  assert.ok(storedBytes(60_000) > 12_000 && storedBytes(60_000) < 14_000);
});

test('tables go between the marks of a page, and a page without marks is refused', () => {
  const page = 'before\n<!-- simulated: begin -->\nold\n<!-- simulated: end -->\nafter';
  const once = withTables(page, ['new']);
  assert.equal(withTables(once, ['new']), once);
  assert.match(once, /^before\n.*\n\nnew\n\n.*\nafter$/);
  assert.throws(() => withTables('nothing', ['new']));
});

test('bench/RESULTS.md states the shares that are simulated', () => {
  const page = readFileSync(new URL('../../bench/RESULTS.md', import.meta.url), 'utf8');
  assert.equal(withTables(page, [sharesTable(requestShapes)], 'shares'), page);
});

test('a tier that holds all asks once for each read, a smaller one more often, one with an end again', () => {
  const [all = 0, small = 0, ended = 0] = archiveShares(
    [
      { name: 'all', bytes: Infinity, ttlSeconds: Infinity },
      { name: 'small', bytes: 1e6, ttlSeconds: Infinity },
      { name: 'ended', bytes: Infinity, ttlSeconds: 100 },
    ],
    { links: 50, skew: 0, readsPerSecond: 10, seconds: 1_000 },
  );

  // Each of 50 is read some 200 times in 1,000 s.
  assert.ok(Math.abs(all * 10_000 - 50) < 5, String(all));
  assert.ok(small > 0.5, String(small));
  assert.ok(ended > all * 8 && ended < all * 11, String(ended));
});

// The simulation beside the real thing: one trace, played to both. `npm run simulate -- --check` does it at length.

const seed = 7;

for (const trace of checkedTraces(seed, 150, true)) {
  const skip = trace.shape.redis === undefined ? false : noRedis;
  test(`simulated and played to real gateways, a trace comes to the same: ${trace.name}`, { skip }, async () => {
    const [simulated, real] = [playSimulated(trace, seed), await playReal(trace)];
    assert.equal(differenceOf(simulated, real), undefined, JSON.stringify({ simulated, real }));
    assert.ok(simulated.node > 0 && simulated.memory > 0);
    assert.equal(simulated.redis > 0, trace.shape.redis !== undefined);
  });
}
