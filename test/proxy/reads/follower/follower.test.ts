// The follower reads while somebody needs pages, at its pace, without gaps, and settles doubted histories.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Registry } from 'prom-client';
import type { LedgerVersion } from '../../../../src/ledger/version.ts';
import { Follower, type FollowSettings } from '../../../../src/proxy/reads/follower/follower.ts';
import type { NoPage } from '../../../../src/proxy/reads/follower/page-reader.ts';
import type { Page } from '../../../../src/proxy/reads/follower/page.ts';
import { Tail } from '../../../../src/proxy/reads/follower/tail.ts';
import { ledgerInfo } from '../../../support/ledger-info.ts';
import { hashOf, v } from '../../../support/pages.ts';

interface Setup {
  readonly settings?: Partial<FollowSettings>;
  readonly isAppointed?: boolean;
}

/** A follower of a made-up ledger, whose clock the test moves. */
class World {
  readonly settings: FollowSettings;
  readonly fleet = {
    generation: 0,
    head: ledgerInfo({ version: 1_000n }),
    ledger: this.#ledger() as never,
    sender: { hasToSpare: () => this.hasToSpare } as never,
  };
  readonly tiers = { purges: 0 };
  readonly tail: Tail;
  readonly follower: Follower;
  /** Version and limit of each page that was asked for. */
  readonly asked: string[] = [];
  readonly log: string[] = [];
  readonly rollbacks: bigint[] = [];
  hasToSpare = true;
  /** The pages come then. */
  held: Promise<undefined> | undefined;
  isNeeded = false;
  /** First version of another history. */
  fork = 1_000_000;
  /** No page with this version can be read. */
  large: number | undefined;
  /** Instead of the next pages. */
  failures: NoPage[] = [];
  /** Time of each of them, in ms. */
  failsInMs = 0;
  nowMs = 0;
  /** Versions that nodes really have. */
  nodesHead = 1_000;
  /** The newest version of two nodes, where it is another one. */
  confirmed: number | undefined;
  readonly registry = new Registry();
  readonly #t: TestContext;

  constructor(t: TestContext, { settings, isAppointed = true }: Setup = {}) {
    t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
    this.#t = t;
    this.settings = { mode: 'auto', minReads: 20, ...settings };
    t.mock.method(performance, 'now', () => this.nowMs);
    const { fleet } = this;
    this.tail = new Tail(fleet, this.tiers, () => 10_000_000);
    this.tail.listeners.add({
      onRollback: (version) => this.rollbacks.push(version),
      onDistrusted: () => undefined,
    });
    const readPage = (first: LedgerVersion, limit: number, hash?: string) => this.#read(first, limit, hash);
    const proof = {
      consider: (_page: Page, _news: number, isFirst: boolean) => void (isFirst && this.log.push('first')),
    };
    const events = {
      publish: ({ first, hashes }: Page) => void this.log.push(`page ${first}+${hashes.length}`),
      wanted: () => void this.log.push('wanted'),
      rolledBack: (version: LedgerVersion) => void this.log.push(`rolled back ${version}`),
    };
    const { settings: live, registry } = this;
    this.follower = new Follower(fleet, this.tail, readPage, proof, live, events, registry, isAppointed);
    this.follower.needs.add(() => this.isNeeded);
    t.after(() => this.follower.close());
  }

  /** Another generation of the ledger begins, as a purge does. */
  replaceLedger(): void {
    this.fleet.generation += 1;
    this.tiers.purges += 1;
    this.follower.recheck();
  }

  get next(): number | undefined {
    return this.tail.next === undefined ? undefined : Number(this.tail.next);
  }

