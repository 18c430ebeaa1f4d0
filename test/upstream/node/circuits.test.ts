import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Deferral, Ejection, type FailureSign, type Shedding, Silence } from '../../../src/upstream/node/circuits.ts';
import { runScript, scriptsIn, type Steps } from '../../support/script.ts';

/** A refusal of a node that names this wait. */
const after = (retryAfterMs?: number): Shedding => ({ retryAfterMs, isOfNode: true });

function deferred(): Steps {
  const deferral = new Deferral();
  return {
    refused: (sentAtMs: number, nowMs: number, waitMs?: number) => deferral.refused(sentAtMs, after(waitMs), nowMs),
    proxy: (sentAtMs: number, nowMs: number, retryAfterMs: number) =>
      deferral.refused(sentAtMs, { retryAfterMs, isOfNode: false }, nowMs),
    answered: (sentAtMs: number, nowMs: number) => deferral.answered(sentAtMs, nowMs),
    on: (nowMs: number) => deferral.isOn(nowMs),
    held: (nowMs: number) => deferral.heldForMs(nowMs),
    mayTry: (nowMs: number) => deferral.mayTry(nowMs),
    begin: (nowMs: number) => deferral.beginTrial(nowMs),
    end: () => deferral.endTrial(),
    forgiven: (nowMs: number) => deferral.isForgiven(nowMs),
  };
}

function ejected(): Steps {
  const ejection = new Ejection();
  return {
    failed: (sign: FailureSign, sentAtMs: number, nowMs: number) => ejection.failed(sign, sentAtMs, nowMs),
    answered: (nowMs: number) => ejection.answered(nowMs),
    unanswered: (nowMs: number) => ejection.unanswered(nowMs),
    lately: (nowMs: number) => ejection.hasAnsweredWithin(1_000, nowMs),
    out: () => ejection.isOut,
    reason: () => ejection.reason,
    total: () => ejection.isTotal,
    begin: (nowMs: number, boundMs: number) => ejection.beginTrial(nowMs, boundMs),
    end: (isAnswered: boolean, nowMs: number) => ejection.endTrial(isAnswered, nowMs),
  };
}

function silent(): Steps {
  const silence = new Silence();
  return {
    looked: (nowMs: number) => silence.looked(nowMs),
    asked: (nowMs: number) => silence.asked(nowMs),
    found: () => silence.found(),
    end: () => silence.end(),
    on: (nowMs: number) => silence.isOn(nowMs),
    quiet: (nowMs: number) => silence.quietForMs(nowMs),
    total: () => silence.isTotal,
  };
}

/** Claim and script. `refused`: sent and answered at these ms, with the wait that the node names; the pause is the result. */
const deferrals = `
a node is deferred from the first refusal on, until the pause is over | on 5 = false, mayTry 5 = true, refused 0 5 = 100, on 5 = true, on 104 = true, on 105 = false
without an answer in between the pauses double up to 30 s | refused 0 0 = 100, refused 100 100 = 200, refused 300 300 = 400, refused 700 700 = 800, refused 1500 1500 = 1600, refused 3100 3100 = 3200, refused 6300 6300 = 6400, refused 12700 12700 = 12800, refused 25500 25500 = 25600, refused 51100 51100 = 30000, refused 81100 81100 = 30000
a node that answers between its refusals is deferred for a second at most | answered 0 0, refused 0 0 = 100, answered 100 100, refused 100 100 = 200, answered 300 300, refused 300 300 = 400, answered 700 700, refused 700 700 = 800, answered 1500 1500, refused 1500 1500 = 1000, answered 2500 2500, refused 2500 2500 = 1000
requests that were sent before the pause began or during it do not double it | refused 0 10 = 100, refused 5 20 = undefined, refused 15 30 = undefined, refused 130 130 = 200
the wait that the node names counts from each refusal on | refused 0 0 1000 = 1000, refused 1000 1000 1000 = 1000, refused 2000 2000 1000 = 1000, refused 3000 3000 1000 = 1000, refused 4000 4000 1000 = 1000, refused 5000 5000 1000 = 1000
up to an hour | refused 0 0 3600000 = 3600000
an hour at most | refused 0 0 3600001 = 3600000
30 s of a proxy | proxy 0 0 3600000 = 30000
no wait is none | refused 0 0 0 = 100, refused 100 100 0 = 200, refused 300 300 0 = 400
a wait that is named during a pause begins none | refused 0 0 = 100, refused 0 50 5000 = undefined, on 5049 = true, on 5050 = false
after ten seconds without a refusal the pauses begin with the shortest again | forgiven 0 = true, refused 0 0, refused 100 100, refused 300 300 = 400, forgiven 400 = false, answered 700 750, forgiven 10749 = false, forgiven 10750 = true, refused 10749 10749 = 800, answered 11549 11550, refused 21550 21550 = 100
after a pause one request tries the node | begin 0, on 0 = false, refused 0 0, begin 50, on 99 = true, on 100 = false, begin 100, on 100 = true
without an outcome another follows after a second and the pause | refused 0 0, begin 100, on 1199 = true, on 1200 = false
the others follow an answer, unless it is to a request that was sent during the pause | refused 0 0, begin 100, answered 50 150, on 200 = true, answered 100 150, on 200 = false, begin 200, on 200 = false
a trial that is refused begins the next pause | refused 0 0, begin 100, refused 100 110 = 200, on 309 = true, on 310 = false
a long pause shrinks to a second when the node answers a request sent after its last refusal | refused 0 0, refused 100 100, refused 300 300, refused 700 700, refused 1500 1500, refused 3100 3100, refused 6300 6300, refused 12700 12700, refused 25500 25500 = 25600, answered 25499 25650, on 51099 = true, answered 25600 25650, on 26499 = true, on 26500 = false
an answer does not shorten the wait that the node names | refused 0 0 20000, answered 10 20, on 19999 = true, on 20000 = false
a trial in flight is the only one, and its refusal is no news | refused 0 0 60000, begin 1000, mayTry 50000 = false, refused 1000 1010 = undefined, end, mayTry 50000 = true
of refusals of one moment the longest wait counts; that of a later request replaces it | refused 0 10 100000, refused 5 10 1000 = undefined, refused 10 10 1000 = undefined, held 20 = 99990, refused 2000 2010 3000 = undefined, held 2010 = 3000, on 5009 = true, on 5010 = false
a refused probe prolongs the hold and leaves the gap between trials | refused 0 0 60000, refused 100 100 60000, refused 400 400 60000, refused 800 800 60000, held 800 = 60000, mayTry 999 = false, mayTry 1000 = true
`;

