/** Watches: the reads of their turns, their events, and the clients that pay. */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { createEntry } from '../../../../src/cache/record.ts';
import { GatewayError } from '../../../../src/ledger/errors.ts';
import type { CancelSignal } from '../../../../src/ledger/stop.ts';
import type { LedgerVersion } from '../../../../src/ledger/version.ts';
import type { Freshness } from '../../../../src/proxy/reads/freshness.ts';
import type { StreamClient } from '../../../../src/proxy/reads/push.ts';
import type { Caller, Read, ReadResult } from '../../../../src/proxy/reads/read.ts';
import type { Reader } from '../../../../src/proxy/reads/reader.ts';
import { Watches } from '../../../../src/proxy/reads/streams/watches.ts';
import type { ReportedState } from '../../../../src/upstream/shared-states.ts';
import { errorBody } from '../../../support/error-body.ts';
import { readResource, readView } from '../../../support/reads.ts';
import { StreamTestClient } from '../../../support/stream-clients.ts';
import { live, TestPulse } from '../../../support/test-pulse.ts';

const [balance, supply] = ['0xa', '0xb'].map((address) => readResource(address, '0x1::coin::Coin', { query: '' })) as [
  Read,
  Read,
];
const node = { upstream: 'full-0', tookMs: 7, version: undefined, retryAfter: undefined };

/** A node's answer: its status and body, or the error of the read. */
type Given = readonly [status: number, body: string] | GatewayError;

/** Watches whose clock, beats and answers the test sets. */
class World {
  intervalMs = 1_000;
  generation = 0;
  purges = 0;
  isCollapsed = false;
  /** The answer to a read at a version. */
  answer: (read: Read, version: bigint) => Given = () => [200, '{"value":"1"}'];
  /** Versions of `memory` are not read. */
  readonly memory = new Set<bigint>();
  /** Reads of nodes: account and version. */
  readonly begun: string[] = [];
  readonly callers: Caller[] = [];
  /** Held loads, in turn, where the test sets it. */
  held: PromiseWithResolvers<void>[] | undefined;
  /** Versions that clients have got. */
  readonly seen = new Map<StreamClient, bigint>();
  readonly beats = new TestPulse(() => this.generation);
  readonly watches: Watches;
  #nowMs = 0;

  constructor(t: TestContext) {
    t.mock.method(performance, 'now', () => this.#nowMs);
    const reader = live({
      find: () => (read: Read) => this.#find(read),
      load: () => (read: Read, caller: Caller) => this.#load(read, caller),
      purges: () => this.purges,
    });
    const freshness = {
      pinned: (read: Read, version: LedgerVersion) => ({ ...read, version }),
      mayFollow: ({ info }: ReportedState, client: StreamClient) => (this.seen.get(client) ?? 0n) <= info.version,
      recordServed: (client: StreamClient, { info }: ReportedState) => void this.seen.set(client, info.version),
      requireVersion: ({ entry }: ReadResult) => {
        if (entry.status === 410) throw new GatewayError('unavailable', 'gone', { reason: 'not reached' });
      },
    };
    const parts = { reader, freshness } as unknown as { reader: Reader; freshness: Freshness };
    const settings = live({ intervalMs: () => this.intervalMs });
    this.watches = new Watches(parts.reader, parts.freshness, this.beats.pulse, settings);
  }

  /** A client's stream begins with the answer of this version. */
  open(version: bigint, client = new StreamTestClient(), read = balance): StreamTestClient {
    const given = this.answer(read, version);
    assert.ok(!(given instanceof GatewayError));
    this.watches.open(client, read, resultOf(given, version, node));
    return client;
  }

  /** A beat of the pulse so many ms after the one before. */
  async beat(version: bigint, ms = 1_000): Promise<void> {
    this.#nowMs += ms;
    this.beats.beat(version);
    await this.settle();
  }

  /** A beat without a state. */
  async miss(ms: number): Promise<void> {
    this.#nowMs += ms;
    this.watches.onMiss(new GatewayError('unavailable', 'no node is usable', { reason: 'no node' }));
    await this.settle();
  }

  async settle(): Promise<void> {
    for (let turns = 0; turns < 8; turns += 1) await turn();
  }

  #find(read: Read): ReadResult | undefined {
    const { version } = read;
    const given = version !== undefined && this.memory.has(version) ? this.answer(read, version) : undefined;
    return given === undefined || given instanceof GatewayError ? undefined : resultOf(given, version, 'memory');
  }

