import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Deferral, Ejection, type FailureSign, type Shedding, Silence } from '../../../src/upstream/node/circuits.ts';

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
  assert.deepEqual([deferral.isOn(5), deferral.mayTry(5)], [false, true]);

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
    deferral.answered(nowMs, nowMs);
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
  assert.deepEqual(
    pausesOf(new Deferral(), 9, 0, 1_000),
    Array.from({ length: 9 }, () => 1_000),
  );
  assert.deepEqual(pausesOf(new Deferral(), 1, 0, 3_600_000), [3_600_000]);
  assert.deepEqual(pausesOf(new Deferral(), 1, 0, 3_600_001), [3_600_000]);
  assert.equal(new Deferral().refused(0, { retryAfterMs: 3_600_000, isOfNode: false }, 0), 30_000);
  assert.deepEqual(pausesOf(new Deferral(), 4, 0, 0), [100, 200, 400, 800]);
  const deferral = new Deferral();
  deferral.refused(0, after(), 0);
  // It begins no pause: there is one already.
  assert.equal(deferral.refused(0, after(5_000), 50), undefined);
  assert.deepEqual([deferral.isOn(5_049), deferral.isOn(5_050)], [true, false]);
});

test('after ten seconds without a refusal the pauses begin with the shortest again', () => {
  const deferral = new Deferral();
  assert.equal(deferral.isForgiven(0), true);
  pausesOf(deferral, 3);
  assert.equal(deferral.isForgiven(400), false);
  // The last pause began at 300 ms and took 400 ms; an answer 50 ms later ended the deferral.
  deferral.answered(700, 750);
  assert.deepEqual([deferral.isForgiven(10_749), deferral.isForgiven(10_750)], [false, true]);
  assert.equal(deferral.refused(10_749, after(), 10_749), 800);
  deferral.answered(11_549, 11_550);
  assert.equal(deferral.refused(21_550, after(), 21_550), 100);
});

test('after a pause one request tries the node, and the others follow when it is answered', () => {
  const deferral = new Deferral();
  deferral.beginTrial(0);
  assert.equal(deferral.isOn(0), false);
  deferral.refused(0, after(), 0);

  deferral.beginTrial(50);
  assert.deepEqual([deferral.isOn(99), deferral.isOn(100)], [true, false]);
  // Without an outcome another follows after a second and the pause.
  deferral.beginTrial(100);
  assert.deepEqual([deferral.isOn(100), deferral.isOn(1_199), deferral.isOn(1_200)], [true, true, false]);

  // It was sent during the pause, when no other node could answer.
  deferral.answered(50, 150);
  assert.equal(deferral.isOn(200), true);
  deferral.answered(100, 150);
  assert.equal(deferral.isOn(200), false);
  deferral.beginTrial(200);
  assert.equal(deferral.isOn(200), false);
});

test('a trial that is refused begins the next pause', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(), 0);
  deferral.beginTrial(100);
  assert.equal(deferral.refused(100, after(), 110), 200);
  assert.deepEqual([deferral.isOn(309), deferral.isOn(310)], [true, false]);
});

test('a long pause shrinks to a second when the node answers a request sent after its last refusal', () => {
  const deferral = new Deferral();
  // 25.6 s, from 25,500 ms on. With no better node left it is asked meanwhile.
  pausesOf(deferral, 9);
  deferral.answered(25_499, 25_650);
  assert.equal(deferral.isOn(51_099), true);

  deferral.answered(25_600, 25_650);
  assert.deepEqual([deferral.isOn(26_499), deferral.isOn(26_500)], [true, false]);
});

test('an answer during the pause does not shorten the wait that the node asks for', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(20_000), 0);
  deferral.answered(10, 20);
  assert.deepEqual([deferral.isOn(19_999), deferral.isOn(20_000)], [true, false]);
});

