/** Waits for commits above a tail that the test grows, and nodes that answer when it says. */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { Registry } from 'prom-client';
import { CancelToken } from '../../../../src/ledger/index.ts';
import { transactionWait } from '../../../../src/proxy/routes/parse-read.ts';
import { Submissions } from '../../../../src/proxy/routes/submissions.ts';
import type { Page } from '../../../../src/proxy/reads/follower/page.ts';
import type { Caller, DemandingCaller, Read, ReadResult } from '../../../../src/proxy/reads/read.ts';
import type { TailListener } from '../../../../src/proxy/reads/follower/tail.ts';
import { Waits } from '../../../../src/proxy/reads/follower/waits.ts';
import { countsIn } from '../../../support/metric-counts.ts';
import { readTransaction } from '../../../support/reads.ts';

const accepted = new Submissions();
const [one, other] = ['11', '22'].map((byte) => `0x${byte.repeat(32)}`) as [string, string];

function waitFor(hash: string, accept?: string): Read {
  return transactionWait({ hash }, { target: '/any', accept }, accepted);
}

function resultOf(body: string, facts: { status?: number; lifetimeMs?: number; isCollapsed?: boolean } = {}) {
  const { status = 200, lifetimeMs = 0, isCollapsed = false } = facts;
  const entry = { status, body: Buffer.from(body), lifetimeMs, committedAt: undefined };
  return { entry, source: { upstream: 'full-0' }, isCollapsed } as unknown as ReadResult;
}

const pending = (hash: string): ReadResult => resultOf(`{"hash":"${hash}","type":"pending_transaction"}`);
const committed = (hash: string): ReadResult =>
  resultOf(`{"hash":"${hash}","type":"user_transaction"}`, { lifetimeMs: 1 });

/** A question to nodes that is not answered yet. */
interface Asked extends PromiseWithResolvers<ReadResult> {
  readonly path: string;
}

class World {
  nowMs = 1_000_000;
  isCurrent = true;
  next = 100n;
  sinceMs = 0;
  purges = 0;
  /** Whether a pending answer has all that the client has seen. */
  isEnough = true;
  isFindable = true;
  readonly inPages = new Set<string>();
  readonly memory = new Map<string, ReadResult>();
  readonly asked: Asked[] = [];
  readonly needs = new Set<() => boolean>();
  readonly listeners = new Set<TailListener>();
  readonly registry = new Registry();
  readonly waits: Waits;
  readonly #t: TestContext;

  constructor(t: TestContext) {
    this.#t = t;
    t.mock.timers.enable({ apis: ['setTimeout'] });
    t.mock.method(performance, 'now', () => this.nowMs);
    const reader = {
      find: ({ subject }: Read) => (this.isFindable ? this.memory.get(subject) : undefined),
      load: ({ wire }: Read, { signal }: Caller) => {
        const asked = { path: wire.path, ...Promise.withResolvers<ReadResult>() };
        signal.addEventListener('abort', () => asked.reject(CancelToken.reasonOf(signal)));
        this.asked.push(asked);
        return asked.promise;
      },
      hitsOf: () => ({ inc: () => undefined }),
    };
    const define = (target: object, name: 'isCurrent' | 'next' | 'purges' | 'sinceMs') =>
      Object.defineProperty(target, name, { get: () => this[name] });
    const ofTail = { listeners: this.listeners, has: (hash: string) => this.inPages.has(hash) };
    const tail = define(define(define(ofTail, 'isCurrent'), 'next'), 'sinceMs');
    const parts = [
      define(reader, 'purges'),
      { suffices: () => this.isEnough },
      tail,
      { needs: this.needs },
      this.registry,
    ] as unknown as ConstructorParameters<typeof Waits>;
    this.waits = new Waits(...parts);
  }

  join(hash: string, signal = new CancelToken(), accept?: string): Promise<ReadResult> {
    return this.waits.join(waitFor(hash, accept), { signal, client: 'c' });
  }

  lookUp(hash: string, accept?: string): Promise<ReadResult> {
    const caller = { signal: new CancelToken(), client: 'c' } as unknown as DemandingCaller;
    return this.waits.lookUp(readTransaction(hash, accept === undefined ? {} : { accept }), caller);
  }

  /** The nodes' answers to all that they were asked since the last call; returns the paths. */
  async answer(served: ReadResult): Promise<readonly string[]> {
    const asked = this.asked.splice(0);
    for (const { resolve } of asked) resolve(served);
    await turn();
    return asked.map(({ path }) => path.replace(/0x.*/, ''));
  }

  /** A page from `next` on. */
  page(...hashes: readonly string[]): void {
    for (const hash of hashes) {
      this.inPages.add(hash);
      this.memory.set(hash, committed(hash));
    }
    const page = { first: this.next, hashes: [...hashes, `0x${'ff'.repeat(32)}`] } as unknown as Page;
    this.next += BigInt(page.hashes.length);
    for (const listener of this.listeners) listener.onPage?.(page);
  }