  async #load(read: Read, caller: Caller): Promise<ReadResult> {
    const { version = 0n as LedgerVersion } = read;
    this.begun.push(`${read.subject.split('/')[0]} at ${version}`);
    this.callers.push(caller);
    if (this.held !== undefined) {
      const held = Promise.withResolvers<void>();
      this.held.push(held);
      await held.promise;
    }
    const given = this.answer(read, version);
    if (given instanceof GatewayError) throw given;
    return { ...resultOf(given, version, node), isCollapsed: this.isCollapsed };
  }
}

function resultOf(
  [status, body]: readonly [number, string],
  version: bigint | undefined,
  source: ReadResult['source'],
): ReadResult {
  const content = {
    status,
    contentType: 'application/json',
    body: Buffer.from(body),
    committedAt: undefined,
    gasUsed: '12',
    cursor: undefined,
    ownHeaders: undefined,
    lifetimeMs: status === 200 || status === 404 ? Infinity : 0,
  };
  const facts = { isProvisional: false, isLatest: false, ageSeconds: 0, source, isCollapsed: false };
  return { entry: createEntry(content, true), version: version as LedgerVersion | undefined, ...facts };
}

/** A plan's client: admits so many reads of nodes, and records what they were charged. */
function planned(name: string, reads: number) {
  const charges: string[] = [];
  const principal = { name };
  let left = reads;
  let asked = 0;
  const again = (): unknown => {
    asked += 1;
    if (left === 0) return undefined;
    left -= 1;
    let outcome = '';
    return {
      follow: (result: { outcome: string; gasUsed: string | undefined }) => {
        outcome = `${result.outcome} ${result.gasUsed ?? '-'}`;
      },
      settle: ({ statusCode }: { statusCode: number }) => void charges.push(`${outcome} ${statusCode}`),
    };
  };
  const client = new StreamTestClient(name, { principal, again } as unknown as StreamClient['admitted']);
  return {
    client,
    charges,
    get asked() {
      return asked;
    },
  };
}

test('an interval has one read of a node for each key, whatever moves, and whoever watches', async (t) => {
  const world = new World(t);
  world.answer = (_, version) => [200, `{"value":"${version}"}`];
  const clients = Array.from({ length: 9 }, () => world.open(1n));
  world.open(1n, new StreamTestClient(), supply);
  // The second key has its turn a beat later.
  for (let version = 2n; version < 33n; version += 1n) await world.beat(version, 100);
  assert.equal(world.begun.length, 6);
  assert.deepEqual(
    clients.map(({ events }) => events),
    clients.map(() => 4),
  );
  const frames = clients.map((client) => client.frames.at(-1));
  assert.ok(frames.every((frame) => frame === frames[0]));
});

test('late turns do not put off the next, and a new interval holds at once', async (t) => {
  const world = new World(t);
  world.open(1n);
  const rounds: number[] = [];
  for (let ms = 0, version = 2n; ms < 5_000; ms += 130, version += 1n) {
    await world.beat(version, 130);
    if (world.begun.length > rounds.length) rounds.push(ms + 130);
  }
  assert.deepEqual(rounds, [1_040, 2_080, 3_120, 4_030, 5_070]);
  world.intervalMs = 200;
  await world.beat(100n, 130);
  await world.beat(101n, 130);
  assert.equal(world.begun.length, 6);
});

test('a state is read once: nothing on a quiet ledger, except behind a purge, and nothing that memory has', async (t) => {
  const world = new World(t);
  world.open(5n);
  world.memory.add(6n);
  await world.beat(5n);
  await world.beat(5n);
  await world.beat(6n);
  assert.equal(world.begun.length, 1);
  await world.beat(5n);
  world.purges += 1;
  await world.beat(5n);
  assert.equal(world.begun.length, 3);
});

test('a key has one turn at a time, at the newest state, and at most 32 keys are read at once', async (t) => {
  const world = new World(t);
  for (let index = 1; index <= 40; index += 1) {
    const read = readResource(`0x${index.toString(16)}`, '0x1::coin::Coin', { query: '' });
    world.open(1n, new StreamTestClient(), read);
  }
  world.held = [];
  await world.beat(2n);
  await world.beat(3n, 5_000);
  assert.equal(world.begun.length, 32);
  for (const held of world.held.splice(0)) held.resolve();
  await world.settle();
  assert.equal(world.begun.length, 40);
  for (const held of world.held.splice(0)) held.resolve();
  world.held = undefined;
  await world.settle();
  await world.beat(4n);
  assert.deepEqual([...new Set(world.begun.map((text) => text.split(' ').at(-1)))], ['2', '3', '4']);
  assert.equal(world.begun.length, 80);
});

