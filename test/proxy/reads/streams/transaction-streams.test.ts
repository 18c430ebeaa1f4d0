// Streams of transactions over a real tail, with a ledger, a pulse and nodes that the test moves.
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { mock, test } from 'node:test';
import type { AdmittedRequest } from '../../../../src/access/index.ts';
import { GatewayError } from '../../../../src/ledger/index.ts';
import { PastPages } from '../../../../src/proxy/reads/streams/past-pages.ts';
import type { StreamClient } from '../../../../src/proxy/reads/push.ts';
import type { Read, ReadResult } from '../../../../src/proxy/reads/read.ts';
import { cutPage, type Filter, type Page } from '../../../../src/proxy/reads/follower/page.ts';
import { Tail } from '../../../../src/proxy/reads/follower/tail.ts';
import { TransactionStreams } from '../../../../src/proxy/reads/streams/transaction-streams.ts';
import { LargeAnswerError } from '../../../../src/upstream/index.ts';
import { fc } from '../../../support/fast-check.ts';
import { ledgerInfo } from '../../../support/ledger-info.ts';
import { answerOf, hashOf, transactionOf, v } from '../../../support/pages.ts';
import { StreamTestClient } from '../../../support/stream-clients.ts';
import { live, TestPulse } from '../../../support/test-pulse.ts';

function idsOf(first: number, end: number): readonly string[] {
  return Array.from({ length: end - first }, (_, index) => `${first + index}`);
}

/** The reading end of a stream, which may have unread bytes. */
class Client extends StreamTestClient {
  ended: string | undefined;

  override end(reason = 'client'): void {
    this.ended = reason;
    super.end();
  }

  /** Ids of all events, with the name of those that are no transaction. */
  get ids(): readonly string[] {
    const texts = Buffer.concat(this.frames).toString().split('\n\n').slice(0, -1);
    return texts.map((event) => {
      const [, id] = /^id: (.*)$/m.exec(event) ?? [];
      const [, name = 'none'] = /^event: (.*)$/m.exec(event) ?? [];
      return name === 'transaction' ? `${id}` : `${name} ${id}`;
    });
  }

  /** It has the transactions from `first` to before `end`, in order, and nothing else. */
  assertHas(first: number, end: number): void {
    assert.deepEqual(this.ids, idsOf(first, end));
  }
}

/** One gateway's streams. */
class World {
  readonly fleet = { generation: 1, head: ledgerInfo({ version: 1_000_000n }) };
  /** By operators; each generation begins with one, too. */
  purges = 0;
  readonly settings: { mode: 'auto' | 'always' | 'off' } = { mode: 'auto' };
  readonly seen: bigint[] = [];
  /** Queries of page reads, in turn. */
  readonly asked: string[] = [];
  /** The head of the nodes. */
  head = 0n;
  history = 'a';
  /** Of the nodes, by version. */
  historyOf = (_version: bigint): string => this.history;
  padding = 0;
  timeMs = 0;
  /** Replaces the answer to a page read. */
  answer: ((read: Read) => ReadResult | Error | undefined | Promise<ReadResult>) | undefined;
  readonly needs = new Set<() => boolean>();
  readonly #tiers = live({ purges: () => this.fleet.generation + this.purges });
  readonly tail = new Tail(this.fleet, this.#tiers, () => 100_000_000);
  readonly beats = new TestPulse(() => this.fleet.generation);
  readonly streams: TransactionStreams;

  constructor() {
    mock.restoreAll();
    mock.method(performance, 'now', () => this.timeMs);
    const reader = live({
      generation: () => this.fleet.generation,
      purges: () => this.#tiers.purges,
      isLarge: () => () => false,
      find: () => () => undefined,
      load: () => (read: Read) => this.#load(read),
    });
    const freshness = {
      findLedgerInfo: () => ({ body: Buffer.alloc(0), version: v(this.head) }),
      ledgerInfo: () => Promise.reject(new Error('not asked')),
      recordSeen: (_: unknown, version: bigint) => this.seen.push(version),
    };
    const { tail, needs, settings } = this;
    const pages = new PastPages(reader, tail);
    const { pulse } = this.beats;
    this.streams = new TransactionStreams(pages, freshness, tail, { needs }, pulse, settings);
  }

  transaction(version: bigint): string {
    const sender = version % 10n === 0n ? '0xa' : '0xb';
    const padding = 'x'.repeat(this.padding);
    return transactionOf(version, { history: this.historyOf(version), sender, padding });
  }

  async #load(read: Read): Promise<ReadResult> {
    this.asked.push(read.subject);
    const given = await this.answer?.(read);
    if (given instanceof Error) throw given;
    return given ?? resultOf(200, this.bodyOf(read));
  }

