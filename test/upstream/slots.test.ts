import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { NoPlaceError, Slots } from '../../src/upstream/slots.ts';

const never = new AbortController().signal;

test('places are given out in order, and each is given back once', async () => {
  const slots = new Slots(1);
  const order: number[] = [];
  const first = await slots.take(never);
  const waiting = [1, 2].map((number) =>
    slots.take(never).then((giveBack) => {
      order.push(number);
      return giveBack;
    }),
  );
  assert.equal(slots.isFull, true);
  first();
  first();
  (await waiting[0])?.();
  (await waiting[1])?.();
  assert.deepEqual(order, [1, 2]);
  assert.equal(slots.isFull, false);
});

test('a free place is taken at once or not at all', () => {
  const slots = new Slots(1);
  const giveBack = slots.takeFree();
  assert.equal(slots.takeFree(), undefined);
  giveBack?.();
  giveBack?.();
  assert.notEqual(slots.takeFree(), undefined);
  assert.equal(slots.takeFree(), undefined);
});

test('who gives up takes no place and leaves no listener', async () => {
  const slots = new Slots(1);
  const giveBack = await slots.take(never);
  const client = new AbortController();
  const waiting = slots.take(client.signal);
  client.abort();
  await assert.rejects(waiting, NoPlaceError);
  await assert.rejects(slots.take(client.signal), NoPlaceError);
  assert.equal(getEventListeners(client.signal, 'abort').length, 0);
  giveBack();
  assert.equal(slots.isFull, false);
});

test('a thousand wait at most', async () => {
  const slots = new Slots(1);
  const giveBack = await slots.take(never);
  const waiting = Array.from({ length: 1_000 }, () => slots.take(never).then((giveOn) => giveOn()));
  await assert.rejects(slots.take(never), NoPlaceError);
  giveBack();
  await Promise.all(waiting);
  assert.equal(slots.isFull, false);
});
