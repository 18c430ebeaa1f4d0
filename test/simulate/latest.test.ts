/** The state that each client is answered from: floors, lanes, and reads ahead of their first client. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HotReads } from '../../simulate/hot.ts';
import { Lane, Latest } from '../../simulate/latest.ts';
import { SimulatedLedger } from '../../simulate/ledger.ts';
import { randomOf } from '../../simulate/random.ts';
import { boundsOf, shapeOf, type Shape } from '../../simulate/shape.ts';
import { Tally } from '../../simulate/tally.ts';
import { requestShapes } from '../../simulate/shapes.ts';
import type { Subject } from '../../simulate/traffic.ts';

const one = { client: 1, connection: 1 };
const other = { client: 2, connection: 2 };
/** The first shared state is some fifty blocks old by then, at 5 s of staleness. */
const atMs = 2_000;

function latestOf(changes: Partial<Shape>) {
  const shape = shapeOf('', 1_000, { maxStalenessMs: 5_000, ...changes });
  const ledger = new SimulatedLedger(shape.ledger);
  const lanes = boundsOf(shape).map(
    (boundMs) => new Lane(shape, ledger, { boundMs, simulated: 1, random: randomOf(1) }),
  );
  const tally = new Tally(0);
  const latest = new Latest({ shape, ledger, tally, lanes, floors: new Map(), random: randomOf(2) });
  const read = (sender: typeof one, minBlock = -1, boundMs = 5_000) =>
    latest.choose(atMs, { sender, boundMs, minBlock }).block;
  return { latest, read, tally, newest: ledger.blockAt(atMs - shape.nodes.lagMs) };
}

test('a floor of the gateway moves everybody, a floor of a client that client alone, with one look', () => {
  for (const floor of ['gateway', 'client'] as const) {
    const { read, newest, tally } = latestOf({ floor });
    const shared = read(other);
    assert.ok(shared < newest - 40);
    assert.equal(read(one, newest), newest);
    assert.equal(read(one), newest);
    assert.equal(read(other), floor === 'gateway' ? newest : shared);
    assert.equal(tally.calls.get('look'), 2);
  }
});

test('a transaction that a client got is a floor on all its connections, and for no other client of one', () => {
  const { latest, read, newest } = latestOf({});
  const shared = read(other);
  latest.recordShown(one, newest);
  assert.equal(read({ client: 1, connection: 3 }), newest);
  assert.equal(read({ client: 4, connection: 1 }), shared);
  assert.equal(read(other), shared);
});

test('a read takes the loosest state within its bound that its connection has not passed', () => {
  const { read } = latestOf({ maxStalenessMs: 200, overrides: { view: { boundMs: 5_000, ofItems: 1 } } });
  const [loose, tight] = [read(one), read(one, -1, 200)];
  assert.ok(loose < tight);
  assert.equal(read(one), tight);
  assert.equal(read(other), loose);
});

test('hot are the reads that were asked often enough within one state, the most frequent first', () => {
  const [shape] = requestShapes;
  assert.ok(shape);
  const subject = (text: string): Subject => ({ operation: 'view', text, bytes: 1, shape, share: 1, wire: '' });
  const hot = new HotReads({ times: 2, most: 2 });
  for (const text of ['a', 'b', 'b', 'c', 'c', 'c', 'd', 'd', 'd', 'd']) hot.record(subject(text));
  assert.deepEqual(
    hot.end().map(({ text }) => text),
    ['d', 'c'],
  );
  hot.record(subject('a'));
  assert.deepEqual(hot.end(), []);
});
