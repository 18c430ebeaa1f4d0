/** Streams of the ledger info: who gets which state of a beat. */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';
import type { Freshness, InfoBody } from '../../../../src/proxy/reads/freshness.ts';
import { InfoStreams } from '../../../../src/proxy/reads/streams/info-streams.ts';
import type { StreamClient } from '../../../../src/proxy/reads/push.ts';
import type { PublishedState } from '../../../../src/upstream/shared-states.ts';
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

test('a stream begins with the state of its read, and has an event where the shared state has moved', async () => {
  const world = new World();
  const client = world.open(5n);
  assert.deepEqual(client.take(), ['ledger_info 5 {"ledger_version":"5"}']);
  await world.beat(5n);
  await world.beat(7n);
  await world.beat(7n);
  assert.deepEqual(client.take(), ['ledger_info 7 {"ledger_version":"7"}']);
  assert.equal(client.events, 2);
});

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
