import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { RetentionWindow } from '../../../src/upstream/node/retention-window.ts';
import { SharedAddress } from '../../../src/upstream/node/shared-address.ts';
import { holdingOf } from '../../../src/upstream/select/ranking.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';
import { runScript, scriptsIn, type Steps } from '../../support/script.ts';
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

const shown = (view: ReturnType<RetentionWindow['at']>) =>
  view && `${view.oldest}+${view.safeOldest - view.oldest} to ${view.head}`;

const info = (oldest: number, head: number, chainId = 4) =>
  ledgerInfo({ version: BigInt(head), oldest: BigInt(oldest), chainId });

function stepsOf(): Steps {
  const window = new RetentionWindow();
  return {
    report: (atMs: number, oldest: number, head: number, chainId?: number) =>
      window.observe(info(oldest, head, chainId), atMs),
    /** An answer that is no look. */
    answer: (atMs: number, oldest: number, head: number) => window.observe(info(oldest, head), atMs, false),
    lower: (atMs: number) => window.lowerAt(atMs)?.version,
    adopt: (atMs: number, oldest: number, head: number) => window.adopt(info(oldest, head), atMs),
    refuse: (refused: number, atMs: number) => window.observeRefusal(version(refused), atMs),
    at: (atMs: number) => shown(window.at(atMs)),
    around: (atMs: number) => shown(window.around(atMs, 'versions')),
    blocks: (atMs: number) => shown(window.at(atMs, 'blocks')),
    holding: (wanted: number, atMs: number) => holdingOf(window.at(atMs), version(wanted)),
    head: () => window.info?.version,
    observed: () => window.observedAtMs,
    speed: () => window.pace.edgeSpeed,
  };
}

/** Claim and script. `report 5 100 900`: an answer at 5 ms with oldest version and head. `at 5 = 100+20 to 900`: safe from 120 on. */
const scripts = `
before the first answer there is no window | at 0 = undefined, head = undefined, blocks 0 = undefined, refuse 5 0, at 0 = undefined
a ledger that stands still has no margin | report 0 100 900, report 1000 100 900, report 2000 100 900, at 1000000 = 100+0 to 900
an answer that was overtaken by a newer one changes nothing | report 0 100 1000, report 100 200 1100, at 200 = 200+140 to 1100, report 110 150 1050, report 120 0 1099, at 200 = 200+140 to 1100, observed = 100
an overtaken answer of the same head does not move the edge back | report 0 100 1000, report 100 200 1000, report 110 150 1000, at 110 = 200+50 to 1000
a node that reports only an older ledger for ten seconds is believed: it was restored | report 0 100 1000, report 100 200 1100, report 200 50 500 = false, report 10199 50 500 = false, head = 1100, report 10200 50 500 = true, at 10200 = 50+0 to 500, speed = 0
a node that reports an older ledger now and then is not: one of several behind its name lags | report 0 100 1000, report 1000 100 500, report 9000 100 1000 = false, report 10000 100 500, report 18000 100 1000 = false, report 19000 100 500, report 28999 100 500 = false, head = 1000
nor is one old answer after a long silence | report 0 100 1000, report 3600000 100 999 = false, head = 1000
a report of another chain replaces the window at once, with its refusals and speeds | report 0 5000 9000, report 100 5100 9100, refuse 5900 100, around 105 = 5901+50 to 9100, report 110 5200 6000 5 = false, at 110 = 5200+0 to 6000, around 105 = 5200+0 to 6000
an older snapshot that is adopted replaces the window at once, and a newer one continues it | adopt 0 5000 9000, adopt 100 5200 9100, speed = 2, refuse 5900 100, adopt 110 5300 8000, at 110 = 5300+0 to 8000
a node that has only a lower edge than before has not gone back on its chain | report 0 200 1000, report 100 100 1000 = false, report 10100 100 1000 = false, at 10100 = 100+0 to 1000
only a look turns a node to its older ledger | report 0 100 1000, answer 100 50 500 = false, answer 10200 50 500 = false, head = 1000, report 10300 50 500 = true, head = 500
a lower head counts once all answers have had it for half a second, until the head is back | lower 0 = undefined, report 0 100 1000, lower 600 = undefined, answer 1000 100 900, answer 1200 100 950, lower 1499 = undefined, lower 1500 = 950, report 1600 100 1000, lower 3000 = undefined
a lower edge at the same head is no lower head | report 0 200 1000, answer 100 100 1000, lower 5000 = undefined
a larger window is believed at once and its past speed forgotten | report 0 100 1000, report 100 200 1100, report 200 0 1200, at 1000 = 0+0 to 1200
a refused version and all below it count as pruned for ten seconds, despite headers | report 0 100 1000, refuse 250 50, report 60 100 1000, holding 250 60 = pruned, holding 251 60 = held, at 10049 = 251+0 to 1000, at 10050 = 100+0 to 1000
a later refusal of a lower version does not weaken an earlier one, and of a higher one replaces it | report 0 100 1000, refuse 250 0, refuse 200 5000, at 9000 = 251+0 to 1000, refuse 300 9000, at 18999 = 301+0 to 1000, refuse 120 19500, at 19500 = 121+0 to 1000
a refusal is replaced by a lower one when its time is up, and lasts longer when it is repeated | report 0 100 1000, refuse 250 0, refuse 250 5000, at 14999 = 251+0 to 1000, refuse 200 15000, at 15000 = 201+0 to 1000
a refusal of more than a quarter of a small window is not believed | report 0 100 1000, refuse 326 0 = false, at 0 = 100+0 to 1000, refuse 325 0 = true, at 0 = 326+0 to 1000
nor is one farther above the edge than a pruner moves between two looks | report 0 400000000 550000000, refuse 410000001 0, at 0 = 400000000+0 to 550000000, refuse 410000000 0, at 0 = 410000001+0 to 550000000
a refusal below the edge changes nothing | report 0 100 1000, refuse 40 0, at 0 = 100+0 to 1000
reports 25 ms apart are samples of their own | report 0 0 1000, report 25 0 1000, report 50 100 1000, speed = 2
a window of one version has blocks | report 0 1000 1000, blocks 0 = 100+0 to 100
`;