/** Times at which a held node gets trials that take 10 ms each, when another request is ready every ms. */
function trialsWithin(deferral: Deferral, untilMs: number, isAnswered: (trial: number) => boolean): readonly number[] {
  const begun: number[] = [];
  let endMs = Infinity;
  for (let nowMs = 0; nowMs < untilMs; nowMs += 1) {
    if (nowMs === endMs) {
      deferral.endTrial();
      if (isAnswered(begun.length)) deferral.answered(nowMs - 10, nowMs);
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

  assert.deepEqual(trials, [1_000, 3_010, 7_020, 15_030, 31_040, 61_050, 91_060, 121_070]);
  assert.equal(deferral.heldForMs(130_000), 470_000);
});

test('answers halve the gap between trials, and one at a time is the most', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(60_000), 0);

  const trials = trialsWithin(deferral, 2_050, () => true);

  assert.deepEqual(trials.slice(0, 6), [1_000, 1_510, 1_770, 1_905, 1_978, 2_020]);
  assert.ok(trials.every((beganMs, at) => at === 0 || beganMs - (trials[at - 1] ?? 0) >= 10));
});

test('a trial in flight is the only one, however long it takes', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(60_000), 0);
  deferral.beginTrial(1_000);

  assert.equal(deferral.mayTry(50_000), false);
  // Its refusal is no news of the deferral.
  assert.equal(deferral.refused(1_000, after(), 1_010), undefined);
  deferral.endTrial();
  assert.equal(deferral.mayTry(50_000), true);
});

test('the end of the wait ends the hold, and gaps of the next one go on growing', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(5_000), 0);
  trialsWithin(deferral, 5_000, () => false);

  assert.deepEqual([deferral.heldForMs(4_999), deferral.heldForMs(5_000)], [1, 0]);
  assert.deepEqual([deferral.mayTry(5_000), deferral.beginTrial(5_000)], [true, false]);
  deferral.refused(6_000, after(60_000), 6_000);
  assert.deepEqual([deferral.mayTry(13_999), deferral.mayTry(14_000)], [false, true]);
});

test('of refusals of one moment the longest wait counts; that of a later request replaces it', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(100_000), 10);
  for (const sentAtMs of [5, 10]) assert.equal(deferral.refused(sentAtMs, after(1_000), 10), undefined);
  assert.equal(deferral.heldForMs(20), 99_990);

  assert.equal(deferral.refused(2_000, after(3_000), 2_010), undefined);

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

for (const [sign, enough] of [
  ['timeout', 2],
  ['error', 5],
  ['outpaced', 5],
] as const) {
  test(`${enough} signs "${sign}" in a row put a node out, one less does not`, () => {
    const ejection = new Ejection();
    for (let count = 1; count < enough; count += 1) assert.equal(ejection.failed(sign, count, count + 1), undefined);
    assert.equal(ejection.isOut, false);
    assert.equal(ejection.failed(sign, enough, enough + 1), 1_000);
    assert.deepEqual([ejection.isOut, ejection.reason], [true, sign]);
  });

  test(`an answer between two signs "${sign}" begins the row anew`, () => {
    const ejection = new Ejection();
    for (let round = 0; round < 4; round += 1) {
      const atMs = round * 1_000;
      for (let count = 1; count < Math.min(enough, 3); count += 1) ejection.failed(sign, atMs + 1, atMs + 2);
      ejection.answered(atMs + 3);
    }
    assert.equal(ejection.isOut, false);
  });
}

test('a time-out of a read that was sent before a later answer came is slowness, not silence', () => {
  const ejection = new Ejection();
  for (let atMs = 0; atMs < 100_000; atMs += 5_000) {
    ejection.answered(atMs + 100);
    assert.equal(ejection.failed('timeout', atMs, atMs + 5_000), undefined);
  }
});

/** Asks so many reads of which every fifth fails; returns whether the node is out then. */
function ask(ejection: Ejection, reads: number, othersShare: number): boolean {
  for (let read = 1; read <= reads && !ejection.isOut; read += 1) {
    if (read % 5 === 0) ejection.failed('error', read, read, othersShare);
    else ejection.answered(read);
  }
  return ejection.isOut;
}

test('a fifth of errors puts a node out when the others do better, and not when they do the same', () => {
  const ejection = new Ejection();
  assert.equal(ask(ejection, 49, 0), false);
  assert.equal(ask(ejection, 50, 0), true);
  assert.equal(ejection.reason, 'error share');
  assert.equal(ask(new Ejection(), 4_000, 0.15), false);
});

