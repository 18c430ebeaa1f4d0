import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Deferral, type Shedding } from '../../../src/upstream/node/deferral.ts';

/** A refusal of a node that names this wait. */
const after = (retryAfterMs?: number): Shedding => ({ retryAfterMs, isOfNode: true });

/** Pauses of a node that refuses every request, each sent at the end of a pause. */
function pausesOf(deferral: Deferral, count: number, fromMs = 0, retryAfterMs?: number): readonly number[] {
  const pauses: number[] = [];
  for (let nowMs = fromMs; pauses.length < count;) {
    const pauseMs = deferral.refused(nowMs, after(retryAfterMs), nowMs) ?? NaN;
    pauses.push(pauseMs);
    nowMs += pauseMs;
  }
  return pauses;
}

test('a node is deferred from the first refusal on, until the pause is over', () => {
  const deferral = new Deferral();
  assert.equal(deferral.isOn(5), false);

  assert.equal(deferral.refused(0, after(), 5), 100);

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
    const pauseMs = deferral.refused(nowMs, after(), nowMs) ?? NaN;
    nowMs += pauseMs;
    return pauseMs;
  });
  assert.deepEqual(pauses, [100, 200, 400, 800, 1_000, 1_000]);
});

test('requests that were sent before the pause began or during it do not double it', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(), 10);

  assert.deepEqual([deferral.refused(5, after(), 20), deferral.refused(15, after(), 30)], [undefined, undefined]);

  assert.equal(deferral.refused(130, after(), 130), 200);
});

test('the wait that the node asks for counts from any refusal, an hour at most, 30 s of a proxy', () => {
  assert.deepEqual(pausesOf(new Deferral(), 2, 0, 2_000), [2_000, 2_000]);
  assert.deepEqual(pausesOf(new Deferral(), 1, 0, 3_600_000), [3_600_000]);
  assert.deepEqual(pausesOf(new Deferral(), 1, 0, 3_600_001), [3_600_000]);
  assert.equal(new Deferral().refused(0, { retryAfterMs: 3_600_000, isOfNode: false }, 0), 30_000);
  assert.deepEqual(pausesOf(new Deferral(), 1, 0, 0), [100]);
  const deferral = new Deferral();
  deferral.refused(0, after(), 0);
  deferral.refused(0, after(5_000), 50);
  assert.deepEqual([deferral.isOn(5_049), deferral.isOn(5_050)], [true, false]);
});

test('after ten seconds without a refusal the pauses begin with the shortest again', () => {
  const deferral = new Deferral();
  assert.equal(deferral.isForgiven(0), true);
  pausesOf(deferral, 3);
  assert.equal(deferral.isForgiven(400), false);
  // The last pause began at 300 ms and took 400 ms.
  assert.equal(deferral.refused(10_700, after(), 10_700), 800);
  assert.equal(deferral.refused(21_501, after(), 21_501), 100);
});

test('after a pause one request tries the node, and the others follow when it is answered', () => {
  const deferral = new Deferral();
  deferral.asked(0);
  assert.equal(deferral.isOn(0), false);
  deferral.refused(0, after(), 0);

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
  deferral.refused(0, after(), 0);
  deferral.asked(100);
  assert.equal(deferral.refused(100, after(), 110), 200);
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
  deferral.refused(25_700, after(), 26_000);
  assert.deepEqual([deferral.isOn(26_999), deferral.isOn(27_000)], [true, false]);
});

test('an answer during the pause does not shorten the wait that the node asks for', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(20_000), 0);
  deferral.answered(10);
  assert.deepEqual([deferral.isOn(19_999), deferral.isOn(20_000)], [true, false]);
});

/** Times at which a held node gets trials that take 10 ms each, when another request is ready every ms. */
function trialsWithin(deferral: Deferral, untilMs: number, isAnswered: (trial: number) => boolean): readonly number[] {
  const begun: number[] = [];
  let endMs = Infinity;
  for (let nowMs = 0; nowMs < untilMs; nowMs += 1) {
    if (nowMs === endMs) {
      deferral.endTrial();
      if (isAnswered(begun.length)) deferral.answered(nowMs - 10);
      else deferral.refused(nowMs - 10, after(), nowMs);
    }
    if (deferral.heldForMs(nowMs) === 0 || !deferral.mayTry(nowMs)) continue;
    assert.equal(deferral.beginTrial(nowMs), true);
    begun.push(nowMs);
    endMs = nowMs + 10;
  }
  return begun;
}

test('a held node gets a first trial after a second; refusals double the gap', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(600_000), 0);

  const trials = trialsWithin(deferral, 130_000, () => false);

  assert.deepEqual(trials, [1_000, 3_000, 7_000, 15_000, 31_000, 61_000, 91_000, 121_000]);
  assert.equal(deferral.heldForMs(130_000), 470_000);
});

test('answers halve the gap between trials, and one at a time is the most', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(60_000), 0);

  const trials = trialsWithin(deferral, 2_050, () => true);

  assert.deepEqual(trials.slice(0, 6), [1_000, 1_500, 1_750, 1_875, 1_938, 1_970]);
  assert.ok(trials.every((beganMs, at) => at === 0 || beganMs - (trials[at - 1] ?? 0) >= 10));
});

test('a trial in flight is the only one, however long it takes', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(60_000), 0);
  deferral.beginTrial(1_000);

  assert.equal(deferral.mayTry(50_000), false);
  deferral.endTrial();
  assert.equal(deferral.mayTry(50_000), true);
});

test('the end of the wait ends the hold, and the next one begins with the first gap', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(5_000), 0);
  trialsWithin(deferral, 5_000, () => false);

  assert.deepEqual([deferral.heldForMs(4_999), deferral.heldForMs(5_000)], [1, 0]);
  assert.deepEqual([deferral.mayTry(5_000), deferral.beginTrial(5_000)], [true, false]);
  deferral.refused(6_000, after(5_000), 6_000);
  assert.deepEqual([deferral.mayTry(6_999), deferral.mayTry(7_000)], [false, true]);
});

test('of refusals of one moment the longest wait counts; that of a later request replaces it', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(100_000), 10);
  deferral.refused(5, after(1_000), 20);
  assert.equal(deferral.heldForMs(20), 99_990);

  deferral.refused(2_000, after(3_000), 2_010);

  assert.equal(deferral.heldForMs(2_010), 3_000);
  assert.deepEqual([deferral.isOn(5_009), deferral.isOn(5_010)], [true, false]);
});

test('a refused probe prolongs the hold and leaves the gap between trials', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(60_000), 0);
  for (let nowMs = 100; nowMs < 900; nowMs += 100) deferral.refused(nowMs, after(60_000), nowMs);

  assert.equal(deferral.heldForMs(800), 60_000);
  assert.deepEqual([deferral.mayTry(999), deferral.mayTry(1_000)], [false, true]);
});
