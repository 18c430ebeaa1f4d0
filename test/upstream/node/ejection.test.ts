import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ejection, type FailureSign } from '../../../src/upstream/node/ejection.ts';

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