  /** The nodes have more, and other reads have shown it. */
  advance(versions: number): void {
    this.nodesHead += versions;
    this.fleet.head = ledgerInfo({ version: BigInt(this.nodesHead) });
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 10) {
      this.nowMs += 10;
      this.#t.mock.timers.tick(10);
      await new Promise(setImmediate);
    }
  }

  /** Versions and limits asked for within so many ms. */
  async askedIn(ms: number): Promise<readonly string[]> {
    this.asked.length = 0;
    await this.pass(ms);
    return [...this.asked];
  }

  hashAt(version: number): string {
    return hashOf(version, version >= this.fork ? 'fork' : '');
  }

  page(from: number, count: number): Page {
    const hashes = Array.from({ length: count }, (_, index) => this.hashAt(from + index));
    return {
      first: v(from),
      body: Buffer.from('[]'),
      ranges: new Uint32Array(2 * count),
      hashes,
      contentType: 'application/json',
      ownHeaders: undefined,
      info: ledgerInfo({ version: BigInt(this.nodesHead) }),
      upstream: 'one',
    };
  }

  async metric(name: string): Promise<number | undefined> {
    const family = (await this.registry.getMetricsAsJSON()).find((each) => each.name === name);
    return (family?.values[0] as { value: number } | undefined)?.value;
  }

  #ledger() {
    const confirmed = (): LedgerVersion => v(this.confirmed ?? this.nodesHead);
    return {
      get confirmed() {
        return confirmed();
      },
    };
  }

  async #read(first: LedgerVersion, limit: number, known: string | undefined): Promise<Page | NoPage> {
    this.asked.push(`${first}+${limit}`);
    const failure = this.failures.shift();
    if (failure !== undefined) {
      this.nowMs += this.failsInMs;
      return failure;
    }
    const from = Number(first);
    const count = Math.min(limit, this.nodesHead - from + 1);
    if (count <= 0) return 'not reached';
    if (this.large !== undefined && from <= this.large && this.large < from + count) return 'too large';
    if (known !== undefined && known !== this.hashAt(from)) return 'other history';
    if (this.nodesHead > this.fleet.head.version) this.fleet.head = ledgerInfo({ version: BigInt(this.nodesHead) });
    const page = this.page(from, count);
    await this.held;
    return page;
  }
}

/** One that has read up to the head. */
async function following(t: TestContext, setup?: Setup): Promise<World> {
  const world = new World(t, setup);
  world.isNeeded = true;
  await world.pass(1_200);
  assert.equal(world.next, 1_001);
  world.asked.length = 0;
  return world;
}

test('a need starts it at the head, and it stops ten seconds after the last one', async (t) => {
  const world = await following(t);
  assert.equal(await world.metric('ledgergate_follower_running'), 1);
  assert.deepEqual(world.log.slice(0, 2), ['page 1000+1', 'first']);
  world.isNeeded = false;
  assert.ok((await world.askedIn(9_000)).length > 80);
  await world.pass(2_500);
  assert.deepEqual(await world.askedIn(5_000), []);
  world.log.length = 0;
  world.isNeeded = true;
  await world.pass(1_200);
  assert.deepEqual(world.log.slice(0, 2), ['page 1000+1', 'first']);
});

const often = Array.from({ length: 10 }, () => 21);
const modes: readonly (readonly [FollowSettings['mode'], readonly number[], boolean])[] = [
  ['always', [], true],
  ['off', often, false],
  ['auto', often, true],
  ['auto', often.with(0, 20), false],
  ['auto', often.with(5, 20), false],
];

for (const [mode, seconds, runs] of modes)
  test(`mode ${mode}, recent transactions asked for ${seconds.join()} times in a second: ${runs ? 'reads' : 'does not'}`, async (t) => {
    const world = new World(t, { settings: { mode } });
    const read = { operation: 'by_version', subject: '', version: v(900), extent: undefined } as never;
    for (const finds of seconds) {
      for (let count = 0; count < finds; count += 1) world.tail.find(read);
      await world.pass(1_000);
    }
    await world.pass(1_500);
    assert.equal(world.asked.length > 0, runs);
  });

