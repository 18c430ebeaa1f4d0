import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PeerEvent } from '../../src/gateway/peer-workers.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { Channel } from '../../src/workers/channel.ts';
import { PeerLink, WorkerBroadcast, type Peer } from '../../src/workers/worker-events.ts';
import type { PrimaryHandlers, Published, WorkerHandlers } from '../../src/workers/protocol.ts';
import { ledgerInfo } from '../support/ledger-info.ts';

/** Workers on one broadcast; `deliver` delivers their messages. */
function joined(count: number) {
  const broadcast: WorkerBroadcast = new WorkerBroadcast(() => workers.map(({ peer }) => peer));
  const inFlight: (() => void)[] = [];
  const send = (take: (message: object) => void) => (message: object) => {
    const cloned = structuredClone(message);
    inFlight.push(() => take(cloned));
  };
  const workers = Array.from({ length: count }, (_, index) => {
    const id = index + 1;
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
  });
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
const replaced: PeerEvent = { kind: 'ledger replaced', reports: [] };
const snapshot = (version: bigint, asOfMs: number): PeerEvent => ({
  kind: 'snapshot',
  snapshot: { info: ledgerInfo({ version }), body: Buffer.from('{}'), asOfMs, upstream: 'a' },
});

test('an event reaches every peer of its worker, older state none', async () => {
  const { workers, deliver } = joined(3);
  const [one, two, three] = workers;
  assert.ok(one !== undefined && two !== undefined && three !== undefined);

  one.link.publish(served(100n));
  await deliver();
  two.link.publish(served(99n));
  two.link.publish(served(100n));
  two.link.publish(served(101n));
  await deliver();

  const applied = workers.map((worker) => worker.applied);
  assert.deepEqual(applied, [[served(101n)], [served(100n)], [served(100n), served(101n)]]);
});

test('of two snapshots of one version the later request wins', async () => {
  const { workers, deliver } = joined(2);
  const [one, two] = workers;
  assert.ok(one !== undefined && two !== undefined);

  one.link.publish(snapshot(100n, 10));
  one.link.publish(snapshot(100n, 9));
  one.link.publish(snapshot(100n, 20));
  await deliver();

  const asOf = two.applied.map((event) => (event.kind === 'snapshot' ? Math.round(event.snapshot.asOfMs) : undefined));
  assert.deepEqual(asOf, [10, 20]);
});

test('state of a replaced ledger is dropped in flight', async () => {
  const { broadcast, workers, deliver } = joined(3);
  const [one, two, three] = workers;
  assert.ok(one !== undefined && two !== undefined && three !== undefined);

  one.link.publish(served(100n));
  await deliver();
  two.link.publish(served(200n));
  one.link.publish(replaced);
  three.link.publish(served(300n));
  one.link.publish(served(50n));
  await deliver();

  assert.deepEqual(one.applied, []);
  assert.deepEqual(two.applied, [served(100n), replaced, served(50n)]);
  assert.deepEqual(three.applied, [served(100n), replaced, served(50n)]);
  assert.deepEqual(broadcast.setup.published, [{ ledger: 1, event: served(50n) }]);
});

test('a replacement that two workers detect at once happens once', async () => {
  const { broadcast, workers, deliver } = joined(3);
  const [one, two, three] = workers;
  assert.ok(one !== undefined && two !== undefined && three !== undefined);

  one.link.publish(replaced);
  two.link.publish(replaced);
  await deliver();
  two.link.publish(served(50n));
  await deliver();

  assert.deepEqual([one.applied, two.applied], [[served(50n)], []]);
  assert.deepEqual(three.applied, [replaced, served(50n)]);
  assert.equal(broadcast.setup.ledger, 1);
});

test('a worker that follows a replacement does not publish it again', () => {
  const sent: unknown[] = [];
  const link = new PeerLink({ notify: (_name, argument) => void sent.push(argument), call: () => assert.fail() }, 0);

  link.receive({ ledger: 1, event: replaced }, () => link.publish(replaced));
  link.publish(replaced);

  assert.deepEqual(sent, [{ ledger: 2, event: replaced }]);
});

test('a submission is confirmed once the serving peers recorded it', async () => {
  const { workers, deliver } = joined(3);
  const [one, two] = workers;
  assert.ok(one !== undefined && two !== undefined);
  const event = { kind: 'submitted', hash: '0x1', upstream: 'a' } as const;
  let isConfirmed = false;

  const confirmed = one.link.publishSubmission(event).then(() => (isConfirmed = true));
  const before = isConfirmed;
  await Promise.all([deliver(), confirmed]);

  assert.equal(before, false);
  assert.deepEqual([two.applied, workers[2]?.applied], [[event], [event]]);
});

test('functions of one account evict no function of another from the setup', () => {
  const { broadcast } = joined(1);
  const publish = (functionId: string): void =>
    void broadcast.publish(1, { ledger: 0, event: { kind: 'distrusted', functionId } });

  for (let index = 0; index < 2_000; index += 1) publish(`0xcafe::m${index}::f`);
  publish('0x1::coin::transfer');

  assert.deepEqual(broadcast.setup.distrusted.names, ['0xcafe', '0x1::coin::transfer']);
});