for (const [claim, script] of scriptsIn(scripts)) test(claim, () => runScript(stepsOf(), script));

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
});

test('an edge that moves in steps is expected to make its next step at any moment', () => {
  const reports = Array.from(
    { length: 50 },
    (_, index) => [index * 100, Math.floor(index / 10) * 2000, 100_000] as const,
  );
  const view = windowOf(...reports).at(4900);
  assert.ok(view !== undefined && view.safeOldest >= view.oldest + 1800n, String(view?.safeOldest));
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

test('a lower head is to be reported again once the head was back', () => {
  const window = windowOf([0, 100, 1000]);
  assert.equal(window.isLowerReported, false);
  window.isLowerReported = true;
  window.observe(info(100, 900), 10);
  assert.equal(window.isLowerReported, true);
  window.observe(info(100, 1000), 20);
  assert.equal(window.isLowerReported, false);
});

test('where several nodes answer, an older ledger and a refusal are of another one, and no view is shared', () => {
  const address = new SharedAddress();
  address.isShared = true;
  const window = new RetentionWindow(address);
  assert.equal(window.believed, undefined);
  for (const atMs of [0, 100, 200]) window.observe(info(100 + atMs * 2, 10_000), atMs);
  assert.equal(window.observeRefusal(version(510), 210), false);
  assert.deepEqual(window.around(1_000, 'versions'), window.at(1_005));
  assert.deepEqual(window.around(1_001, 'versions'), window.at(1_006));
  assert.notDeepEqual(window.at(1_005), window.at(1_006));
  window.observe(info(50, 500), 1_100);
  assert.equal(window.observe(info(50, 500), 11_200), false);
  assert.equal(window.info?.version, 10_000n);
});

/** Reports every `everyMs` from `fromMs` on, whose edge has made a step of 10,000 ahead of the one at 20.3 s. */
function afterStep(everyMs: number, untilMs: number, fromMs = 0): number {
  const reports = Array.from({ length: (untilMs - fromMs) / everyMs + 1 }, (_, index) => {
    const atMs = fromMs + index * everyMs;
    return [atMs, atMs < 20_300 ? 0 : 10_000, 100_000] as const;
  });
  return windowOf(...reports).pace.edgeStep;
}

test('a step counts with its report, also one between two samples, and for 15 to 16 s', () => {
  assert.equal(afterStep(100, 20_200), 0);
  assert.ok(afterStep(100, 20_300) > 9_900);
  assert.ok(afterStep(100, 20_400, 20_100) > 6_000);
  // The sample that a later report replaces is compared once it stays.
  assert.ok(afterStep(20, 20_400) > 9_900);
  assert.ok(afterStep(100, 35_000) > 9_900);
  assert.ok(afterStep(100, 36_500) < 100);
});

test('the step of another chain is forgotten with its samples', () => {
  const window = windowOf(...[0, 100, 200].map((atMs) => [atMs, atMs === 200 ? 10_000 : 0, 100_000] as const));
  assert.ok(window.pace.edgeStep > 1_000);
  for (let atMs = 300; atMs <= 2_000; atMs += 100) window.observe(info(0, 100_000, 5), atMs);
  assert.equal(window.pace.edgeStep, 0);
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
  const reads = 30_000;
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