/** Ten errors among so many reads, none five in a row; returns why the node is out. */
function reasonAfter(reads: number, othersShare: number): string | undefined {
  const ejection = new Ejection();
  for (let read = reads; read > 0; read -= 1) {
    if (read % (reads / 10) > 0) ejection.answered(1);
    else ejection.failed('error', 1, 1, othersShare);
  }
  ejection.failed('error', 1, 1, othersShare);
  return ejection.reason;
}

test('errors count as a share from a tenth of ten failures on, and from twice the share of the others', () => {
  const asked = [
    [110, 0, 'error share'],
    [120, 0, undefined],
    [50, 10 / 46 / 2, 'error share'],
    [50, 0.11, undefined],
  ] as const;
  for (const [reads, othersShare, reason] of asked) assert.equal(reasonAfter(reads, othersShare), reason, `${reads}`);
});

test('its share of errors counts errors alone, from ten reads on, and time-outs never eject it for their share', () => {
  const ejection = new Ejection();
  for (let read = 0; read < 8; read += 1) ejection.failed(read < 4 ? 'error' : 'outpaced', 0, 1, 1);
  for (let read = 0; read < 5; read += 1) ejection.answered(1);
  assert.equal(ejection.errorShare(1), 0);
  ejection.answered(1);
  assert.equal(ejection.errorShare(1), 0.4);
  // A trial that nobody has begun changes nothing.
  assert.deepEqual([ejection.endTrial(true, 1), ejection.errorShare(1)], [undefined, 0.4]);
  for (let read = 0; read < 20; read += 1) {
    ejection.failed('error', 0, 1, 1);
    ejection.answered(1);
  }
  assert.deepEqual([ejection.failed('timeout', 0, 1, 0), ejection.isOut], [undefined, false]);
});

test('a failed trial keeps the share of errors, and an answer that ends an ejection clears it', () => {
  const ejection = new Ejection();
  ask(ejection, 50, 0);
  assert.deepEqual([ejection.endTrial(false, 60), ejection.errorShare(60)], [2_000, 0.2]);
  const other = new Ejection();
  ask(other, 50, 1);
  for (const sentAtMs of [51, 52]) other.failed('timeout', sentAtMs, 60);
  assert.deepEqual([other.reason, other.answered(70)], ['timeout', true]);
  for (let read = 0; read < 10; read += 1) other.answered(80);
  assert.equal(other.errorShare(80), 0);
});

for (const [sign, isTotal] of [
  ['timeout', false],
  ['outpaced', false],
  ['error', true],
  ['refused', true],
] as const) {
  test(`a node that is out by signs "${sign}" ${isTotal ? 'answers no read' : 'may answer some reads'}`, () => {
    const ejection = new Ejection();
    assert.equal(ejection.isTotal, false);
    for (let count = 1; count <= 5; count += 1) ejection.failed(sign, count, count);
    assert.deepEqual([ejection.reason, ejection.isTotal], [sign, isTotal]);
  });
}

test('time-outs of reads that were sent before an answer are no row, and errors are', () => {
  const ejection = new Ejection();
  ejection.answered(100);
  for (const sentAtMs of [50, 99, 100, 100]) assert.equal(ejection.failed('timeout', sentAtMs, 200), undefined);
  for (let count = 1; count < 5; count += 1) assert.equal(ejection.failed('error', 50, 200), undefined);
  assert.equal(ejection.failed('error', 50, 200), 1_000);
});

test('a node has answered lately until a read is left unanswered', () => {
  const ejection = new Ejection();
  assert.equal(ejection.hasAnsweredWithin(1_000, 0), false);
  ejection.answered(100);
  assert.deepEqual([ejection.hasAnsweredWithin(1_000, 1_100), ejection.hasAnsweredWithin(1_000, 1_101)], [true, false]);
  ejection.unanswered(100);
  assert.equal(ejection.hasAnsweredWithin(1_000, 100), true);
  ejection.unanswered(101);
  assert.equal(ejection.hasAnsweredWithin(1_000, 101), false);
  ejection.answered(102);
  assert.equal(ejection.hasAnsweredWithin(1_000, 102), true);
});

