/** Streams of the ledger info: who gets which state of a beat. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { CancelSignal } from '../../../../src/ledger/stop.ts';
import type { Freshness, InfoBody } from '../../../../src/proxy/reads/freshness.ts';
import type { StreamClient } from '../../../../src/proxy/reads/push.ts';
import { InfoStreams } from '../../../../src/proxy/reads/streams/info-streams.ts';
import { createPulse, type Pulse } from '../../../../src/proxy/reads/streams/pulse.ts';
import type { Fleet } from '../../../../src/upstream/index.ts';
import type { PublishedState, Demand } from '../../../../src/upstream/shared-states.ts';
import { stateAt } from '../../../support/states.ts';
import { StreamTestClient } from '../../../support/stream-clients.ts';
import { TestPulse } from '../../../support/test-pulse.ts';

/** Streams whose beats the test gives, of clients whose past it sets. */
class World {
  generation = 0;
  /** Versions that clients have got. */
  readonly seen = new Map<StreamClient, bigint>();
  readonly beats = new TestPulse(() => this.generation);
  readonly streams: InfoStreams;
  readonly #infos = new Map<PublishedState, InfoBody>();

  constructor() {
    const freshness = {
      infoAt: (state: PublishedState, client: StreamClient) =>
        (this.seen.get(client) ?? 0n) > state.info.version ? undefined : this.#infoOf(state),
    } as unknown as Freshness;
    this.streams = new InfoStreams(freshness, this.beats.pulse);
  }

  open(version: bigint, client = new StreamTestClient()): StreamTestClient {
    this.streams.open(client, this.#infoOf(stateAt(version)));
    return client;
  }

  async beat(version: bigint): Promise<void> {
    this.beats.beat(version);
    for (let turns = 0; turns < 16; turns += 1) await turn();
  }

  #infoOf(state: PublishedState): InfoBody {
    const { version } = state.info;
    const known = this.#infos.get(state);
    const info = known ?? { body: Buffer.from(`{"ledger_version":"${version}"}`), version };
    this.#infos.set(state, info);
    return info;
  }
}

test('streams of one state share its frame', async () => {
  const world = new World();
  const clients = [world.open(5n), world.open(5n)];
  await world.beat(6n);
  const [one, other] = clients.map(({ frames }) => frames.at(-1));
  assert.ok(one !== undefined && one === other);
});

test('a client that has got a newer state elsewhere is sent the next one that is not older', async () => {
  const world = new World();
  const client = world.open(5n);
  client.take();
  world.seen.set(client, 8n);
  await world.beat(7n);
  assert.deepEqual(client.take(), []);
  await world.beat(8n);
  assert.deepEqual(client.take(), ['ledger_info 8 {"ledger_version":"8"}']);
});

test('a ledger that went back is an event ahead of its state, once, and none for a stream that began with it', async () => {
  const world = new World();
  const client = world.open(9n);
  client.take();
  world.generation += 1;
  const later = world.open(4n);
  later.take();
  await world.beat(4n);
  await world.beat(4n);
  assert.deepEqual(client.take(), ['rollback 4 {"version":"4"}', 'ledger_info 4 {"ledger_version":"4"}']);
  assert.deepEqual(later.take(), []);
});

test('a walk over many streams goes on with the newest state, and not with one of a replaced ledger', async () => {
  const world = new World();
  const clients = Array.from({ length: 1_200 }, () => world.open(1n));
  for (const client of clients) client.take();
  const walk = world.beat(2n);
  void world.beat(3n);
  await walk;
  assert.deepEqual(
    [clients[0], clients.at(-1)].map((client) => client?.take().length),
    [1, 1],
  );
  await world.beat(3n);
  assert.deepEqual(clients[0]?.take(), ['ledger_info 3 {"ledger_version":"3"}']);
  assert.deepEqual(clients.at(-1)?.take(), []);

  const other = world.beat(4n);
  world.generation += 1;
  await other;
  assert.deepEqual(clients.at(-1)?.take(), []);
  await world.beat(1n);
  assert.equal(clients.at(-1)?.take()[0], 'rollback 1 {"version":"1"}');
});

test('clients that leave are forgotten, and the last one ends the listening', async () => {
  const world = new World();
  const [one, other] = [world.open(1n), world.open(1n)];
  one.end();
  await world.beat(2n);
  assert.deepEqual([one.take().length, other.take().length, world.beats.isListening], [1, 2, true]);
  other.end();
  assert.equal(world.beats.isListening, false);

  const gone = new StreamTestClient();
  gone.end();
  world.open(1n, gone);
  assert.equal(world.beats.isListening, false);
});

