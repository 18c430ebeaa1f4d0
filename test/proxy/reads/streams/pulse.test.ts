/** The beats of streams: their rate, their states, and a ledger that is replaced between them. */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { createPulse, type Pulse } from '../../../../src/proxy/reads/streams/pulse.ts';
import type { CancelSignal } from '../../../../src/ledger/stop.ts';
import type { Fleet } from '../../../../src/upstream/index.ts';
import type { Demand, PublishedState } from '../../../../src/upstream/shared-states.ts';
import { stateAt } from '../../../support/states.ts';

/** A pulse above a fleet whose shared state the test sets; `undefined`: no node answers. */
class World {
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
  const world = new World(t);
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
  const world = new World(t);
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
  const world = new World(t);
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
  const world = new World(t);
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
  const world = new World(t);
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
  const world = new World(t);
  world.listen();
  await turn();
  world.pulse.close();
  assert.equal(world.signal?.aborted, true);
  world.listen();
  await world.pass(300);
  assert.equal(world.demands.length, 1);
});