test('a node that is out is tried after its pause, once at a time', () => {
  const ejection = new Ejection();
  ejection.failed('timeout', 0, 5_000);
  assert.equal(ejection.failed('timeout', 1, 5_000), 1_000);
  assert.deepEqual([ejection.beginTrial(5_999, 5_000), ejection.beginTrial(6_000, 5_000)], [false, true]);
  // Reads that clients send it meanwhile are no trial.
  assert.deepEqual([ejection.failed('timeout', 6_001, 7_000), ejection.beginTrial(11_999, 5_000)], [undefined, false]);
  assert.deepEqual([ejection.endTrial(false, 11_000), ejection.beginTrial(13_000, 5_000)], [2_000, true]);
  assert.deepEqual([ejection.endTrial(true, 13_001), ejection.isOut], [undefined, false]);
});

test('a node with occasional errors must pass three trials in a row', () => {
  const ejection = new Ejection();
  ask(ejection, 50, 0);
  let nowMs = 2_000;
  assert.deepEqual([ejection.beginTrial(nowMs, 100), ejection.endTrial(true, nowMs)], [true, 0]);
  assert.deepEqual([ejection.beginTrial(nowMs, 100), ejection.endTrial(false, nowMs)], [true, 2_000]);
  nowMs += 2_000;
  for (const nextMs of [0, 0, undefined]) {
    assert.deepEqual([ejection.beginTrial(nowMs, 100), ejection.endTrial(true, nowMs)], [true, nextMs]);
  }
  // It begins with a clean sheet, but the next pause is longer, until it has stayed in for a minute.
  assert.equal(ejection.errorShare(nowMs), 0);
  const again = (sentAtMs: number): number | undefined => {
    let pauseMs: number | undefined;
    for (let count = 0; count < 5; count += 1) pauseMs = ejection.failed('error', sentAtMs, sentAtMs) ?? pauseMs;
    return pauseMs;
  };
  assert.equal(again(nowMs + 1), 4_000);
  ejection.beginTrial(nowMs + 5_000, 100);
  ejection.endTrial(true, nowMs + 5_000);
  assert.equal(again(nowMs + 70_000), 1_000);
});

test('failures of reads sent before the return of a node do not count', () => {
  const ejection = new Ejection();
  const sign: FailureSign = 'timeout';
  ejection.failed(sign, 0, 5_000);
  ejection.failed(sign, 0, 5_000);
  ejection.beginTrial(6_000, 1_000);
  ejection.endTrial(true, 6_001);
  for (let count = 0; count < 50; count += 1) assert.equal(ejection.failed(sign, 4_000, 9_000), undefined);
});

test('an answer to a real read ends silence at once', () => {
  const ejection = new Ejection();
  ejection.failed('timeout', 0, 1_000);
  ejection.failed('timeout', 0, 1_000);
  assert.equal(ejection.answered(1_100), true);
  assert.deepEqual([ejection.isOut, ejection.answered(1_200)], [false, false]);
});

test('a node is silent half a second after the first look that nothing was answered since', () => {
  const silence = new Silence();
  assert.equal(silence.isOn(1e9), false);
  silence.looked(100);
  silence.looked(500);
  assert.deepEqual([silence.isOn(599), silence.isOn(600)], [false, true]);
  silence.end();
  assert.equal(silence.isOn(1e9), false);
});

test('three checks in a row that find it silent show that it hangs', () => {
  const silence = new Silence();
  for (const isTotal of [false, false, true]) {
    silence.found();
    assert.equal(silence.isTotal, isTotal);
  }
  silence.end();
  assert.equal(silence.isTotal, false);
});

test('it is quiet since the first request of a client that nothing was answered after', () => {
  const silence = new Silence();
  assert.equal(silence.quietForMs(1e9), -Infinity);
  silence.asked(100);
  silence.asked(500);
  assert.equal(silence.quietForMs(600), 500);
  silence.end();
  assert.equal(silence.quietForMs(600), -Infinity);
});