// The beats of streams: their rate, their states, and a ledger that is replaced between them.

/** A pulse above a fleet whose shared state the test sets; `undefined`: no node answers. */
class PulseWorld {
  shared: PublishedState | undefined = stateAt(1n);
  readonly fleet: { generation: number; readonly latest: Pick<Fleet['latest'], 'reach'> };
  readonly settings = { maxStalenessMs: 150 };
  readonly demands: Demand[] = [];
  readonly beats: bigint[] = [];
  readonly misses: string[] = [];
  signal: CancelSignal | undefined;
  readonly pulse: Pulse;
  readonly #clock: TestContext['mock']['timers'];

  constructor(t: TestContext) {
    t.mock.timers.enable({ apis: ['setInterval'] });
    this.#clock = t.mock.timers;
    const reach = (demand: Demand, signal: CancelSignal): Promise<PublishedState> => {
      this.demands.push(demand);
      this.signal = signal;
      return this.shared === undefined ? Promise.reject(new Error('no node')) : Promise.resolve(this.shared);
    };
    this.fleet = { generation: 0, latest: { reach } };
    this.pulse = createPulse(this.fleet as unknown as Fleet, this.settings);
  }

  /** Returns the end of the listening. */
  listen(): () => void {
    const listener = {
      onBeat: ({ info }: PublishedState) => void this.beats.push(info.version),
      onMiss: (error: unknown) => void this.misses.push(String(error)),
    };
    this.pulse.join(listener);
    return () => this.pulse.leave(listener);
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 50) {
      this.#clock.tick(50);
      await turn();
    }
  }
}

test('while somebody listens there is a beat at once and each 100 ms, moved or not, and none afterwards', async (t) => {
  const world = new PulseWorld(t);
  await world.pass(300);
  assert.equal(world.demands.length, 0);

  const stop = world.listen();
  await turn();
  assert.deepEqual(world.beats, [1n]);
  world.shared = stateAt(2n);
  await world.pass(200);
  assert.deepEqual(world.beats, [1n, 2n, 2n]);

  stop();
  await world.pass(300);
  assert.equal(world.demands.length, 3);
});

test('a beat demands the default bound of reads, within 200 ms, as the config in force has it', async (t) => {
  const world = new PulseWorld(t);
  t.after(world.listen());
  for (const boundMs of [0, 1_000]) {
    world.settings.maxStalenessMs = boundMs;
    await world.pass(100);
  }
  assert.deepEqual(
    world.demands.map(({ maxStalenessMs }) => maxStalenessMs),
    [150, 200, 200],
  );
});

test('a beat without a state is a miss, and one that takes long delays the next', async (t) => {
  const world = new PulseWorld(t);
  world.shared = undefined;
  t.after(world.listen());
  await world.pass(200);
  assert.deepEqual([world.demands.length, world.beats, world.misses.length], [3, [], 3]);

  const late = Promise.withResolvers<PublishedState>();
  world.shared = late.promise as unknown as PublishedState;
  await world.pass(300);
  assert.equal(world.demands.length, 4);
  late.resolve(stateAt(5n));
  await turn();
  world.shared = stateAt(6n);
  await world.pass(100);
  assert.deepEqual(world.beats, [5n, 6n]);
});

test('a state that was found while the ledger was replaced is not used', async (t) => {
  const world = new PulseWorld(t);
  world.shared = stateAt(9n);
  t.after(world.listen());
  await turn();
  const late = Promise.withResolvers<PublishedState>();
  world.shared = late.promise as unknown as PublishedState;
  await world.pass(100);
  world.fleet.generation += 1;
  late.resolve(stateAt(10n));
  await turn();
  world.shared = stateAt(3n);
  await world.pass(200);
  assert.deepEqual(world.beats, [9n, 3n, 3n]);
});

test('a listener that ends another one, or itself, within a beat disturbs nobody; each counts for itself', async (t) => {
  const world = new PulseWorld(t);
  const listen = (): (() => void) => world.listen();
  const [one, other] = [listen(), listen()];
  const self = { onBeat: () => world.pulse.leave(self) };
  assert.deepEqual([world.pulse.join(self), world.pulse.join(self)], [true, false]);
  await turn();
  one();
  one();
  await world.pass(100);
  assert.equal(world.beats.length, 3);
  other();
  await world.pass(100);
  assert.equal(world.demands.length, 2);
});

test('a closed pulse stops its look and beats no more', async (t) => {
  const world = new PulseWorld(t);
  world.listen();
  await turn();
  world.pulse.close();
  assert.equal(world.signal?.aborted, true);
  world.listen();
  await world.pass(300);
  assert.equal(world.demands.length, 1);
});
