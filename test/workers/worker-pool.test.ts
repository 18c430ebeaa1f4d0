import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import cluster from 'node:cluster';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { PeerEvent } from '../../src/gateway/bus.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import {
  Channel,
  type WorkerHandlers,
  type Setup,
  type PrimaryHandlers,
  type Published,
} from '../../src/workers/channel.ts';
import { FlightDesk, PeerLink, WorkerBroadcast, type Peer } from '../../src/workers/peers.ts';
import {
  WorkerPool,
  type PoolEvents,
  WorkerProcess,
  type Services,
  type WatchedWorker,
  watchHangs,
} from '../../src/workers/worker-pool.ts';
import { until } from '../support/eventually.ts';
import { testConfig } from '../support/gateway.ts';
import { ledgerInfo } from '../support/ledger-info.ts';
import { listen } from '../support/listen.ts';

const failures = [
  { how: 'at once', settings: { gid: 'none' as never }, reason: /ERR_INVALID_ARG_TYPE|must be/ },
  { how: 'a moment later', settings: { cwd: '/nonexistent' }, reason: /ENOENT/ },
];

for (const { how, settings, reason } of failures) {
  test(`a fork that fails ${how} is repeated, after growing pauses`, async () => {
    const lost: string[] = [];
    const starts: number[] = [];
    const { promise: again, resolve } = Promise.withResolvers<void>();
    const events = {
      servicesFor: () => ({}),
      onGone: () => undefined,
      onLost: (_id: number | undefined, reason: string, againMs: number) => {
        lost.push(reason);
        starts.push(performance.now() + againMs);
        if (lost.length === 3) resolve();
      },
    };
    const pool = new WorkerPool(0, events as unknown as PoolEvents);
    cluster.setupPrimary(settings);

    await assert.rejects(pool.start(1), reason);
    await again;
    pool.kill();

    assert.match(lost.join('\n'), reason);
    // From start to start, in whole ms: the life of a process is a part of its pause.
    const [first = NaN, second = NaN, third = NaN] = starts;
    assert.ok(second - first >= 199 && third - second >= 399, `starts at ${starts.join(', ')} ms`);
    assert.deepEqual(pool.workers, []);
    assert.deepEqual(Object.keys(cluster.workers ?? {}), []);
    cluster.setupPrimary({ gid: undefined as never, cwd: undefined as never });
  });
}

interface TestWorker {
  readonly worker: WatchedWorker;
  isStuck: boolean;
  asked: number;
}

/** A worker that answers at the next turn of the event loop, unless it is hung. */
function worker(id: number): TestWorker {
  const channel: Channel<WorkerHandlers> = new Channel((message) => {
    watched.asked += 1;
    setImmediate(() => watched.isStuck || there.take(message));
  }, {});
  const there: Channel<object> = new Channel((message) => channel.take(message), { alive: () => undefined });
  const watched: TestWorker = { worker: { id, channel }, isStuck: false, asked: 0 };
  return watched;
}

function watch(t: TestContext, workers: readonly TestWorker[]): { readonly hung: number[] } {
  const hung: number[] = [];
  const listed = workers.map(({ worker }) => worker);
  const end = watchHangs(
    () => listed,
    ({ id }) => hung.push(id),
    { silentMs: 300, everyMs: 50 },
  );
  t.after(end);
  return { hung };
}

test('a worker without an answer counts as hung once, and gets one query', async (t) => {
  const [well, stuck] = [worker(1), worker(2)];
  stuck.isStuck = true;
  const { hung } = watch(t, [well, stuck]);

  await until(() => hung.length !== 0);
  const before = well.asked;
  await until(() => well.asked > before + 5);

  assert.deepEqual(hung, [2]);
  assert.equal(stuck.asked, 1);
});

test('an answer resets the silence of a worker', async (t) => {
  const other = worker(1);
  const { hung } = watch(t, [other]);
  for (let round = 0; round < 4; round += 1) {
    const { asked } = other;
    await until(() => other.asked !== asked);
    const stopped = performance.now();
    while (performance.now() - stopped < 150) await new Promise((resolve) => setImmediate(resolve));
  }
  assert.deepEqual(hung, []);
});

test('no worker counts as hung while the primary itself is stopped', async (t) => {
  const other = worker(1);
  const { hung } = watch(t, [other]);
  for (let pause = 0; pause < 3; pause += 1) {
    const { asked } = other;
    await until(() => other.asked !== asked);
    // Neither runs in this time, and the answer is read only after it.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600);
  }
  await sleep(200);
  assert.deepEqual(hung, []);
});

const longMs = 60_000;