  #list(first: bigint, end: bigint): string {
    const items: string[] = [];
    for (let version = first; version < end; version += 1n) items.push(this.transaction(version));
    return `[${items.join()}]`;
  }

  bodyOf({ extent }: Read): Buffer {
    assert.ok(extent?.kind === 'list');
    const end = extent.first + BigInt(extent.limit);
    return Buffer.from(this.#list(extent.first, end > this.head ? this.head + 1n : end));
  }

  /** The page [first, end) of a node. */
  async cut(first: number, end: number): Promise<Page> {
    const info = ledgerInfo({ version: 1_000_000n });
    const answer = answerOf(this.#list(BigInt(first), BigInt(end)), { info });
    return (await cutPage(answer, v(first), undefined)) ?? assert.fail('it is no page');
  }

  /** The follower reads [first, end). */
  async follow(first: number, end: number): Promise<void> {
    this.tail.take(await this.cut(first, end));
  }

  /** The shared state moves to the head of the nodes, which is `head` from now on, and all that follows from it ends. */
  async beat(head?: number): Promise<void> {
    if (head !== undefined) this.head = BigInt(head);
    this.timeMs += 100;
    this.beats.beat(this.head);
    for (let turns = 0; turns < 40; turns += 1) await turn();
  }

  async open(
    { cursor, isResumed = false, filter }: { cursor?: number; isResumed?: boolean; filter?: Filter },
    client = new Client(),
  ): Promise<Client> {
    const request = { cursor: cursor === undefined ? undefined : v(cursor), isResumed };
    const start = await this.streams.prepare(request, client);
    assert.ok('cursor' in start);
    this.streams.open(client, start, filter);
    return client;
  }
}

/** Streams at `head`, and a client that reads them from `cursor` on. */
async function opened(head: number, cursor: number) {
  const world = new World();
  await world.beat(head);
  return { world, client: await world.open({ cursor }) };
}

function resultOf(status: number, body: Buffer): ReadResult {
  const source = { upstream: 'one', tookMs: 7, version: undefined, retryAfter: undefined };
  const entry = { status, body, lifetimeMs: status === 200 ? 1 : 0 };
  return { entry, isProvisional: false, source, isCollapsed: false } as ReadResult;
}

const noNode = new GatewayError('unavailable', 'no node', { reason: 'no node' });
const ofSender: Filter = { key: 'of 0xa', matches: ({ sender }) => sender === '0xa' };

test('streams in step share the buffers of the tail, and none is ahead of the shared state', async () => {
  const world = new World();
  world.head = 99n;
  const [one, other, filtered] = [
    await world.open({}),
    await world.open({ cursor: 100 }),
    await world.open({ filter: ofSender }),
  ];
  assert.deepEqual(
    [...world.needs].map((needs) => needs()),
    [true],
  );
  await world.follow(100, 130);
  await world.beat(119);
  one.assertHas(100, 120);
  other.assertHas(100, 120);
  assert.equal(one.frames[0], other.frames[0]);
  assert.deepEqual(filtered.ids, ['100', '110']);
  assert.deepEqual(new Set(world.seen), new Set([119n]));
  await world.beat(119);
  assert.equal(one.frames.length, 1);
  await world.beat(129);
  one.assertHas(100, 130);
  assert.deepEqual(world.asked, []);
  for (const client of [one, other, filtered]) client.end('client');
  assert.equal(world.beats.isListening, false);
  assert.deepEqual(
    [...world.needs].map((needs) => needs()),
    [false],
  );
});

test('a stream that is behind reads pages that end at hundreds, and goes on from the tail', async () => {
  const world = new World();
  await world.beat(449);
  const first = await world.open({ cursor: 137 });
  await world.follow(400, 450);
  await world.beat();
  first.assertHas(137, 450);
  assert.deepEqual(world.asked, ['?start=137&limit=63', '?start=200&limit=100', '?start=300&limit=100']);
  // The next one that is behind has a page of its own, and shares the rest.
  const second = await world.open({ cursor: 199, isResumed: true });
  await world.beat();
  second.assertHas(199, 450);
  assert.deepEqual(world.asked.slice(3), ['?start=199&limit=1']);
  await world.follow(450, 460);
  await world.beat(459);
  first.assertHas(137, 460);
  second.assertHas(199, 460);
  assert.equal(first.frames.at(-1), second.frames.at(-1));
});

test('a page that the tail has lost, or does not get, is read', async () => {
  const world = new World();
  world.head = 99n;
  const client = await world.open({});
  await world.follow(100, 110);
  await world.beat(109);
  // The follower has skipped ahead.
  await world.follow(150, 160);
  await world.beat(159);
  client.assertHas(100, 160);
  assert.deepEqual(world.asked, ['?start=110&limit=90']);
  // The follower hangs: the tail has two seconds.
  await world.beat(169);
  client.assertHas(100, 160);
  world.timeMs += 2_000;
  await world.beat(169);
  client.assertHas(100, 170);
  assert.deepEqual(world.asked.slice(1), ['?start=160&limit=40']);
  // Pages that come late change nothing.
  await world.follow(160, 175);
  await world.beat(174);
  client.assertHas(100, 175);
});

test('transactions above the shared state are not sent, though a node has them', async () => {
  const { world, client } = await opened(149, 120);
  world.answer = () => {
    world.head = 180n;
    return undefined;
  };
  await world.beat();
  client.assertHas(120, 150);
});

test('a rollback is an event, after which the stream goes on from its version', async () => {
  const world = new World();
  world.head = 99n;
  const [follows, begins, resumed, ahead] = [
    await world.open({ cursor: 100 }),
    await world.open({ cursor: 108 }),
    await world.open({ cursor: 106, isResumed: true }),
    await world.open({ cursor: 500 }),
  ];
  await world.follow(100, 110);
  await world.beat(109);
  world.history = 'b';
  world.fleet.generation += 1;
  // The histories are compared: nothing is sent until then.
  await world.beat(112);
  follows.assertHas(100, 110);
  world.tail.rollBack(v(105));
  await world.follow(105, 113);
  await world.beat(112);
  assert.deepEqual(follows.ids.slice(10), ['rollback 104', ...idsOf(105, 113)]);
  assert.match(follows.frames[1]?.toString() ?? '', /\ndata: {"version":"105"}\n\n$/);
  // It has asked for nothing before 108, and a client that resumes has had what came before.
  assert.deepEqual(begins.ids, ['108', '109', 'rollback 107', ...idsOf(108, 113)]);
  assert.deepEqual(resumed.ids, ['106', '107', '108', '109', 'rollback 104', ...idsOf(105, 113)]);
  assert.deepEqual(ahead.ids, []);
  assert.ok(follows.frames.at(-1)?.includes(hashOf(112n, 'b')));
});

test('without a tail to compare, what is above the state of a new ledger is withdrawn', async () => {
  const world = new World();
  await world.beat(149);
  const [above, below] = [await world.open({ cursor: 140 }), await world.open({ cursor: 160 })];
  await world.beat();
  world.fleet.generation += 1;
  world.history = 'b';
  await world.beat(144);
  assert.deepEqual(above.ids, [...idsOf(140, 150), 'rollback 144']);
  await world.beat(161);
  assert.deepEqual(above.ids.slice(11), idsOf(145, 162));
  below.assertHas(160, 162);
});

test('a ledger that was replaced before a stream began is no event of it', async () => {
  const world = new World();
  world.head = 149n;
  world.fleet.generation += 1;
  const ahead = await world.open({ cursor: 160, isResumed: true });
  await world.beat();
  await world.beat(161);
  ahead.assertHas(160, 162);
});

test('a rollback between two turns of one beat withdraws the frames that its streams share', async () => {
  const world = new World();
  world.head = 104n;
  const clients: Client[] = [];
  for (let count = 0; count < 500; count += 1) clients.push(await world.open({ cursor: 105, isResumed: true }));
  const last = await world.open({ cursor: 108, isResumed: true });
  await world.follow(100, 110);
  const beat = world.beat(109);
  world.history = 'b';
  world.tail.rollBack(v(105));
  await beat;
  await world.follow(105, 112);
  await world.beat(111);
  assert.deepEqual(last.ids, ['rollback 104', ...idsOf(105, 112)]);
  for (const late of [last, clients.at(-1)]) assert.ok(!Buffer.concat(late?.frames ?? []).includes(hashOf(105n, 'a')));
  assert.deepEqual(clients[0]?.ids, [...idsOf(105, 110), 'rollback 104', ...idsOf(105, 112)]);
});

test('a rollback between two steps of a stream that catches up comes ahead of what follows it', async () => {
  const world = new World();
  await world.follow(0, 1_000);
  world.head = 999n;
  world.history = 'b';
  const ofB = await world.cut(50, 1_000);
  const client = await world.open({ cursor: 0 });
  const beat = world.beat();
  while (client.ids.length < 200) await turn();
  const sent = client.ids.length;
  world.tail.rollBack(v(50));
  world.tail.take(ofB);
  await beat;
  await world.beat();
  assert.deepEqual(client.ids, [...idsOf(0, sent), 'rollback 49', ...idsOf(50, 1_000)]);
});

test('nothing is sent, or asked of nodes, while histories are compared', async () => {
  const { world, client } = await opened(149, 150);
  await world.follow(140, 150);
  await world.beat();
  world.fleet.generation += 1;
  world.timeMs += 5_000;
  await world.beat(180);
  assert.deepEqual([client.ids, world.asked], [[], []]);
  world.tail.rollBack(v(150));
  world.timeMs += 2_000;
  await world.beat();
  client.assertHas(150, 181);
});

test('a rollback to the genesis empties the last id', async () => {
  const { world, client } = await opened(4, 0);
  await world.follow(0, 5);
  await world.beat();
  world.tail.rollBack(v(0));
  await world.beat(0);
  assert.equal(client.frames.at(-1)?.toString(), 'id: \nevent: rollback\ndata: {"version":"0"}\n\n');
});

test('a page that was asked for before the ledger was replaced, or is of another history, is not sent', async () => {
  const { world, client } = await opened(299, 150);
  world.answer = () => {
    world.fleet.generation += 1;
    return undefined;
  };
  await world.beat();
  client.assertHas(150, 200);
  world.answer = undefined;
  await world.follow(250, 300);
  world.history = 'b';
  await world.beat();
  client.assertHas(150, 200);
  world.history = 'a';
  world.timeMs += 2_000;
  await world.beat();
  client.assertHas(150, 300);
  assert.deepEqual(world.asked, ['?start=150&limit=50', ...Array.from({ length: 3 }, () => '?start=200&limit=100')]);
});

test('a purge while a page is read takes it from no stream that waits for it, and it is not kept', async () => {
  const world = new World();
  await world.beat(199);
  world.answer = () => {
    world.purges += 1;
    return undefined;
  };
  const first = await world.open({ cursor: 150 });
  await world.beat();
  first.assertHas(150, 200);
  assert.deepEqual(world.asked, ['?start=150&limit=50']);
  world.answer = undefined;
  const second = await world.open({ cursor: 150 });
  await world.beat();
  second.assertHas(150, 200);
  assert.deepEqual(world.asked.slice(1), ['?start=150&limit=50']);
});

test('a page in flight at a rollback is neither sent nor kept', async () => {
  const { world, client } = await opened(599, 450);
  const held = Promise.withResolvers<void>();
  world.answer = async (read) => {
    const result = resultOf(200, world.bodyOf(read));
    await held.promise;
    return result;
  };
  await world.beat();
  client.assertHas(450, 500);
  // A fork: the generation stays.
  world.history = 'b';
  world.tail.rollBack(v(500));
  held.resolve();
  world.answer = undefined;
  await world.beat();
  await world.beat();
  client.assertHas(450, 600);
  const sent = Buffer.concat(client.frames).toString();
  assert.ok(sent.includes(hashOf(500n, 'b')) && !sent.includes(hashOf(500n, 'a')));
});

test('a page that is not final yet, or provisional, is read for each stream', async () => {
  const world = new World();
  await world.beat(199);
  for (const [lifetimeMs, isProvisional] of [
    [0, false],
    [1, true],
    [1, false],
  ] as const) {
    world.answer = (read) => {
      const result = resultOf(200, world.bodyOf(read));
      return { ...result, entry: { ...result.entry, lifetimeMs }, isProvisional };
    };
    const clients = [await world.open({ cursor: 150 }), await world.open({ cursor: 150 })];
    await world.beat();
    for (const client of clients) client.assertHas(150, 200);
  }
  assert.equal(world.asked.length, 2 + 2 + 1);
});

test('a filter that lets nothing pass moves the last id on every 1,000 versions', async () => {
  const world = new World();
  world.head = 99n;
  const none: Filter = { key: 'none', matches: () => false };
  const client = await world.open({ filter: none });
  for (let first = 100; first < 2_200; first += 300) {
    await world.follow(first, first + 300);
    await world.beat(first + 299);
  }
  assert.deepEqual(client.ids, ['none 1299']);
  assert.equal(client.frames[0]?.toString(), 'id: 1299\n\n');
});

/** A reader that takes nothing is held for 30 s. */
async function assertSlow(world: World, client: Client): Promise<void> {
  await world.beat();
  world.timeMs += 29_000;
  await world.beat();
  assert.equal(client.ended, undefined);
  world.timeMs += 1_000;
  await world.beat();
  assert.equal(client.ended, 'slow');
}

test('a stream that catches up waits for its reader, and ends when that takes nothing', async () => {
  const world = new World();
  world.padding = 10_000;
  await world.beat(999);
  const client = await world.open({ cursor: 0 });
  await world.follow(900, 1_000);
  client.unread = 600_000;
  await world.beat();
  assert.deepEqual(client.ids, []);
  client.unread = 0;
  for (let turns = 0; turns < 20; turns += 1) await world.beat();
  client.assertHas(0, 1_000);
  assert.ok(client.frames.every(({ length }) => length < 512 * 1024));
  const stuck = await world.open({ cursor: 0 });
  stuck.unread = 600_000;
  await assertSlow(world, stuck);
});

test('a transaction above the bound waits until all before it is read; a reader that takes nothing is a slow one', async () => {
  const world = new World();
  await world.beat(149);
  const [client, stuck] = [await world.open({ cursor: 149 }), await world.open({ cursor: 149 })];
  await world.beat();
  world.padding = 600_000;
  await world.follow(150, 152);
  for (const each of [client, stuck]) each.unread = 1;
  await world.beat(151);
  client.assertHas(149, 150);
  client.unread = 0;
  await world.beat();
  client.assertHas(149, 152);
  await assertSlow(world, stuck);
});

test('transactions of more than a mebibyte are streamed out of pages, as all are', async () => {
  const world = new World();
  world.padding = 1_100_000;
  await world.beat(12);
  const client = await world.open({ cursor: 9 });
  for (let beats = 0; beats < 5; beats += 1) await world.beat();
  client.assertHas(9, 13);
  await world.follow(12, 13);
  const other = await world.open({ cursor: 10 });
  for (let beats = 0; beats < 5; beats += 1) await world.beat();
  other.assertHas(10, 13);
});

test('the first transaction after a rest is waited for in the tail', async () => {
  const { world, client } = await opened(149, 149);
  await world.follow(140, 150);
  for (let beats = 0; beats < 30; beats += 1) await world.beat();
  const { length } = world.asked;
  await world.beat(150);
  assert.equal(world.asked.length, length);
  await world.follow(149, 151);
  await world.beat();
  client.assertHas(149, 151);
});

test('what nodes have pruned ends a stream with their answer', async () => {
  const { world, client } = await opened(299, 150);
  world.answer = () => resultOf(410, Buffer.from('{"error_code":\n"version_pruned"}'));
  await world.beat();
  assert.equal(client.ended, 'pruned');
  assert.equal(client.frames.at(-1)?.toString(), 'event: failure\ndata: {"error_code":\ndata: "version_pruned"}\n\n');
  const refused = await world.streams.prepare({ cursor: v(10), isResumed: false }, {} as StreamClient);
  assert.equal('refused' in refused && refused.refused.entry.status, 410);
});

test('a failed page is read again, ever later', async () => {
  const { world, client } = await opened(249, 190);
  const failures: (() => ReadResult | Error)[] = [
    () => noNode,
    () => resultOf(503, Buffer.from('{}')),
    () => resultOf(200, Buffer.from('[]')),
    () => resultOf(200, Buffer.from('[{"version":"190"}]')),
  ];
  world.answer = () => failures[world.asked.length % failures.length]?.() ?? resultOf(500, Buffer.alloc(0));
  // After 0, 100, 300, 700, 1,500 and 3,100 ms.
  for (let beats = 0; beats < 30; beats += 1) await world.beat();
  assert.equal(world.asked.length, 1 + 5);
  client.assertHas(190, 200);
  world.answer = undefined;
  world.timeMs += 2_000;
  await world.beat();
  client.assertHas(190, 250);
});

test('a page too large for one answer is read in shorter ones', async () => {
  const world = new World();
  world.answer = ({ extent }) => {
    if (extent?.kind === 'list' && extent.limit > 1 && extent.first < 205) throw new LargeAnswerError();
    return undefined;
  };
  await world.beat(229);
  const client = await world.open({ cursor: 203 });
  await world.beat();
  client.assertHas(203, 230);
  assert.deepEqual(world.asked, [
    '?start=203&limit=97',
    '?start=203&limit=7',
    '?start=203&limit=1',
    '?start=204&limit=96',
    '?start=204&limit=6',
    '?start=204&limit=1',
    '?start=205&limit=95',
  ]);
});

test('a page that only a node has is charged once more, and waits where the plan refuses it', async () => {
  const world = new World();
  await world.beat(399);
  const charges: unknown[] = [];
  const next = {
    follow: ({ outcome }: { outcome: string }) => charges.push(outcome),
    settle: () => charges.push('settled'),
  };
  let isRefused = true;
  const client = new Client('one', { again: () => (isRefused ? undefined : next) } as unknown as AdmittedRequest);
  await world.open({ cursor: 150 }, client);
  await world.beat();
  client.assertHas(150, 200);
  assert.deepEqual(charges, []);
  isRefused = false;
  world.timeMs += 2_000;
  await world.beat();
  client.assertHas(150, 400);
  assert.deepEqual(charges, ['miss', 'settled', 'miss', 'settled']);
});

test("a share in another client's page costs no time of a node", async () => {
  const world = new World();
  await world.beat(399);
  const costs: unknown[] = [];
  const next = {
    follow: ({ outcome, upstreamMs }: object & Record<string, unknown>) => costs.push([outcome, upstreamMs]),
  };
  const again = () => ({ ...next, settle: () => undefined });
  const client = new Client('one', { again } as unknown as AdmittedRequest);
  await world.open({ cursor: 150 }, client);
  world.answer = () => ({ ...resultOf(404, Buffer.from('{}')), isCollapsed: true });
  for (let beats = 0; beats < 3; beats += 1) await world.beat();
  assert.deepEqual(costs[0], ['collapsed', 0]);
});

test('streams end while pages are distrusted, and where following is off', async () => {
  const world = new World();
  const client = await world.open({ cursor: 0 });
  world.settings.mode = 'off';
  await world.beat();
  assert.equal(client.ended, 'reload');
  const opening = () => world.streams.prepare({ cursor: undefined, isResumed: false }, {} as StreamClient);
  await assert.rejects(opening, { status: 403, code: 'api_disabled' });
  world.settings.mode = 'always';
  const other = await world.open({ cursor: 0 });
  world.tail.distrust();
  assert.equal(other.ended, 'failed');
  await assert.rejects(opening, { status: 503 });
});

test('a client that left before its stream began leaves nothing', async () => {
  const world = new World();
  const client = new Client();
  client.end('client');
  await world.open({}, client);
  assert.equal(world.beats.isListening, false);
});

/** What may happen to a stream's ledger, and to the parts that it comes from. */
const step = fc.oneof(
  fc.record({ kind: fc.constant('grow' as const), by: fc.integer({ min: 1, max: 700 }) }),
  // The follower has read so many, of which the first ones were lost.
  fc.record({ kind: fc.constant('page' as const), count: fc.integer({ min: 1, max: 100 }), lost: fc.nat(30) }),
  fc.record({ kind: fc.constant('beat' as const), passesMs: fc.constantFrom(0, 0, 300, 2_500) }),
  fc.record({ kind: fc.constant('fail' as const), times: fc.nat(2) }),
  fc.record({ kind: fc.constant('read' as const), unread: fc.constantFrom(0, 0, 600_000) }),
  // Answers come after the next rollback.
  fc.record({ kind: fc.constant('hold' as const) }),
  fc.record({
    kind: fc.constant('back' as const),
    by: fc.integer({ min: 1, max: 150 }),
    grows: fc.nat(200),
    isFork: fc.boolean(),
    isBeatenBefore: fc.boolean(),
  }),
  fc.record({ kind: fc.constant('open' as const), behind: fc.nat(600), isResumed: fc.boolean() }),
);

/** The transactions of a client, without those that were withdrawn. */
function keptOf({ frames: sent }: Client): readonly (readonly [id: string, data: string])[] {
  const kept: (readonly [string, string])[] = [];
  for (const event of Buffer.concat(sent).toString().split('\n\n').slice(0, -1)) {
    const [id = '', name = '', data = ''] = event.split('\n').map((line) => line.slice(line.indexOf(': ') + 2));
    if (name === 'transaction') kept.push([id, data]);
    else while (kept.length > 0 && Number(kept.at(-1)?.[0]) > Number(id)) kept.pop();
  }
  return kept;
}

test('whatever is lost, late, failing or rolled back: each version once, in order, of the last history', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const world = new World();
      let histories: { readonly from: bigint; readonly name: string }[] = [{ from: 0n, name: '0' }];
      world.historyOf = (version) => histories.findLast(({ from }) => from <= version)?.name ?? '';
      world.head = 999n;
      let names = 0;
      let held = Promise.withResolvers<void>();
      const streams: { readonly client: Client; readonly first: number }[] = [];
      const open = async (first: number, isResumed: boolean): Promise<void> => {
        streams.push({ client: await world.open({ cursor: first, isResumed }), first });
      };
      await open(1_000, false);
      await world.follow(999, 1_000);
      await world.beat();
      for (const each of steps) {
        if (each.kind === 'grow') world.head += BigInt(each.by);
        if (each.kind === 'page') {
          const first = Number(world.tail.next ?? 0n) + each.lost;
          const end = Math.min(first + each.count, Number(world.head) + 1);
          if (first < end) await world.follow(first, end);
        }
        if (each.kind === 'beat') {
          world.timeMs += each.passesMs;
          await world.beat();
        }
        if (each.kind === 'fail') {
          let left = each.times;
          world.answer = () => {
            left -= 1;
            return left < 0 ? undefined : noNode;
          };
        }
        if (each.kind === 'read') for (const { client } of streams) client.unread = each.unread;
        if (each.kind === 'hold')
          world.answer = (read) => {
            const result = resultOf(200, world.bodyOf(read));
            return held.promise.then(() => result);
          };
        if (each.kind === 'back') {
          const from = world.head - BigInt(each.by);
          if (from < 900n) continue;
          histories = histories.filter((history) => history.from < from);
          names += 1;
          histories.push({ from, name: (names % 16).toString(16) });
          if (each.isFork) world.tail.doubt();
          else world.fleet.generation += 1;
          world.head = from + BigInt(each.grows);
          if (each.isBeatenBefore) await world.beat();
          world.tail.rollBack(v(from));
          held.resolve();
          held = Promise.withResolvers<void>();
          world.answer = undefined;
          await world.beat();
        }
        if (each.kind === 'open') {
          // Not refused.
          world.answer = undefined;
          const first = Math.max(Number(world.head) - each.behind, 0);
          await open(first, each.isResumed);
        }
      }
      world.answer = undefined;
      held.resolve();
      for (const { client } of streams) client.unread = 0;
      for (let beats = 0; beats < 3; beats += 1) {
        world.timeMs += 3_000;
        await world.beat();
      }
      for (const { client, first } of streams) {
        // It has not read for 30 s.
        if (client.ended === 'slow') continue;
        const kept = keptOf(client);
        // A client that resumed may have to go back further than it began.
        const begin = Number(kept[0]?.[0] ?? first);
        assert.ok(begin <= first);
        const ids = idsOf(begin, Math.max(Number(world.head) + 1, begin));
        assert.deepEqual(
          kept.map(([id]) => id),
          ids,
        );
        for (const [id, data] of kept) assert.equal(data, world.transaction(BigInt(id)));
      }
    }),
    { numRuns: 40 },
  );
});