  async pass(ms: number): Promise<void> {
    this.nowMs += ms;
    this.#t.mock.timers.tick(ms);
    await turn();
  }

  counts(): ReturnType<typeof countsIn> {
    return countsIn(this.registry);
  }
}

const byHash = '/transactions/by_hash/';
const waitByHash = '/transactions/wait_by_hash/';
const typeOf = ({ entry }: ReadResult): string => /"type":"(\w+)"/.exec(entry.body.toString())?.[1] ?? 'none';

test('a page answers all that wait for a transaction, which a node was asked for once', async (t) => {
  const world = new World(t);
  const early = [world.join(one), world.join(one)];
  assert.deepEqual(await world.answer(pending(one)), [byHash, byHash], 'calls that the reader makes one of');
  await world.pass(500);
  const late = world.join(one);

  world.page(one);
  const served = await Promise.all([...early, late]);

  assert.deepEqual(served.map(typeOf), ['user_transaction', 'user_transaction', 'user_transaction']);
  assert.deepEqual(world.asked, []);
  assert.deepEqual(await world.counts(), { follower: 3 });
});

test('nodes are asked for 32 hashes at once; those that a page has meanwhile are not asked for', async (t) => {
  const world = new World(t);
  const hashes = Array.from({ length: 40 }, (_, index) => `0x${String(index + 10).repeat(32)}`);
  const waits = hashes.map((hash) => world.join(hash));
  assert.equal(world.asked.length, 32);

  world.page(...hashes.slice(30, 35));
  const [first] = world.asked.splice(0, 1);
  first?.resolve(pending(hashes[0] ?? ''));
  await turn();
  assert.equal(world.asked.length, 32, 'the next one took the place');
  assert.equal(world.asked.at(-1)?.path, `${byHash}${hashes[35]}`);
  await world.answer(pending(one));
  await world.answer(pending(one));
  world.page(...hashes);

  assert.equal((await Promise.all(waits)).length, 40);
  assert.deepEqual(world.asked, []);
});

test('a commit between the record of a wait and its answer from a node is not missed', async (t) => {
  const world = new World(t);
  const wait = world.join(one);
  world.page(one);
  assert.equal(typeOf(await wait), 'user_transaction');
  assert.deepEqual(await world.answer(pending(one)), [byHash]);
  await world.pass(2_000);
  assert.deepEqual(world.asked, []);
});

test('a commit that its page is no answer for is looked for at the next page, and then asked for', async (t) => {
  const world = new World(t);
  const waits = [one, other].map((hash) => world.join(hash));
  await world.answer(pending(one));

  world.isFindable = false;
  world.page(one, other);
  assert.deepEqual(world.asked, []);
  world.isFindable = true;
  world.memory.delete(other);
  world.page();

  assert.equal(typeOf((await waits[0]) as ReadResult), 'user_transaction');
  assert.deepEqual(await world.answer(committed(other)), [byHash]);
  assert.equal(typeOf((await waits[1]) as ReadResult), 'user_transaction');
  assert.deepEqual(await world.counts(), { follower: 1, node: 1 });
});

test('a pending answer that comes behind the page with its commit is not kept', async (t) => {
  const world = new World(t);
  const wait = world.join(one);
  world.isFindable = false;
  world.page(one);
  world.page();
  await world.answer(pending(one));
  await world.pass(1_000);
  assert.deepEqual(await world.answer(committed(one)), [byHash]);
  assert.equal(typeOf(await wait), 'user_transaction');
});

test('a wait ends after a second with the pending transaction, which counts as the answer of its node', async (t) => {
  const world = new World(t);
  const first = world.join(one);
  await world.answer(pending(one));
  await world.pass(600);
  const second = world.join(one);
  await world.pass(400);
  assert.equal(typeOf(await first), 'pending_transaction');
  await world.pass(600);

  const served = await second;

  assert.ok(served.entry.body.equals(pending(one).entry.body));
  assert.deepEqual([served.source, served.isCollapsed], [{ upstream: 'full-0' }, true]);
  assert.deepEqual(world.asked, []);
  assert.deepEqual(await world.counts(), { pending: 2 });
});

test('a pending answer older than five seconds is renewed, once for all that wait', async (t) => {
  const world = new World(t);
  void world.join(one);
  await world.answer(pending(one));
  await world.pass(4_500);
  const late = world.join(one);
  assert.deepEqual(world.asked, []);
  await world.pass(1_000);
  assert.deepEqual(await world.answer(pending(one)), [byHash]);
  assert.equal(typeOf(await late), 'pending_transaction');
  assert.deepEqual(await world.counts(), { pending: 1, node: 1 });
});