/** Claim and script. `failed`: sent and failed at these ms; the pause is the result. `begin`: a trial and its bound. */
const ejections = `
two time-outs in a row eject a node | total = false, failed timeout 1 2 = undefined, out = false, failed timeout 2 3 = 1000, out = true, reason = timeout, total = false
five errors | 4x failed error 4 5 = undefined, out = false, failed error 5 6 = 1000, out = true, reason = error, total = true
five reads that another answers first | 4x failed outpaced 4 5 = undefined, out = false, failed outpaced 5 6 = 1000, reason = outpaced, total = false
five refusals | 4x failed refused 4 5 = undefined, out = false, failed refused 5 6 = 1000, reason = refused, total = true
an answer between two time-outs begins the row anew | failed timeout 1 2, answered 3, failed timeout 1001 1002, answered 1003, failed timeout 2001 2002, out = false
between errors | 2x failed error 1 2, answered 3, 2x failed error 1001 1002, answered 1003, 2x failed error 2001 2002, out = false
between reads that another answers first | 2x failed outpaced 1 2, answered 3, 2x failed outpaced 1001 1002, answered 1003, 2x failed outpaced 2001 2002, out = false
a time-out of a read that was sent before a later answer came is slowness, not silence | answered 100, failed timeout 0 5000 = undefined, answered 5100, failed timeout 5000 10000 = undefined, answered 10100, failed timeout 10000 15000 = undefined
such time-outs are no row, and errors are | answered 100, failed timeout 50 200 = undefined, failed timeout 99 200 = undefined, 2x failed timeout 100 200 = undefined, 4x failed error 50 200 = undefined, failed error 50 200 = 1000
a node has answered lately until a read is left unanswered | lately 0 = false, answered 100, lately 1100 = true, lately 1101 = false, unanswered 100, lately 100 = true, unanswered 101, lately 101 = false, answered 102, lately 102 = true
a node that is out is tried after its pause, once at a time | failed timeout 0 5000, failed timeout 1 5000 = 1000, begin 5999 5000 = false, begin 6000 5000 = true, failed timeout 6001 7000 = undefined, begin 11999 5000 = false, end false 11000 = 2000, begin 13000 5000 = true, end true 13001 = undefined, out = false
failures of reads sent before the return of a node do not count | 2x failed timeout 0 5000, begin 6000 1000, end true 6001, 50x failed timeout 4000 9000 = undefined
an answer to a real read ends time-outs at once | 2x failed timeout 0 1000, answered 1100 = true, out = false, answered 1200 = false
`;

/** Claim and script. */
const silences = `
a node is silent half a second after the first look that nothing was answered since | on 1000000000 = false, looked 100, looked 500, on 599 = false, on 600 = true, end, on 1000000000 = false
three checks in a row that find it silent show that it hangs | found, total = false, found, total = false, found, total = true, end, total = false
it is quiet since the first request of a client that nothing was answered after | quiet 1000000000 = -Infinity, asked 100, asked 500, quiet 600 = 500, end, quiet 600 = -Infinity
`;

for (const [table, make] of [
  [deferrals, deferred],
  [ejections, ejected],
  [silences, silent],
] as const) {
  for (const [claim, script] of scriptsIn(table)) test(claim, () => runScript(make(), script));
}

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

test('the end of the wait ends the hold, and gaps of the next one go on growing', () => {
  const deferral = new Deferral();
  deferral.refused(0, after(5_000), 0);
  trialsWithin(deferral, 5_000, () => false);

  assert.deepEqual([deferral.heldForMs(4_999), deferral.heldForMs(5_000)], [1, 0]);
  assert.deepEqual([deferral.mayTry(5_000), deferral.beginTrial(5_000)], [true, false]);
  deferral.refused(6_000, after(60_000), 6_000);
  assert.deepEqual([deferral.mayTry(13_999), deferral.mayTry(14_000)], [false, true]);
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
