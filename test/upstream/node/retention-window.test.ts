import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { RetentionWindow } from '../../../src/upstream/node/retention-window.ts';
import { holdingOf } from '../../../src/upstream/select/ranking.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';
import { Draw } from '../../support/spellings.ts';

function version(value: number): LedgerVersion {
  return LedgerVersion.of(BigInt(value));
}

/** A window after reports `[atMs, oldest, head]`. */
function windowOf(...reports: readonly (readonly [number, number, number])[]): RetentionWindow {
  const window = new RetentionWindow();
  for (const [atMs, oldest, head] of reports) {
    window.observe(ledgerInfo({ version: BigInt(head), oldest: BigInt(oldest) }), atMs);
  }
  return window;
}

test('before the first answer there is no window', () => {
  const window = new RetentionWindow();
  assert.equal(window.at(0), undefined);
  assert.equal(window.info, undefined);
  window.observeRefusal(version(5), 0);
  assert.equal(window.at(0), undefined);
});

test('a ledger that stands still has no margin', () => {
  const window = windowOf([0, 100, 900], [1000, 100, 900], [2000, 100, 900]);
  assert.deepEqual(window.at(1_000_000), { head: 900n, oldest: 100n, safeOldest: 100n });
});

test('an edge that moves steadily is expected where it will be on arrival, and a little further', () => {
  const reports = Array.from(
    { length: 50 },
    (_, index) => [index * 100, 1000 + index * 200, 100_000 + index * 300] as const,
  );
  const window = windowOf(...reports);
  assert.equal(window.pace.edgeSpeed, 2);
  assert.equal(window.pace.headSpeed, 3);
  // 2 versions a millisecond, for 500 ms and the 40 ms that an arrival is uncertain.
  assert.deepEqual(window.at(4900 + 500), { head: 114_700n, oldest: 10_800n, safeOldest: 10_800n + 1080n });
});

test('a window in blocks moves as its versions do', () => {
  const reports = Array.from(
    { length: 50 },
    (_, index) => [index * 100, 1000 + index * 200, 100_000 + index * 300] as const,
  );
  const window = windowOf(...reports);
  assert.deepEqual(window.at(4900 + 500, 'blocks'), { head: 11_470n, oldest: 1080n, safeOldest: 1080n + 108n });
  assert.equal(new RetentionWindow().at(0, 'blocks'), undefined);
});

test('an edge that moves in steps is expected to make its next step at any moment', () => {
  const reports = Array.from(
    { length: 50 },
    (_, index) => [index * 100, Math.floor(index / 10) * 2000, 100_000] as const,
  );
  const view = windowOf(...reports).at(4900);
  assert.ok(view !== undefined && view.safeOldest >= view.oldest + 1800n, String(view?.safeOldest));
});

test('an answer that was overtaken by a newer one changes nothing', () => {
  const window = windowOf([0, 100, 1000], [100, 200, 1100]);
  const before = window.at(200);
  window.observe(ledgerInfo({ version: 1050n, oldest: 150n }), 110);
  window.observe(ledgerInfo({ version: 1099n, oldest: 0n }), 120);
  assert.deepEqual(window.at(200), before);
  assert.equal(window.observedAtMs, 100);
});

test('an overtaken answer of the same head does not move the edge back', () => {
  const window = windowOf([0, 100, 1000], [100, 200, 1000]);
  window.observe(ledgerInfo({ version: 1000n, oldest: 150n }), 110);
  assert.equal(window.at(200)?.oldest, 200n);
});

test('a node that reports only an older ledger for ten seconds is believed: it was restored', () => {
  const window = windowOf([0, 100, 1000], [100, 200, 1100]);
  const older = ledgerInfo({ version: 500n, oldest: 50n });
  assert.equal(window.observe(older, 200), false);
  assert.equal(window.observe(older, 10_199), false);
  assert.equal(window.info?.version, 1100n);
  assert.equal(window.observe(older, 10_200), true);
  assert.deepEqual(window.at(10_200), { head: 500n, oldest: 50n, safeOldest: 50n });
  assert.equal(window.pace.edgeSpeed, 0);
});

