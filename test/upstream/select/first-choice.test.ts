/** First choices without a look at every node, beside `pick` over all nodes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { FleetState } from '../../../src/upstream/fleet-state.ts';
import { candidatesOf, Upstream } from '../../../src/upstream/node/upstream.ts';
import { FirstChoices } from '../../../src/upstream/select/first-choice.ts';
import { noAnswers, pick } from '../../../src/upstream/select/pick.ts';
import type { PositionedNeed } from '../../../src/upstream/select/ranking.ts';
import { fc } from '../../support/fast-check.ts';
import { quietEvents } from '../../support/fleet-events.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';

const nowMs = 1_000;

interface MadeNode {
  readonly tier: 'full' | 'archival';
  readonly oldest: number;
  readonly head: number;
  readonly weight: number;
  readonly state:
    'usable' | 'down' | 'drained' | 'full' | 'deferred' | 'withheld' | 'ejected' | 'silent' | 'refusing' | 'shared';
}

const madeNode = fc.record<MadeNode>({
  tier: fc.constantFrom('full', 'full', 'archival'),
  oldest: fc.constantFrom(0, 500, 580, 900),
  head: fc.constantFrom(998, 999, 1_000),
  weight: fc.constantFrom(1, 1, 1, 1, 1, 1, 1, 2),
  state: fc.constantFrom(
    'usable',
    'usable',
    'usable',
    'usable',
    'down',
    'drained',
    'full',
    'deferred',
    'withheld',
    'ejected',
    'silent',
    'refusing',
    'shared',
  ),
});

function upstreamOf({ tier, weight }: MadeNode, index: number): Upstream {
  const url = new URL('http://127.0.0.1:1');
  return new Upstream({ name: `n${index}`, url, tier, weight, connections: 4, connectTimeoutMs: 1_000 });
}

function fleetOf(nodes: readonly MadeNode[]): FleetState {
  const fleet = new FleetState(nodes.map(upstreamOf), new Dialect('node'), quietEvents);
  for (const [index, { oldest, head, state }] of nodes.entries()) {
    const upstream = fleet.upstreams[index];
    assert.ok(upstream);
    // A silent node has not reported its ledger.
    if (state === 'silent') continue;
    upstream.recordAnswer(5, nowMs);
    fleet.observe(upstream, ledgerInfo({ version: BigInt(head), oldest: BigInt(oldest) }), nowMs);
    if (state === 'down') for (const _ of [1, 2]) upstream.recordFailure(5, nowMs, 'time-out');
    if (state === 'drained') upstream.isDrained = true;
    if (state === 'full') while (!upstream.places.isFull) upstream.places.enter();
    if (state === 'deferred') upstream.deferral.refused(nowMs, { isOfNode: true, retryAfterMs: undefined }, nowMs);
    if (state === 'withheld') {
      upstream.allowance.change(1, nowMs);
      while (!upstream.allowance.isSpent(nowMs)) upstream.allowance.spend(nowMs);
    }
    // It has pruned more than it reports.
    if (state === 'refusing') fleet.recordRefusal(upstream, LedgerVersion.of(BigInt(oldest + 20)), nowMs);
    // Another node behind its address holds less.
    if (state === 'shared') {
      for (const edge of [oldest, 690])
        upstream.address.observe(ledgerInfo({ version: BigInt(head), oldest: BigInt(edge) }), nowMs, nowMs);
      upstream.address.isShared = true;
    }
    if (state === 'ejected')
      for (let failure = 0; failure < 40; failure += 1) upstream.ejections.head.failed('error', nowMs, nowMs);
  }
  fleet.refresh();
  return fleet;
}

/** The nodes that are drawn first by some chance; equal costs leave the choice to it. */
function drawn(count: number, choose: (random: () => number) => string | undefined): Set<string | undefined> {
  const draws = Array.from({ length: count }, (_, index) => (index + 0.5) / count);
  return new Set(draws.map((draw) => choose(() => draw)));
}

test('each node that a shortlist gives is one that a comparison of all nodes gives', () => {
  let found = 0;
  const need = fc.oneof(
    fc
      .constantFrom(0n, 499n, 550n, 700n, 950n, 998n, 999n, 1_001n)
      .map((version): PositionedNeed => ({ kind: 'version', version: LedgerVersion.of(version) })),
    fc.constantFrom(10n, 60n, 95n, 100n).map((height): PositionedNeed => ({ kind: 'block', height })),
  );
  fc.assert(
    fc.property(fc.array(madeNode, { minLength: 1, maxLength: 6 }), need, (nodes, asked) => {
      const fleet = fleetOf(nodes);
      const steps = 420;
      const all = drawn(steps, (random) => {
        const candidates = candidatesOf(fleet, nowMs, asked, 'head').filter(({ isDrained }) => isDrained !== true);
        const choice = pick(candidates, asked, noAnswers, { random });
        return choice?.isFree === true ? choice.node.name : undefined;
      });
      const short = drawn(
        steps,
        (random) => new FirstChoices(fleet, random).find(asked, 'head', 'read', nowMs)?.node.name,
      );
      short.delete(undefined);
      found += short.size > 0 ? 1 : 0;
      for (const name of short) assert.ok(all.has(name), `${name} of ${[...all].join()}`);
      // Each of them has its chance, where all have places.
      if (short.size > 0 && nodes.every(({ state }) => state !== 'full')) assert.deepEqual(short, all);
    }),
    { numRuns: 400 },
  );
  assert.ok(found > 40, `${found} shortlists gave a node`);
});

