import assert from 'node:assert/strict';
import { test } from 'node:test';
import { advancingClock } from '../../src/sample/ledger-clock.ts';
import { ManualClock } from '../support/manual-clock.ts';

test('an advancing ledger moves with time, in whole blocks, and never ahead of time', () => {
  let nowMs = 1_000_000;
  const clock = advancingClock({ startHead: 10_000n, startMs: 1_000_000, versionsPerSecond: 190, now: () => nowMs });

  const start = clock.read();
  nowMs += 10_000;
  const later = clock.read();

  assert.deepEqual([start.version, later.version], [9_999n, 11_899n]);
  assert.ok(later.timestampUsec <= BigInt(nowMs) * 1000n);
  assert.ok(later.timestampUsec > BigInt(nowMs) * 1000n - 200_000n);
  assert.equal(later.blockHeight, 594n);
});

test('the window follows the head in steps and never moves back', () => {
  let nowMs = 0;
  const clock = advancingClock({
    startMs: 0,
    versionsPerSecond: 1000,
    window: 5000n,
    pruneStep: 700n,
    now: () => nowMs,
  });
  let last = 0n;

  for (; nowMs < 20_000; nowMs += 37) {
    const { version, oldestVersion } = clock.read();
    assert.ok(oldestVersion >= last);
    assert.equal(oldestVersion % 700n, 0n);
    assert.ok(oldestVersion === 0n || version - oldestVersion >= 5000n);
    assert.ok(version - oldestVersion < 5000n + 700n);
    last = oldestVersion;
  }
  assert.ok(last > 0n);
});

test('without a window everything is kept', () => {
  const clock = advancingClock({ startHead: 1_000_000n });

  assert.deepEqual([clock.read().oldestVersion, clock.read().oldestBlockHeight], [0n, 0n]);
});

test('lagging clocks of one ledger agree on its timestamps', () => {
  const ledger = { startHead: 10_000n, startMs: 0, now: () => 0 };
  const [ahead, behind] = [advancingClock(ledger), advancingClock({ ...ledger, lag: 1000n })];

  assert.equal(ahead.read().version - behind.read().version, 1000n);
  assert.deepEqual(behind.read(), ahead.read(1000n));
  assert.equal(behind.timestampUsecOf(5n), ahead.timestampUsecOf(5n));
});

test('a rate that is no positive whole number is refused', () => {
  for (const versionsPerSecond of [0, -1, 0.5, Number.NaN]) {
    assert.throws(() => advancingClock({ versionsPerSecond }), RangeError);
  }
});

test('a manual ledger stands where it is put', () => {
  const clock = new ManualClock({ head: 900n, oldest: 500n });
  clock.advance(10n);
  clock.oldest = 520n;

  const { version, oldestVersion, blockHeight, oldestBlockHeight } = clock.read();

  assert.deepEqual([version, oldestVersion, blockHeight, oldestBlockHeight], [910n, 520n, 45n, 26n]);
  assert.deepEqual([clock.read(400n).version, clock.read(400n).oldestVersion], [510n, 510n]);
});