test('a node that reports an older ledger now and then is not believed: one of several behind its name lags', () => {
  const window = windowOf([0, 100, 1000]);
  for (let atMs = 1_000; atMs <= 60_000; atMs += 1_000) {
    const version = atMs % 9_000 === 0 ? 1000n : 500n;
    assert.equal(window.observe(ledgerInfo({ version, oldest: 100n }), atMs), false);
  }
});

test('one old answer after a long silence is not believed', () => {
  const window = windowOf([0, 100, 1000]);
  assert.equal(window.observe(ledgerInfo({ version: 999n, oldest: 100n }), 3_600_000), false);
  assert.equal(window.info?.version, 1000n);
});

test('a report of another chain replaces the window at once, with its refusals and speeds', () => {
  const window = windowOf([0, 5000, 9000], [100, 5100, 9100]);
  window.observeRefusal(version(5900), 100);
  assert.equal(window.around(105, 'versions')?.oldest, 5901n);
  assert.equal(window.observe(ledgerInfo({ version: 6000n, oldest: 5200n, chainId: 5 }), 110), false);
  assert.deepEqual(window.at(110), { head: 6000n, oldest: 5200n, safeOldest: 5200n });
  assert.deepEqual(window.around(105, 'versions'), window.at(110));
});

test('an older snapshot that is adopted replaces the window at once, and a newer one continues it', () => {
  const window = new RetentionWindow();
  window.adopt(ledgerInfo({ version: 9000n, oldest: 5000n }), 0);
  window.adopt(ledgerInfo({ version: 9100n, oldest: 5200n }), 100);
  assert.equal(window.pace.edgeSpeed, 2);
  window.observeRefusal(version(5900), 100);
  window.adopt(ledgerInfo({ version: 8000n, oldest: 5300n }), 110);
  assert.deepEqual(window.at(110), { head: 8000n, oldest: 5300n, safeOldest: 5300n });
});

test('a node that has only a lower edge than before has not gone back on its chain', () => {
  const window = windowOf([0, 200, 1000]);
  const deeper = ledgerInfo({ version: 1000n, oldest: 100n });
  assert.equal(window.observe(deeper, 100), false);
  assert.equal(window.observe(deeper, 10_100), false);
  assert.equal(window.at(10_100)?.oldest, 100n);
});

test('a larger window is believed at once and its past speed forgotten', () => {
  const window = windowOf([0, 100, 1000], [100, 200, 1100], [200, 0, 1200]);
  assert.deepEqual(window.at(1000), { head: 1200n, oldest: 0n, safeOldest: 0n });
});

test('a refused version and all below it count as pruned for ten seconds, despite headers', () => {
  const window = windowOf([0, 100, 1000]);
  window.observeRefusal(version(250), 50);
  window.observe(ledgerInfo({ version: 1000n, oldest: 100n }), 60);
  assert.equal(window.at(60)?.oldest, 251n);
  assert.equal(holdingOf(window.at(60), version(250)), 'pruned');
  assert.equal(holdingOf(window.at(60), version(251)), 'held');
  assert.equal(window.at(10_049)?.oldest, 251n);
  assert.equal(window.at(10_050)?.oldest, 100n);
});

test('a later refusal of a lower version does not weaken an earlier one, and of a higher one replaces it', () => {
  const window = windowOf([0, 100, 1000]);
  window.observeRefusal(version(250), 0);
  window.observeRefusal(version(200), 5000);
  assert.equal(window.at(9_000)?.oldest, 251n);
  window.observeRefusal(version(300), 9_000);
  assert.equal(window.at(18_999)?.oldest, 301n);
  window.observeRefusal(version(120), 19_500);
  assert.equal(window.at(19_500)?.oldest, 121n);
});

test('a refusal is replaced by a lower one when its time is up, and lasts longer when it is repeated', () => {
  const window = windowOf([0, 100, 1000]);
  window.observeRefusal(version(250), 0);
  window.observeRefusal(version(250), 5_000);
  assert.equal(window.at(14_999)?.oldest, 251n);
  window.observeRefusal(version(200), 15_000);
  assert.equal(window.at(15_000)?.oldest, 201n);
});

