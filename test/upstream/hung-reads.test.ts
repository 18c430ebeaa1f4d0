import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HungReads } from '../../src/upstream/hung-reads.ts';

const boundMs = 5_000;

test('two reads in a row that others answered begin a pause, one or none do not', () => {
  const reads = new HungReads();
  reads.sent(0, boundMs);
  assert.equal(reads.isPaused(0), false);
  assert.equal(reads.hung(0, 5_000), undefined);
  assert.equal(reads.isPaused(5_000), false);
  assert.equal(reads.hung(5_000, 10_000), 1_000);
  assert.deepEqual([reads.isPaused(10_999), reads.isPaused(11_000)], [true, false]);
});

test('a node that answers another read meanwhile is only slow', () => {
  const reads = new HungReads();
  for (let atMs = 0; atMs < 100_000; atMs += 5_000) {
    reads.sent(atMs, boundMs);
    assert.equal(reads.answered(atMs + 100), false);
    assert.equal(reads.hung(atMs, atMs + 5_000), undefined);
  }
});

test('reads of one moment hang together and count as one pause', () => {
  const reads = new HungReads();
  const pauses = Array.from({ length: 100 }, () => reads.hung(0, 5_000));
  assert.deepEqual(
    pauses.filter((pause) => pause !== undefined),
    [1_000],
  );
});

test('after a pause one read at a time is a trial, and pauses grow up to half a minute', () => {
  const reads = new HungReads();
  reads.hung(0, 5_000);
  let pauseMs = reads.hung(0, 5_000) ?? 0;
  let nowMs = 5_000;
  const pauses = [pauseMs];
  for (let trial = 0; trial < 7; trial += 1) {
    nowMs += pauseMs;
    assert.equal(reads.isPaused(nowMs), false);
    reads.sent(nowMs, boundMs);
    assert.equal(reads.isPaused(nowMs), true);
    const sentAtMs = nowMs;
    nowMs += boundMs;
    assert.equal(reads.isPaused(nowMs), true);
    pauseMs = reads.hung(sentAtMs, nowMs) ?? 0;
    pauses.push(pauseMs);
  }
  assert.deepEqual(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
});

test('a trial that nobody ends is followed by another', () => {
  const reads = new HungReads();
  reads.hung(0, 5_000);
  reads.hung(0, 5_000);
  reads.sent(6_000, boundMs);
  assert.deepEqual([reads.isPaused(11_999), reads.isPaused(12_000)], [true, false]);
});

test('one answer ends a pause, and the next begins small again', () => {
  const reads = new HungReads();
  reads.hung(0, 5_000);
  reads.hung(0, 5_000);
  reads.hung(6_000, 11_000);
  assert.equal(reads.answered(11_500), true);
  assert.equal(reads.isPaused(11_500), false);
  assert.equal(reads.answered(11_600), false);
  reads.hung(11_700, 16_700);
  assert.equal(reads.hung(11_700, 16_700), 1_000);
});