/** A loaded process, and the reason of its end. */
async function loaded(t: TestContext) {
  cluster.setupPrimary({ exec: fileURLToPath(new URL('../../src/workers/worker-main.ts', import.meta.url)) });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const ready = Promise.withResolvers<void>();
  const gone = Promise.withResolvers<string>();
  const worker = new WorkerProcess(() => ({}) as Services, {
    loaded: () => ready.resolve(),
    serving: () => assert.fail('it has no setup'),
    failed: () => assert.fail('it has no setup'),
    gone: (how) => gone.resolve(how),
  });
  t.after(() => worker.kill());
  await ready.promise;
  return { worker, gone: gone.promise };
}

test('a loaded worker that does not serve is killed', async (t) => {
  const { gone } = await loaded(t);

  t.mock.timers.tick(longMs);

  assert.equal(await gone, 'did not serve within 30 s');
});

test('an undeliverable message does not prevent the end of a process', async (t) => {
  const { worker, gone } = await loaded(t);

  const closed = worker.close(longMs);
  cluster.workers?.[worker.id]?.emit('error', new Error('write EPIPE'));

  await closed;
  assert.equal(await gone, 'code 0');
});

interface Theirs {
  double(value: unknown): unknown;
}

/** Two ends, with structured clones in between as between processes. */
function channelTo(handlers: Theirs): Channel<Theirs> {
  const here: Channel<Theirs> = new Channel((message) => there.take(structuredClone(message)), {});
  const there: Channel<object> = new Channel((message) => here.take(structuredClone(message)), handlers);
  return here;
}

test('a call resolves or rejects like the handler', async () => {
  const channel = channelTo({
    double: (value) => {
      if (typeof value !== 'number') throw new TypeError('no number');
      return value * 2;
    },
  });
  assert.equal(await channel.call('double', 21, 1_000), 42);
  await assert.rejects(channel.call('double', 'x', 1_000), /no number/);
});

test('a call without a structured clone rejects at once, and only once', async () => {
  const channel = channelTo({ double: (value) => value });
  await assert.rejects(
    channel.call('double', () => {}, 20),
    { name: 'DataCloneError' },
  );
  // A second, unhandled rejection would end the process.
  await sleep(60);
});

test('an answer without a structured clone is a fault', async () => {
  const channel = channelTo({ double: () => () => {} });
  await assert.rejects(channel.call('double', 1, 1_000), /DataCloneError/);
});

const exec = fileURLToPath(new URL('../../src/workers/worker-main.ts', import.meta.url));

