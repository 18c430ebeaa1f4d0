import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PeerEvent } from '../../src/gateway/bus.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { Channel, type PrimaryHandlers, type Published, type WorkerHandlers } from '../../src/workers/channel.ts';
import { FlightDesk, PeerLink, WorkerBroadcast, type Peer } from '../../src/workers/peers.ts';
import { ledgerInfo } from '../support/ledger-info.ts';

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
