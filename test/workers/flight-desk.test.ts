import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlightDesk } from '../../src/workers/flight-desk.ts';

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