for (const [what, answer] of [
  ['that no node knows', resultOf('{"error_code":"transaction_not_found"}', { status: 404 })],
  ['that is committed', committed(one)],
  ['whose answer may not be stored', resultOf('{"type":"user_transaction"}')],
] as const) {
  test(`a wait for a transaction ${what} ends with the answer of the node`, async (t) => {
    const world = new World(t);
    const wait = world.join(one);
    await world.answer(answer);
    assert.equal(await wait, answer);
    assert.deepEqual(await world.counts(), { node: 1 });
  });
}

test('a body too large to be kept is waited for, and asked for anew', async (t) => {
  const world = new World(t);
  const large = resultOf(`{"type":"pending_transaction","payload":"${'a'.repeat(70_000)}"}`);
  const wait = world.join(one);
  await world.answer(large);
  await world.pass(1_000);
  assert.deepEqual(await world.answer(large), [byHash]);
  assert.equal(await wait, large);
});

function skip(world: World): void {
  world.sinceMs = world.nowMs;
}

const changes: readonly (readonly [string, (world: World) => void])[] = [
  ['a gap between pages', skip],
  ['a rollback', (world) => world.listeners.forEach((listener) => listener.onRollback(5n as never))],
  ['a page that proved wrong', (world) => world.listeners.forEach((listener) => listener.onDistrusted())],
  ['a purge, or another ledger', (world) => void (world.purges += 1)],
  ['the end of the follower', (world) => void (world.isCurrent = false)],
];

for (const [what, change] of changes) {
  test(`behind ${what} no pending answer from before it is given`, async (t) => {
    const world = new World(t);
    const wait = world.join(one);
    await world.answer(pending(one));
    await world.pass(1);
    change(world);
    await world.pass(999);
    assert.deepEqual(await world.answer(pending(one)), [byHash]);
    assert.equal(typeOf(await wait), 'pending_transaction');
    assert.deepEqual(await world.counts(), { node: 1 });
  });
}

test('while no page comes, and in BCS, callers share the long poll of a node', async (t) => {
  const world = new World(t);
  const inBcs = world.join(one, new CancelToken(), 'application/x-bcs');
  assert.deepEqual(await world.answer(resultOf('\u0001')), [waitByHash]);
  assert.equal((await inBcs).entry.body.length, 1);

  world.isCurrent = false;
  const wait = world.join(one);
  assert.deepEqual(await world.answer(pending(one)), [waitByHash]);
  assert.equal(typeOf(await wait), 'pending_transaction');
});

test('a long poll whose node is behind ends with what another read found committed meanwhile', async (t) => {
  const world = new World(t);
  world.isCurrent = false;
  const wait = world.join(one);
  world.memory.set(one, committed(one));
  await world.answer(pending(one));
  assert.equal(typeOf(await wait), 'user_transaction');
});

test('more than four hashes that wait need the follower, and callers that left need nothing', async (t) => {
  const world = new World(t);
  const needs = (): boolean => [...world.needs].some((need) => need());
  const signal = new CancelToken();
  const hashes = Array.from({ length: 5 }, (_, index) => `0x${String(index).repeat(64)}`);
  const waits = hashes.slice(0, 4).map((hash) => world.join(hash, signal));
  assert.equal(needs(), false);
  waits.push(world.join(hashes[4] ?? '', signal));
  assert.equal(needs(), true);
  await world.answer(pending(one));

  signal.abort(new Error('the client hung up'));

  for (const wait of waits) await assert.rejects(wait, /hung up/);
  await assert.rejects(world.join(one, signal), /hung up/);
  assert.equal(needs(), false);
  assert.deepEqual(world.asked, []);
  await world.pass(1_000);
  assert.deepEqual(world.asked, []);
});

test('an error of nodes ends a wait', async (t) => {
  const world = new World(t);
  const wait = world.join(one);
  world.asked[0]?.reject(new Error('no node'));
  await assert.rejects(wait, /no node/);
});

test('a look-up of a pending transaction is answered without a node for a second, and anew at its commit', async (t) => {
  const world = new World(t);
  const first = world.lookUp(one);
  await world.answer(pending(one));
  assert.equal(typeOf(await first), 'pending_transaction');
  await world.pass(900);
  assert.equal(typeOf(await world.lookUp(one)), 'pending_transaction');
  assert.deepEqual(world.asked, []);

  void world.lookUp(other);
  void world.lookUp(one, 'application/x-bcs');
  world.isEnough = false;
  void world.lookUp(one);
  world.isEnough = true;
  await world.pass(200);
  void world.lookUp(one);
  world.page(one);
  void world.lookUp(one);

  const why = 'another hash, the other form, a client that has seen more, an old answer, and a committed one';
  assert.equal(world.asked.length, 5, why);
});

test('an answer that another caller began is no pending answer to keep: its age is not known', async (t) => {
  const world = new World(t);
  void world.lookUp(one);
  await world.answer(resultOf('{"type":"pending_transaction"}', { isCollapsed: true }));
  void world.lookUp(one);
  assert.equal(world.asked.length, 1);
});
