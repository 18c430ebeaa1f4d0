import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Deferral } from '../../../src/upstream/node/deferral.ts';

/** Pauses of a node that refuses every request, each sent at the end of a pause. */
function pausesOf(deferral: Deferral, count: number, fromMs = 0, retryAfterMs?: number): readonly number[] {
  const pauses: number[] = [];
  for (let nowMs = fromMs; pauses.length < count;) {
    const pauseMs = deferral.refused(nowMs, retryAfterMs, nowMs) ?? NaN;
    pauses.push(pauseMs);
    nowMs += pauseMs;
  }
  return pauses;
}

test('a node is deferred from the first refusal on, until the pause is over', () => {
  const deferral = new Deferral();
  assert.equal(deferral.isOn(5), false);

  assert.equal(deferral.refused(0, undefined, 5), 100);

  assert.deepEqual([deferral.isOn(5), deferral.isOn(104), deferral.isOn(105)], [true, true, false]);
});

test('without an answer in between the pauses double up to 30 s', () => {
  const pauses = [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000];
  assert.deepEqual(pausesOf(new Deferral(), pauses.length), pauses);
});

test('a node that answers between its refusals is deferred for a second at most', () => {
  const deferral = new Deferral();
  let nowMs = 0;
  const pauses = Array.from({ length: 6 }, () => {
    deferral.answered(nowMs);
    const pauseMs = deferral.refused(nowMs, undefined, nowMs) ?? NaN;
    nowMs += pauseMs;
    return pauseMs;
  });
  assert.deepEqual(pauses, [100, 200, 400, 800, 1_000, 1_000]);
});

test('requests that were sent before the pause began or during it do not double it', () => {
  const deferral = new Deferral();
  deferral.refused(0, undefined, 10);

  assert.deepEqual([deferral.refused(5, undefined, 20), deferral.refused(15, undefined, 30)], [undefined, undefined]);

  assert.equal(deferral.refused(130, undefined, 130), 200);
});

test('the wait that the node asks for counts from any refusal, 30 s at most', () => {
  assert.deepEqual(pausesOf(new Deferral(), 2, 0, 2_000), [2_000, 2_000]);
  assert.deepEqual(pausesOf(new Deferral(), 1, 0, 3_600_000), [30_000]);
  assert.deepEqual(pausesOf(new Deferral(), 1, 0, 0), [100]);
  const deferral = new Deferral();
  deferral.refused(0, undefined, 0);
  deferral.refused(0, 5_000, 50);
  assert.deepEqual([deferral.isOn(5_049), deferral.isOn(5_050)], [true, false]);
});

test('after ten seconds without a refusal the pauses begin with the shortest again', () => {
  const deferral = new Deferral();
  assert.equal(deferral.isForgiven(0), true);
  pausesOf(deferral, 3);
  assert.equal(deferral.isForgiven(400), false);
  // The last pause began at 300 ms and took 400 ms.
  assert.equal(deferral.refused(10_700, undefined, 10_700), 800);
  assert.equal(deferral.refused(21_501, undefined, 21_501), 100);
});

test('after a pause one request tries the node, and the others follow when it is answered', () => {
  const deferral = new Deferral();
  deferral.asked(0);
  assert.equal(deferral.isOn(0), false);
  deferral.refused(0, undefined, 0);

  deferral.asked(50);
  assert.deepEqual([deferral.isOn(99), deferral.isOn(100)], [true, false]);
  deferral.asked(100);
  assert.deepEqual([deferral.isOn(100), deferral.isOn(1_099), deferral.isOn(1_100)], [true, true, false]);

  // It was sent during the pause, when no other node could answer.
  deferral.answered(50);
  assert.equal(deferral.isOn(200), true);
  deferral.answered(100);
  assert.equal(deferral.isOn(200), false);
  deferral.asked(200);
  assert.equal(deferral.isOn(200), false);
});

test('a trial that is refused begins the next pause', () => {
  const deferral = new Deferral();
  deferral.refused(0, undefined, 0);
  deferral.asked(100);
  assert.equal(deferral.refused(100, undefined, 110), 200);
  assert.deepEqual([deferral.isOn(309), deferral.isOn(310)], [true, false]);
});

test('a long pause shrinks to a second when the node answers a request sent after its last refusal', () => {
  const deferral = new Deferral();
  // 25.6 s, from 25,500 ms on. With no better node left it is asked meanwhile.
  pausesOf(deferral, 9);
  deferral.answered(25_499);
  assert.equal(deferral.isOn(51_099), true);

  deferral.answered(25_600);
  assert.deepEqual([deferral.isOn(26_499), deferral.isOn(26_500)], [true, false]);
  deferral.refused(25_700, undefined, 26_000);
  assert.deepEqual([deferral.isOn(26_999), deferral.isOn(27_000)], [true, false]);
});

test('an answer during the pause does not shorten the wait that the node asks for', () => {
  const deferral = new Deferral();
  deferral.refused(0, 20_000, 0);
  deferral.answered(10);
  assert.deepEqual([deferral.isOn(19_999), deferral.isOn(20_000)], [true, false]);
});
