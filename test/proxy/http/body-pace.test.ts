import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { BodyPace } from '../../../src/proxy/http/body-pace.ts';

test('one turn of the event loop reads bodies up to a bound, and the next turn goes on', async () => {
  const pace = new BodyPace();
  const [one, other] = [new IncomingMessage(new Socket()), new IncomingMessage(new Socket())];
  const mebibyte = 1024 * 1024;

  pace.note(one, 1.5 * mebibyte);
  assert.equal(one.isPaused(), false);
  pace.note(other, mebibyte);
  assert.deepEqual([one.isPaused(), other.isPaused()], [false, true]);
  pace.note(one, 1);
  assert.equal(one.isPaused(), true);

  await nextTurn();
  assert.deepEqual([one.isPaused(), other.isPaused()], [false, false]);
  pace.note(other, mebibyte);
  assert.equal(other.isPaused(), false);
});