test('caught up it reads ten times a second, each page with one known transaction', async (t) => {
  const world = await following(t);
  assert.deepEqual(new Set(await world.askedIn(1_000)), new Set(['1000+100']));
  assert.ok(Math.abs(world.asked.length - 10) <= 1, `${world.asked.length} reads`);
});

test('pages without news are published once a second', async (t) => {
  const world = await following(t);
  world.log.length = 0;
  await world.pass(3_000);
  assert.deepEqual(world.log, ['page 1000+1', 'page 1000+1', 'page 1000+1']);
});

test('new transactions are read as soon as a node reports them, full pages without a pause', async (t) => {
  const world = await following(t);
  world.advance(250);
  await world.pass(60);
  assert.equal(world.next, 1_251);
  assert.deepEqual(
    world.asked.filter((_, index) => index < 3),
    ['1000+100', '1099+100', '1198+100'],
  );
  assert.equal(await world.metric('ledgergate_follower_transactions_total'), 250);
});

test('nodes with nothing to spare are asked twice a second', async (t) => {
  const world = await following(t);
  world.hasToSpare = false;
  await world.pass(200);
  const reads = (await world.askedIn(5_000)).length;
  assert.ok(reads >= 9 && reads <= 11, `${reads} reads`);
});

test('far behind it goes on at the head', async (t) => {
  const world = await following(t);
  world.advance(1_500);
  await world.pass(200);
  assert.equal(world.next, 2_501);
  assert.equal(world.asked[0], '2500+100');
});

test('a head that one node alone reports is no reason to skip', async (t) => {
  const world = await following(t);
  world.confirmed = 1_000;
  world.fleet.head = ledgerInfo({ version: 9_000n });
  await world.pass(200);
  assert.equal(world.next, 1_001);
  world.nodesHead = 1_090;
  await world.pass(200);
  assert.equal(world.next, 1_091);
});

test('its lag is the time since a node has reported more than it has', async (t) => {
  const world = await following(t);
  assert.equal(await world.metric('ledgergate_follower_lag_seconds'), 0);
  world.advance(5);
  world.failures = Array.from({ length: 100 }, () => 'failed' as const);
  await world.pass(1_500);
  const lag = (await world.metric('ledgergate_follower_lag_seconds')) ?? 0;
  assert.ok(lag >= 1.3 && lag <= 1.5, `${lag} s`);
  world.failures = [];
  await world.pass(3_000);
  assert.equal(await world.metric('ledgergate_follower_lag_seconds'), 0);
});

for (const failsInMs of [0, 20])
  test(`failures in a row of ${failsInMs} ms are repeated after growing pauses, of two seconds at most`, async (t) => {
    const world = await following(t);
    world.failures = Array.from({ length: 1_000 }, () => 'failed' as const);
    world.failsInMs = failsInMs;
    const first = (await world.askedIn(1_500)).length;
    await world.pass(3_000);
    const later = (await world.askedIn(10_000)).length;
    assert.ok(first >= 3 && first <= 5 && later >= 4 && later <= 6, `${first} and ${later}`);
  });

test('a page that is too large is asked for in parts, and a transaction that is, is skipped', async (t) => {
  const world = await following(t);
  world.advance(3);
  world.failures = ['too large', 'too large', 'too large', 'too large'];
  await world.pass(60);
  assert.deepEqual(world.asked.slice(0, 6), ['1000+100', '1000+10', '1000+2', '1001+1', '1002+1', '1003+1']);
  await world.pass(2_000);
  assert.equal(world.asked.at(-1), '1003+100');
});

test('a transaction that is too large is not read again and again while it is the newest one', async (t) => {
  const world = new World(t);
  world.large = 1_000;
  world.isNeeded = true;
  await world.pass(3_000);
  // Above the head no node is asked (see `pageReader`).
  assert.deepEqual([...new Set(world.asked)], ['1000+100', '1001+1']);
  assert.equal(world.asked.indexOf('1000+100', 1), -1);
  world.advance(2);
  await world.pass(200);
  assert.deepEqual([world.next, world.asked.at(-1)], [1_003, '1002+100']);

  world.large = 1_003;
  world.advance(1);
  assert.deepEqual([...new Set(await world.askedIn(2_000))], ['1002+100', '1002+10', '1002+2', '1003+1', '1004+1']);
  assert.equal(world.next, 1_004);
});