test('a refusal far above the edge is not believed: no pruner moves so far between two looks', () => {
  const small = windowOf([0, 100, 1000]);
  small.observeRefusal(version(326), 0);
  assert.equal(small.at(0)?.oldest, 100n);
  small.observeRefusal(version(325), 0);
  assert.equal(small.at(0)?.oldest, 326n);

  const usual = windowOf([0, 400_000_000, 550_000_000]);
  usual.observeRefusal(version(410_000_001), 0);
  assert.equal(usual.at(0)?.oldest, 400_000_000n);
  usual.observeRefusal(version(410_000_000), 0);
  assert.equal(usual.at(0)?.oldest, 410_000_001n);
});

test('a refusal below the edge changes nothing', () => {
  const window = windowOf([0, 100, 1000]);
  window.observeRefusal(version(40), 0);
  assert.equal(window.at(0)?.oldest, 100n);
});

test('answers by the thousand cost one sample in 50 ms, and the speed stays right', () => {
  const window = new RetentionWindow();
  for (let index = 0; index < 200_000; index += 1) {
    const moved = BigInt(index * 2);
    window.observe(ledgerInfo({ version: 1_000_000n + moved, oldest: moved }), index / 10);
  }
  assert.ok(Math.abs(window.pace.edgeSpeed - 20) < 0.1, String(window.pace.edgeSpeed));
  assert.equal(window.info?.oldestVersion, 399_998n);
});

test('reports 25 ms apart are samples of their own', () => {
  assert.equal(windowOf([0, 0, 1000], [25, 0, 1000], [50, 100, 1000]).pace.edgeSpeed, 2);
});

/** A window whose edge moves once, between the first and the second of `count` reports. */
function movedOnce(count: number, everyMs: number): RetentionWindow {
  return windowOf(
    ...Array.from({ length: count }, (_, at) => [7_000 + at * everyMs, at === 0 ? 0 : 500, 1000] as const),
  );
}

test('speeds are of the last 15 s, and of 300 samples at most', () => {
  assert.ok(movedOnce(151, 100).pace.edgeSpeed > 0);
  assert.equal(movedOnce(152, 100).pace.edgeSpeed, 0);
  assert.ok(movedOnce(300, 25).pace.edgeSpeed > 0);
  assert.equal(movedOnce(301, 25).pace.edgeSpeed, 0);
});

test('a window of one version has blocks', () => {
  const window = windowOf([0, 1000, 1000]);
  assert.deepEqual(window.at(0, 'blocks'), { head: 100n, oldest: 100n, safeOldest: 100n });
});

/** A node whose edge moves 20,000 versions a second, one step every `stepMs`. */
interface Node {
  readonly stepMs: number;
  /** Mean number of reads a millisecond, at random; every answer is news. */
  readonly readsPerMs: number;
}

const speed = 20;
const windowLength = 1_000_000;

/** The edge as the node has it at `atMs`: the last whole step. */
function edgeAt(atMs: number, stepMs: number): number {
  return 10_000 + Math.floor(atMs / stepMs) * stepMs * speed;
}

