import assert from 'node:assert/strict';
import { test } from 'node:test';
import { advancingClock } from '../../src/sample/ledger-clock.ts';
import { fakeNode } from '../support/fake-node.ts';
import { ManualClock } from '../support/manual-clock.ts';

const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe';

test('a version from oldest to head is served with its state; of two the first counts', async (t) => {
  const node = await fakeNode(t, { oldest: 500n, head: 900n });

  for (const version of ['500', '700', '900', '%2B0700', '505&ledger_version=506&x=1']) {
    const reply = await fetch(`${node.url}${probe}?ledger_version=${version}`);
    const ledger_version = String(parseInt(version.replace('%2B', ''), 10));
    assert.deepEqual(await reply.json(), {
      type: '0x1::ledgergate_sample::Probe',
      data: { address: '0x1', ledger_version },
    });
  }
});

test('the edges move with the clock', async (t) => {
  const node = await fakeNode(t, { oldest: 500n, head: 900n });
  const status = async (version: number): Promise<number> =>
    (await fetch(`${node.url}${probe}?ledger_version=${version}`)).status;

  assert.deepEqual([await status(500), await status(901)], [200, 404]);
  node.clock.oldest = 501n;
  node.clock.advance(1n);
  assert.deepEqual([await status(500), await status(901)], [410, 200]);
});

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

test('lagging clocks of one ledger agree on its timestamps', () => {
  const ledger = { startHead: 10_000n, startMs: 0, now: () => 0 };
  const [ahead, behind] = [advancingClock(ledger), advancingClock({ ...ledger, lag: 1000n })];

  assert.equal(ahead.read().version - behind.read().version, 1000n);
  assert.deepEqual(behind.read(), ahead.read(1000n));
  assert.equal(behind.timestampUsecOf(5n), ahead.timestampUsecOf(5n));
});

test('a manual ledger stands where it is put', () => {
  const clock = new ManualClock({ head: 900n, oldest: 500n });
  clock.advance(10n);
  clock.oldest = 520n;

  const { version, oldestVersion, blockHeight, oldestBlockHeight } = clock.read();

  assert.deepEqual([version, oldestVersion, blockHeight, oldestBlockHeight], [910n, 520n, 45n, 26n]);
  assert.deepEqual([clock.read(400n).version, clock.read(400n).oldestVersion], [510n, 510n]);
});