test('after a rollback to a ledger that is shorter it goes on at its head', async (t) => {
  const world = await following(t);
  world.nodesHead = 990;
  world.fleet.head = ledgerInfo({ version: 990n });
  world.replaceLedger();
  await world.pass(50);
  assert.deepEqual([world.rollbacks, world.next], [[991n], 991]);
  world.advance(3);
  await world.pass(200);
  assert.equal(world.next, 994);
});

test('a doubt without a difference drops nothing', async (t) => {
  const world = await following(t);
  world.follower.recheck();
  await world.pass(50);
  assert.deepEqual([world.rollbacks, world.next], [[1_001n], 1_001]);
});

test('a history that differs as far back as the tail knows is dropped as a whole', async (t) => {
  const world = await following(t);
  world.advance(30);
  await world.pass(200);
  world.fork = 0;
  world.replaceLedger();
  await world.pass(50);
  assert.deepEqual(world.rollbacks, [1_001n]);
});

test('a comparison that a second doubt overtakes is made again', async (t) => {
  const world = await following(t);
  world.advance(20);
  await world.pass(200);
  const { promise: held, resolve: release } = Promise.withResolvers<undefined>();
  world.held = held;
  world.fork = 1_010;
  world.follower.recheck();
  await world.pass(20);
  world.fork = 1_005;
  world.follower.recheck();
  release(undefined);
  await world.pass(100);
  assert.deepEqual(world.rollbacks, [1_005n]);
});

test('nodes that all contradict the newest transaction are believed at the third page', async (t) => {
  const world = await following(t);
  world.advance(20);
  await world.pass(200);
  world.fork = 1_010;
  await world.pass(150);
  assert.deepEqual(world.rollbacks, []);
  await world.pass(400);
  assert.deepEqual(world.rollbacks, [1_010n]);
});

test('another worker reports its need once a second, and reads nothing while pages come', async (t) => {
  const world = new World(t, { isAppointed: false });
  world.isNeeded = true;
  for (let second = 0; second < 4; second += 1) {
    await world.pass(1_000);
    world.follower.takeOfPeer(world.page(1_000, 1));
    world.advance(1);
  }
  assert.deepEqual([world.asked, world.log], [[], ['wanted', 'wanted', 'wanted', 'wanted']]);
});

test('a worker without pages for two seconds reads for itself until they come, and publishes none', async (t) => {
  const world = new World(t, { isAppointed: false });
  world.isNeeded = true;
  await world.pass(3_200);
  assert.ok(world.asked.length > 0);
  assert.deepEqual(world.log, ['wanted', 'wanted', 'wanted', 'first']);
  world.follower.takeOfPeer(world.page(1_000, 1));
  await world.pass(100);
  assert.deepEqual(await world.askedIn(500), []);
});

test('a peer that needs pages is enough for three seconds, in the appointed process alone', async (t) => {
  const world = new World(t, { isAppointed: false });
  world.follower.want();
  assert.deepEqual(await world.askedIn(1_000), []);
  world.follower.appoint(true);
  world.follower.want();
  assert.ok((await world.askedIn(3_000)).length > 20);
  await world.pass(500);
  assert.deepEqual(await world.askedIn(2_000), []);
});

test('the next appointed worker goes on at once, when the one before has just read', async (t) => {
  const world = new World(t, { isAppointed: false });
  world.follower.takeOfPeer(world.page(999, 2));
  world.follower.appoint(true);
  assert.equal((await world.askedIn(100))[0], '1000+100');
});

test('pages that are distrusted end it', async (t) => {
  const world = await following(t);
  world.tail.distrust();
  await world.pass(200);
  assert.deepEqual(await world.askedIn(3_000), []);
});