test('a stream that joins late is compared once, with the version that it knows', async (t) => {
  const world = new World(t);
  // The value of 5 and 7 and of 20 is one: the event of 20 has its own id.
  world.answer = (_, version) => [200, `{"value":"${version === 15n ? 'b' : 'a'}"}`];
  const first = world.open(5n);
  await world.beat(7n);
  const joined = world.open(15n);
  const same = world.open(15n);
  await world.beat(10n);
  world.seen.set(same, 30n);
  await world.beat(20n);
  assert.deepEqual(
    [first.take().length, joined.take(), same.take().length],
    [1, ['change 15 {"value":"b"}', 'change 20 {"value":"a"}'], 1],
  );
  await world.beat(30n);
  assert.deepEqual(same.take(), ['change 30 {"value":"a"}']);
});

test('an answer that becomes an error is an event, once; its recovery is one, too, at the same version', async (t) => {
  const world = new World(t);
  const client = world.open(1n);
  client.take();
  const full = new GatewayError('unavailable', 'all nodes are full', { reason: 'nodes full' });
  world.answer = () => full;
  for (const version of [2n, 3n, 3n]) await world.beat(version);
  assert.deepEqual(client.take(), [`failure - ${full.body}`]);
  world.answer = () => [200, '{"value":"1"}'];
  await world.beat(3n);
  assert.deepEqual(client.take(), ['change 3 {"value":"1"}']);

  world.answer = (_, version) => [404, errorBody('resource_not_found', `at ledger version ${version}`)];
  for (const version of [4n, 5n]) await world.beat(version);
  assert.deepEqual(client.take(), [`failure 4 ${errorBody('resource_not_found', 'at ledger version 4')}`]);
  world.answer = () => [503, errorBody('overloaded')];
  await world.beat(6n);
  world.answer = () => [200, `"${'a'.repeat(512 * 1024)}"`];
  await world.beat(7n);
  const [shed, large] = client.take();
  assert.equal(shed, `failure - ${errorBody('overloaded')}`);
  assert.match(large ?? '', /^failure 7 .*larger than the 524288 bytes/);
});

test('reads that no node can answer at the state, or that one client may not make, are left to the next round', async (t) => {
  const world = new World(t);
  const client = world.open(1n);
  client.take();
  world.answer = () => new GatewayError('unavailable', 'away', { reason: 'not reached' });
  await world.beat(2n);
  world.answer = () => new GatewayError('unavailable', 'your share', { reason: 'nodes full', client: 'client' });
  await world.beat(3n);
  world.answer = () => [410, errorBody('version_pruned')];
  await world.beat(4n);
  assert.deepEqual(client.take(), []);
  world.answer = () => [200, '{"value":"2"}'];
  await world.beat(4n);
  assert.deepEqual(client.take(), ['change 4 {"value":"2"}']);
});

test('without a state for an interval each stream has the error that reads get, once', async (t) => {
  const world = new World(t);
  const client = world.open(1n);
  const other = world.open(1n, new StreamTestClient(), supply);
  for (const each of [client, other]) each.take();
  await world.beat(1n);
  await world.miss(500);
  assert.deepEqual(client.take(), []);
  await world.miss(600);
  await world.miss(1_000);
  assert.match(client.take().join(), /^failure - [^,]*no node is usable[^\n]*null\}$/);
  assert.equal(other.take().length, 1);
  await world.beat(1n);
  assert.deepEqual(client.take(), ['change 1 {"value":"1"}']);
});

test('a ledger that went back is an event, and the answer follows although it is equal', async (t) => {
  const world = new World(t);
  const client = world.open(9n);
  await world.beat(9n);
  client.take();
  world.generation += 1;
  const later = world.open(3n);
  later.take();
  await world.beat(4n);
  await world.beat(5n);
  assert.deepEqual(client.take(), ['rollback 4 {"version":"4"}', 'change 4 {"value":"1"}']);
  assert.deepEqual(later.take(), []);
});

test('an answer from before a replaced ledger is not used', async (t) => {
  const world = new World(t);
  const client = world.open(9n);
  client.take();
  world.held = [];
  world.answer = () => [200, '{"value":"2"}'];
  await world.beat(10n);
  world.generation += 1;
  world.held[0]?.resolve();
  await world.settle();
  assert.deepEqual(client.take(), []);
});