/** Reads within 5,000 versions of the edge, over a link of 1 to 5 ms each way, after 10 s of reports. */
function simulate({ stepMs, readsPerMs }: Node) {
  const reads = 100_000;
  const draw = new Draw(stepMs);
  const window = new RetentionWindow();
  const onTheWay: { readonly atMs: number; readonly oldest: number }[] = [];
  const seen = { held: 0, broken: 0, farAbove: 0, farAboveHeld: 0 };
  let nowMs = 0;
  const warmUp = 10_000 * readsPerMs;
  for (let index = 0; index < warmUp + reads; index += 1) {
    nowMs -= Math.log((1 + draw.upTo(999_998)) / 1_000_000) / readsPerMs;
    while ((onTheWay[0]?.atMs ?? Infinity) <= nowMs) {
      const news = onTheWay.shift();
      if (news === undefined) break;
      const oldest = BigInt(news.oldest);
      window.observe(ledgerInfo({ version: oldest + BigInt(windowLength), oldest }), news.atMs);
    }
    const wanted = edgeAt(nowMs, stepMs) - 5000 + draw.upTo(10_000);
    const arrivalMs = nowMs + 1 + draw.upTo(4);
    const isHeld = holdingOf(window.at(nowMs + 10), version(wanted)) === 'held';
    const isFarAbove = wanted >= edgeAt(nowMs, stepMs) + 2000;
    if (index >= warmUp) {
      if (isHeld) seen.held += 1;
      if (isHeld && wanted < edgeAt(arrivalMs, stepMs)) seen.broken += 1;
      if (isFarAbove) seen.farAbove += 1;
      if (isFarAbove && isHeld) seen.farAboveHeld += 1;
    }
    // The answer's headers are of the moment of arrival; they are learned after the way back, in order of coming.
    const news = { atMs: arrivalMs + 1 + draw.upTo(4), oldest: edgeAt(arrivalMs, stepMs) };
    const at = onTheWay.findLastIndex(({ atMs }) => atMs <= news.atMs);
    onTheWay.splice(at + 1, 0, news);
  }
  return seen;
}

/** Least share of the reads 2,000 versions and more above the edge that must be called held. */
const simulations: readonly (Node & { readonly leastShare: number })[] = [
  { stepMs: 1, readsPerMs: 2, leastShare: 0.99 },
  { stepMs: 5, readsPerMs: 2, leastShare: 0.99 },
  { stepMs: 10, readsPerMs: 2, leastShare: 0.99 },
  { stepMs: 25, readsPerMs: 2, leastShare: 0.95 },
  { stepMs: 50, readsPerMs: 2, leastShare: 0.9 },
  { stepMs: 100, readsPerMs: 2, leastShare: 0.8 },
  { stepMs: 5, readsPerMs: 0.02, leastShare: 0.95 },
  { stepMs: 50, readsPerMs: 0.02, leastShare: 0.8 },
  // Steps of 4,000 and 20,000 versions: the next step may prune versions 2,000 above the edge.
  { stepMs: 200, readsPerMs: 2, leastShare: 0 },
  { stepMs: 1000, readsPerMs: 2, leastShare: 0 },
];

for (const { leastShare, ...node } of simulations) {
  test(`an edge of 20,000 versions/s in steps of ${node.stepMs} ms, ${node.readsPerMs * 1000} reads/s: every version called held is held, and enough are`, () => {
    const { held, broken, farAbove, farAboveHeld } = simulate(node);
    assert.equal(broken, 0, `${broken} of ${held} reads called held were not`);
    assert.ok(farAboveHeld >= leastShare * farAbove, `${farAboveHeld} of ${farAbove} are called held`);
    assert.ok(held > 0);
  });
}

test('requests that arrive close to each other share a view, which is never of before they arrive, until there is news', () => {
  const window = new RetentionWindow();
  for (let nowMs = 0; nowMs < 5_000; nowMs += 100) {
    window.observe(ledgerInfo({ version: 100_000n + BigInt(nowMs) * 3n, oldest: 1_000n + BigInt(nowMs) * 2n }), nowMs);
  }
  const view = window.around(5_000, 'versions');
  assert.deepEqual(view, window.at(5_005));
  assert.equal(window.around(5_005, 'versions'), view);
  assert.equal(window.around(5_000, 'versions'), view);
  assert.ok(window.info !== undefined);
  window.observe(window.info, window.observedAtMs);
  assert.equal(window.around(5_000, 'versions'), view);
  assert.deepEqual(window.around(4_900, 'versions'), window.at(4_905));
  assert.deepEqual(window.around(5_006, 'versions'), window.at(5_011));
  assert.deepEqual(window.around(5_006, 'blocks'), window.at(5_011, 'blocks'));
  window.observe(ledgerInfo({ version: 120_000n, oldest: 11_500n }), 5_006);
  assert.equal(window.around(5_006, 'blocks')?.head, 12_000n);
  window.observeRefusal(version(12_000), 5_006);
  assert.equal(window.around(5_006, 'versions')?.oldest, 12_001n);
});