test('the state of a node that is drawn counts as of now, and nodes that join within some ms', () => {
  const usable = { tier: 'full', oldest: 0, head: 1_000, weight: 1, state: 'usable' } as const;
  const fleet = fleetOf([usable, usable]);
  const choices = new FirstChoices(fleet, () => 0);
  const need = { kind: 'version', version: LedgerVersion.of(900n) } as const;
  const find = (atMs: number): string | undefined => choices.find(need, 'head', 'read', atMs)?.node.name;
  assert.equal(find(nowMs), 'n0');
  const [first] = fleet.upstreams;
  assert.ok(first);
  first.recordFailure(5, nowMs, 'time-out');
  first.recordFailure(5, nowMs, 'time-out');
  assert.equal(find(nowMs + 1), undefined);
  first.recordAnswer(5, nowMs);
  assert.equal(find(nowMs + 1), 'n0');
  first.isDrained = true;
  assert.equal(find(nowMs + 1), undefined);
  // Ranked anew without the drained node.
  assert.equal(find(nowMs + 5), 'n1');
  first.isDrained = false;
  assert.equal(find(nowMs + 10), 'n0');
  fleet.replace(fleet.upstreams.slice(1), nowMs);
  assert.equal(find(nowMs + 11), 'n1');
});

test('a node that refuses a version as pruned gets no first attempt for it, and others for as long as it holds them', () => {
  const usable = { tier: 'full', oldest: 0, head: 1_000, weight: 1, state: 'usable' } as const;
  const fleet = fleetOf([usable]);
  const choices = new FirstChoices(fleet, () => 0);
  const find = (version: bigint): string | undefined =>
    choices.find({ kind: 'version', version: LedgerVersion.of(version) }, 'head', 'read', nowMs)?.node.name;
  const [only] = fleet.upstreams;
  assert.ok(only);
  assert.deepEqual([find(200n), find(201n)], ['n0', 'n0']);

  fleet.recordRefusal(only, LedgerVersion.of(200n), nowMs);

  assert.deepEqual([find(200n), find(201n)], [undefined, 'n0']);
});

test('of two that are drawn the cheaper is asked, at a place that is free; nodes of several weights are all compared', () => {
  const usable = { tier: 'full', oldest: 0, head: 1_000, weight: 1, state: 'usable' } as const;
  const need = { kind: 'version', version: LedgerVersion.of(900n) } as const;
  for (const dear of [0, 1]) {
    const fleet = fleetOf([usable, usable]);
    fleet.upstreams[dear]?.raiseLatency(500, nowMs);
    for (const draw of [0, 0.99]) {
      const choice = new FirstChoices(fleet, () => draw).find(need, 'head', 'read', nowMs);
      assert.deepEqual([choice?.node.name, choice?.isFree, choice?.tier], [`n${1 - dear}`, true, 'full']);
      assert.deepEqual(choice?.alike, [choice?.node]);
    }
  }
  const weighted = fleetOf([usable, { ...usable, weight: 2 }]);
  assert.equal(new FirstChoices(weighted, () => 0).find(need, 'head', 'read', nowMs), undefined);
});

test('nodes are drawn for the versions that all trusted nodes hold, so that each of them has its chance', () => {
  const usable = { tier: 'full', oldest: 0, head: 1_000, weight: 1, state: 'usable' } as const;
  const deep = { ...usable, oldest: 500 };
  // The last one is as good as the first and the third only for what the second does not hold.
  const fleet = fleetOf([deep, { ...usable, oldest: 580, head: 998 }, deep, { ...usable, oldest: 380 }]);
  const find = (version: bigint): string | undefined => {
    const draws = [0, 0.99];
    const choices = new FirstChoices(fleet, () => draws.pop() ?? 0);
    return choices.find({ kind: 'version', version: LedgerVersion.of(version) }, 'head', 'read', nowMs)?.node.name;
  };
  assert.deepEqual([579n, 580n, 998n, 999n].map(find), [undefined, 'n2', 'n2', undefined]);
  // A node that answers has not reported its ledger yet.
  const silent = fleetOf([usable, { ...usable, state: 'silent' }]);
  silent.upstreams[1]?.recordAnswer(5, nowMs);
  const need = { kind: 'version', version: LedgerVersion.of(900n) } as const;
  assert.equal(new FirstChoices(silent, () => 0).find(need, 'head', 'read', nowMs), undefined);
});

test('the class of a read is by the edge that full nodes have reported some ms ago', () => {
  const usable = { tier: 'full', oldest: 500, head: 1_000, weight: 1, state: 'usable' } as const;
  const fleet = fleetOf([usable]);
  const choices = new FirstChoices(fleet);
  const classAt = (version: bigint, atMs: number, isView = false): string =>
    choices.classOf({ kind: 'version', version: LedgerVersion.of(version) }, isView, atMs);
  assert.deepEqual(
    [classAt(499n, nowMs), classAt(500n, nowMs), classAt(499n, nowMs, true)],
    ['archive', 'head', 'view'],
  );
  assert.deepEqual([choices.classOf({ kind: 'block', height: 0n }, false, nowMs)], ['archive']);
  const [only] = fleet.upstreams;
  assert.ok(only);
  fleet.observe(only, ledgerInfo({ version: 1_000n, oldest: 600n }), nowMs + 4);
  assert.deepEqual([classAt(550n, nowMs + 4), classAt(550n, nowMs + 5)], ['head', 'archive']);
});