test('one client pays for all who watch: the oldest whose plan admits the read', async (t) => {
  const world = new World(t);
  const [poor, rich] = [planned('poor', 1), planned('rich', 9)];
  world.open(1n, poor.client);
  world.open(1n, rich.client);
  await world.beat(2n);
  await world.beat(3n);
  await world.beat(4n);
  assert.deepEqual(poor.charges, ['miss 12 200']);
  assert.deepEqual(rich.charges, ['miss 12 200', 'miss 12 200']);
  // Refused once, it is asked behind the others.
  assert.equal(poor.asked, 2);
  assert.deepEqual(
    world.callers.map(({ client }) => client),
    ['poor', 'rich', 'rich'],
  );

  world.isCollapsed = true;
  await world.beat(5n);
  world.answer = () => new GatewayError('unavailable', 'full', { reason: 'nodes full' });
  await world.beat(6n);
  assert.deepEqual(rich.charges.slice(2), ['collapsed - 200', 'failed - 503']);
});

test('a key that no plan admits is left out, and its streams stay', async (t) => {
  const world = new World(t);
  const clients = Array.from({ length: 20 }, (_, index) => planned(`client ${index}`, 0));
  const [first, ...others] = clients.map(({ client }) => client);
  // Another stream of a client that was refused is not asked in turn.
  const twin = new StreamTestClient('client 0', first?.admitted);
  for (const client of [first, twin, ...others]) world.open(1n, client);
  await world.beat(2n);
  const asked = (): number => clients.reduce((sum, client) => sum + client.asked, 0);
  assert.deepEqual([world.begun, asked()], [[], 8]);
  await world.beat(3n);
  assert.equal(asked(), 16);
  world.memory.add(4n);
  world.answer = () => [200, '{"value":"2"}'];
  await world.beat(4n);
  assert.deepEqual([world.begun, twin.take().at(-1)], [[], 'change 4 {"value":"2"}']);
});

test('the last stream of a key ends its read, and the last of all the listening', async (t) => {
  const world = new World(t);
  const [one, other] = [world.open(1n), world.open(1n)];
  const third = world.open(1n, new StreamTestClient(), supply);
  world.held = [];
  await world.beat(2n);
  const signals: readonly CancelSignal[] = world.callers.map(({ signal }) => signal);
  one.end();
  assert.deepEqual(
    signals.map(({ aborted }) => aborted),
    [false, false],
  );
  other.end();
  assert.deepEqual([signals[0]?.aborted, world.beats.isListening], [true, true]);
  third.end();
  assert.equal(world.beats.isListening, false);
  for (const held of world.held) held.resolve();
  await world.settle();

  const gone = new StreamTestClient();
  gone.end();
  world.open(3n, gone);
  const closing = new StreamTestClient();
  closing.send = () => {
    closing.end();
    return false;
  };
  world.open(3n, closing);
  assert.equal(world.beats.isListening, false);
  world.held = undefined;
  const back = world.open(3n);
  await world.beat(4n);
  assert.deepEqual([world.beats.isListening, world.begun.at(-1), back.events], [true, longAddress('0xa at 4'), 1]);
});

test('a view is watched by its arguments, and its body outlives the request', async (t) => {
  const world = new World(t);
  world.open(1n, new StreamTestClient(), viewOf('1'));
  world.open(1n, new StreamTestClient(), viewOf('1'));
  world.open(1n, new StreamTestClient(), viewOf('2'));
  await world.beat(2n);
  assert.equal(world.begun.length, 2);
});

test('a stream begins with a success or a final 404 within the bytes of an event', (t) => {
  const { watches } = new World(t);
  const begins = (status: number, body = '{}', lifetimeMs = Infinity): boolean => {
    const result = resultOf([status, body], 1n, node);
    return watches.canBegin({ ...result, entry: { ...result.entry, lifetimeMs } });
  };
  assert.ok(begins(200) && begins(404) && begins(200, '{}', 0));
  assert.ok(!begins(404, '{}', 0) && !begins(400) && !begins(503));
  const large = `"${'a'.repeat(512 * 1024)}"`;
  assert.throws(() => begins(200, large), { status: 400, message: /larger than the 524288 bytes/ });
});

/** A view with this argument. */
function viewOf(argument: string): Read {
  const body = { function: '0x1::coin::supply', type_arguments: [], arguments: [argument] };
  return readView(JSON.stringify(body), { query: '' });
}

/** Spells the account as canonical reads do. */
function longAddress(text: string): string {
  const [address = '', ...rest] = text.split(' ');
  return [readResource(address, '0x1::coin::Coin').subject.split('/')[0], ...rest].join(' ');
}