test('a worker that gets a connection from an exiting primary ends without output', async (t) => {
  const server = createServer({ pauseOnConnect: true });
  const client = connect(await listen(t, server), '127.0.0.1');
  client.on('error', () => undefined);
  const [accepted] = (await once(server, 'connection')) as [Socket];
  const env = { ...process.env, NODE_UNIQUE_ID: '1' };
  const worker = fork(exec, [], { env, serialization: 'advanced', stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  t.after(() => {
    worker.kill('SIGKILL');
    client.destroy();
  });
  const said = text(worker.stderr ?? assert.fail());
  await once(worker, 'message');

  // A message of the cluster module, read after the channel to the primary has closed.
  worker.kill('SIGSTOP');
  const { _handle: handle } = accepted as Socket & { readonly _handle?: Socket };
  worker.send({ cmd: 'NODE_CLUSTER', act: 'newconn', key: 'none', seq: 1 }, handle);
  worker.disconnect();
  worker.kill('SIGCONT');
  const [code] = (await once(worker, 'exit')) as [number | null];

  assert.deepEqual([code, await said], [0, '']);
});

test('a worker that cannot start reports the reason alone', async (t) => {
  const port = await listen(t, createServer());
  // Forked without the cluster module, so that it listens itself, on a port in use.
  const worker = fork(exec, [], { serialization: 'advanced', stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  t.after(() => worker.kill('SIGKILL'));
  const said = text(worker.stderr ?? assert.fail());
  await once(worker, 'message');
  const config = testConfig({ full: [{ url: 'http://127.0.0.1:1/v1' }], config: { listen: { port } } });
  const distrusted = { names: [], marked: { salt: '', table: undefined } };
  const setup: Setup = {
    config,
    drainDelayMs: 0,
    processes: 1,
    run: 'test',
    distrusted,
    drained: [],
    ledger: 0,
    published: [],
    files: new Map(),
  };

  const event = { kind: 'distrusted', functionId: '0x1::a::b' };
  worker.send({ kind: 'notify', name: 'published', argument: { ledger: 0, event } });
  worker.send({ kind: 'notify', name: 'log', argument: { level: 'silent' } });
  worker.send({ kind: 'notify', name: 'serve', argument: setup });
  const failure = new Promise((resolve) => {
    worker.on('message', ({ name, argument }: { name?: string; argument?: unknown }) => {
      if (name === 'failed') resolve(argument);
    });
  });

  assert.equal(((await failure) as { readonly code?: string }).code, 'EADDRINUSE');
  worker.disconnect();
  assert.deepEqual([(await once(worker, 'exit'))[0], await said], [0, '']);
});

/** Three workers on one broadcast; `deliver` delivers their messages. */
function joined() {
  const broadcast: WorkerBroadcast = new WorkerBroadcast(() => workers.map(({ peer }) => peer));
  const inFlight: (() => void)[] = [];
  const send = (take: (message: object) => void) => (message: object) => {
    const cloned = structuredClone(message);
    inFlight.push(() => take(cloned));
  };
  const worker = (id: number) => {
    const applied: PeerEvent[] = [];
    const atWorker: Pick<WorkerHandlers, 'published'> = {
      published: (published: Published) => link.receive(published, (event) => void applied.push(event)),
    };
    const atPrimary: Pick<PrimaryHandlers, 'publish'> = { publish: (published) => broadcast.publish(id, published) };
    const toWorker: Channel<WorkerHandlers> = new Channel(
      send((message) => toPrimary.take(message)),
      atPrimary,
    );
    const toPrimary: Channel<PrimaryHandlers> = new Channel(
      send((message) => toWorker.take(message)),
      atWorker,
    );
    const link = new PeerLink(toPrimary, 0);
    const peer: Peer = { id, channel: toWorker, isServing: true };
    return { peer, link, applied };
  };
  const workers = [worker(1), worker(2), worker(3)] as const;
  const deliver = async (): Promise<void> => {
    for (let next = inFlight.shift(); next !== undefined; next = inFlight.shift()) {
      next();
      // Answers follow in microtasks.
      if (inFlight.length === 0) await new Promise(setImmediate);
    }
  };
  return { broadcast, workers, deliver };
}

const served = (version: bigint): PeerEvent => ({ kind: 'served', version: LedgerVersion.of(version) });
const floor = (client: string, version: bigint): PeerEvent => ({
  kind: 'floor',
  client,
  version: LedgerVersion.of(version),
});
const replaced: PeerEvent = { kind: 'ledger replaced', reports: [] };
const snapshot = (version: bigint, asOfMs: number, bounds = [200]): PeerEvent => ({
  kind: 'snapshot',
  snapshot: { info: ledgerInfo({ version }), body: Buffer.from('{}'), asOfMs, upstream: 'a' },
  bounds,
  floor: 'client',
});

test('an event reaches every peer of its worker, older state none', async () => {
  const { workers, deliver } = joined();
  const [one, two] = workers;

  void one.link.publish(served(100n));
  await deliver();
  void two.link.publish(served(99n));
  void two.link.publish(served(100n));
  void two.link.publish(served(101n));
  await deliver();

  const applied = workers.map((worker) => worker.applied);
  assert.deepEqual(applied, [[served(101n)], [served(100n)], [served(100n), served(101n)]]);
});

test('of two snapshots of one version the later request wins', async () => {
  const { workers, deliver } = joined();
  const [one, two] = workers;

  void one.link.publish(snapshot(100n, 10));
  void one.link.publish(snapshot(100n, 9));
  void one.link.publish(snapshot(100n, 20));
  await deliver();

  const asOf = two.applied.map((event) => (event.kind === 'snapshot' ? Math.round(event.snapshot.asOfMs) : undefined));
  assert.deepEqual(asOf, [10, 20]);
});

test('each bound has a snapshot: one of another bound, newer or equal, keeps none from the peers', async () => {
  const { broadcast, workers, deliver } = joined();
  const [one, two] = workers;

  for (const [version, bounds] of [
    [110n, [200]],
    [110n, [1_000]],
    [100n, [5_000]],
    [109n, [200, 5_000]],
    [108n, [200, 5_000]],
  ] as const)
    void one.link.publish(snapshot(version, 10, [...bounds]));
  await deliver();

  const seen = two.applied.map((event) =>
    event.kind === 'snapshot' ? [event.snapshot.info.version, event.bounds] : [],
  );
  assert.deepEqual(seen, [
    [110n, [200]],
    [110n, [1_000]],
    [100n, [5_000]],
    [109n, [200, 5_000]],
  ]);
  const ofNew = broadcast.setup.published.map(({ event }) => event.kind === 'snapshot' && event.snapshot.info.version);
  assert.deepEqual(ofNew, [110n, 110n, 109n]);
});

test('a new worker starts with the newest floor of a client as that of all', async () => {
  const { broadcast, workers, deliver } = joined();
  for (const event of [floor('a', 7n), floor('b', 9n), floor('c', 8n)]) void workers[0].link.publish(event);
  await deliver();
  assert.equal(workers[1].applied.length, 3);
  assert.deepEqual(broadcast.setup.published, [{ ledger: 0, event: served(9n) }]);
});

test('state of a replaced ledger is dropped in flight', async () => {
  const { broadcast, workers, deliver } = joined();
  const [one, two, three] = workers;

  void one.link.publish(served(100n));
  await deliver();
  void two.link.publish(served(200n));
  void one.link.publish(replaced);
  void three.link.publish(served(300n));
  void one.link.publish(served(50n));
  await deliver();

  assert.deepEqual(one.applied, []);
  assert.deepEqual(two.applied, [served(100n), replaced, served(50n)]);
  assert.deepEqual(three.applied, [served(100n), replaced, served(50n)]);
  assert.deepEqual(broadcast.setup.published, [{ ledger: 1, event: served(50n) }]);
});

test('a replacement that two workers detect at once happens once', async () => {
  const { broadcast, workers, deliver } = joined();
  const [one, two, three] = workers;

  void one.link.publish(replaced);
  void two.link.publish(replaced);
  await deliver();
  void two.link.publish(served(50n));
  await deliver();

  assert.deepEqual([one.applied, two.applied], [[served(50n)], []]);
  assert.deepEqual(three.applied, [replaced, served(50n)]);
  assert.equal(broadcast.setup.ledger, 1);
});

test('a worker that follows a replacement does not publish it again', () => {
  const sent: unknown[] = [];
  const link = new PeerLink({ notify: (_name, argument) => void sent.push(argument), call: () => assert.fail() }, 0);

  void link.receive({ ledger: 1, event: replaced }, () => void link.publish(replaced));
  void link.publish(replaced);

  assert.deepEqual(sent, [{ ledger: 2, event: replaced }]);
});

test('a submission is confirmed once the serving peers recorded it', async () => {
  const { workers, deliver } = joined();
  const [one, two] = workers;
  const event = { kind: 'submitted', hash: '0x1', upstream: 'a' } as const;
  let isConfirmed = false;

  const confirmed = one.link.publish(event)?.then(() => (isConfirmed = true));
  const before = isConfirmed;
  await Promise.all([deliver(), confirmed]);

  assert.equal(before, false);
  assert.deepEqual([two.applied, workers[2].applied], [[event], [event]]);
});

test('functions of one account evict no function of another from the setup', () => {
  const { broadcast } = joined();
  const publish = (functionId: string): void =>
    void broadcast.publish(1, { ledger: 0, event: { kind: 'distrusted', functionId } });

  for (let index = 0; index < 2_000; index += 1) publish(`0xcafe::m${index}::f`);
  publish('0x1::coin::transfer');

  assert.deepEqual(broadcast.setup.distrusted.names, ['0xcafe', '0x1::coin::transfer']);
});

/** The state of a promise or value, once every callback so far has run. */
async function stateOf(turn: unknown): Promise<unknown> {
  return Promise.race([turn, new Promise((resolve) => setImmediate(resolve, 'waits'))]);
}

test('one worker leads, the others wait until it leaves', async () => {
  const desk = new FlightDesk();
  const [one, other, third] = [desk.handlersFor(1), desk.handlersFor(2), desk.handlersFor(3)];

  assert.equal(one.enterFlight('a'), 'lead');
  const [waiting, also] = [other.enterFlight('a'), third.enterFlight('a')];
  assert.deepEqual([await stateOf(waiting), await stateOf(also)], ['waits', 'waits']);
  assert.equal(other.enterFlight('b'), 'lead');

  one.leaveFlight('a');

  assert.deepEqual([await waiting, await also], ['look', 'look']);
  assert.equal(third.enterFlight('a'), 'lead');
});

test('only the leader ends a read; its exit does', async () => {
  const desk = new FlightDesk();
  const [one, other] = [desk.handlersFor(1), desk.handlersFor(2)];
  void one.enterFlight('a');
  const waiting = other.enterFlight('a');

  other.leaveFlight('a');
  assert.equal(await stateOf(waiting), 'waits');

  desk.release(1);
  assert.equal(await waiting, 'look');
});

test('a worker that starts later learns that pages are distrusted, also after a replacement of the ledger', async () => {
  const { broadcast, workers, deliver } = joined();
  const [one, two] = workers;
  void one.link.publish({ kind: 'pages distrusted' });
  void one.link.publish(replaced);
  await deliver();
  const late: PeerEvent[] = [];
  const link = new PeerLink({ notify: () => undefined, call: () => assert.fail() }, broadcast.setup.ledger);
  for (const published of broadcast.setup.published) void link.receive(published, (event) => void late.push(event));
  assert.deepEqual(late, [{ kind: 'pages distrusted' }]);
  assert.deepEqual(two.applied, [{ kind: 'pages distrusted' }, replaced]);
});
