/** Facts that a fleet without connections reports: its dialect, its view, its nodes' ledgers for other processes, and refusals. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dialect, type HeaderValues } from '../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import type { Upstream } from '../../src/upstream/node/upstream.ts';
import type { Tier } from '../../src/upstream/select/ranking.ts';
import { ledgerInfo, type MadeUpLedger } from '../support/ledger-info.ts';
import { nodeAt } from '../support/node-client.ts';
import { rowsIn } from '../support/tables.ts';
import { fleetOf } from './fleet-world.ts';

/** The headers of a look at a node of this dialect. */
function headersIn(dialect: string, ledger: MadeUpLedger = { version: 100n }): HeaderValues {
  if (dialect === 'none') return {};
  const list = new Dialect(dialect as Dialect['name']).list(ledgerInfo(ledger)).map((text) => text.toLowerCase());
  return Object.fromEntries(list.flatMap((name, at) => (at % 2 === 0 ? [[name, list[at + 1] ?? '']] : [])));
}

const settled = (): Promise<void> => new Promise(setImmediate);

/** Claim, answers of the nodes in turn, the dialect after them, and after half a second. */
const votes = `
the dialect of most nodes is the fleet's | aptos node aptos | aptos | aptos
with a tie, that of the first | aptos node | aptos | aptos
nodes without ledger headers, or without an answer, have no vote | none fails aptos | aptos | aptos
none of them leaves it open | none fails | open | open
more than half of the nodes decide it before the others answer | aptos aptos hangs | aptos | aptos
half of them wait for the others | aptos hangs | open | aptos
so do nodes without ledger headers | none none aptos@400 | open | aptos
of two dialects neither decides before | node aptos hangs | open | node
`;

for (const [claim = '', answers = '', atOnce, later] of rowsIn(votes)) {
  test(claim, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const words = answers.split(' ');
    const { fleet, told } = fleetOf(t, Array<Tier>(words.length).fill('full'), { dialect: 'auto' });
    const look = async ({ name }: Upstream) => {
      const [word = '', lateMs] = words[Number(name.slice(1))]?.split('@') ?? [];
      if (lateMs !== undefined) await new Promise((resolve) => setTimeout(resolve, Number(lateMs)));
      if (word === 'hangs') return new Promise<never>(() => undefined);
      if (word === 'fails') throw new Error('closed');
      return { status: 200, headers: headersIn(word) };
    };
    const shown = (): string => (fleet.isDialectOpen ? 'open' : fleet.dialect.name);
    const vote = fleet.voteOnDialect(look);
    await settled();
    const before = shown();
    t.mock.timers.tick(500);
    await vote;
    assert.deepEqual([before, shown()], [atOnce, later]);
    assert.deepEqual(told(), later === 'open' ? [] : [`dialect taken ${later}`]);
    let asked = 0;
    await fleet.voteOnDialect(() => {
      asked += 1;
      return Promise.reject(new Error('closed'));
    });
    assert.deepEqual([asked, told()], [later === 'open' ? words.length : 0, []]);
  });
}

test('an open dialect is that of the first look with ledger headers, or of the first answer', (t) => {
  const { fleet, told } = fleetOf(t, ['full'], { dialect: 'auto' });
  assert.equal(fleet.takeDialectOf({ status: 200, headers: {} }), undefined);
  assert.equal(fleet.takeDialectOf({ status: 503, headers: headersIn('aptos') }), undefined);
  assert.deepEqual([fleet.dialect.name, fleet.isDialectOpen, told()], ['node', true, []]);

  assert.equal(fleet.takeDialectOf({ status: 200, headers: headersIn('aptos') })?.version, 100n);

  assert.deepEqual([fleet.dialect.name, fleet.isDialectOpen, told()], ['aptos', false, ['dialect taken aptos']]);
  assert.equal(fleet.takeDialectOf({ status: 200, headers: headersIn('aptos') }), undefined);
  const other = fleetOf(t, ['full'], { dialect: 'auto' });
  other.report(0, { version: 100n });
  assert.deepEqual([other.fleet.isDialectOpen, other.told()[0]], [false, 'dialect taken node']);
  const fixed = fleetOf(t, ['full'], { dialect: new Dialect('aptos') });
  fixed.report(0, { version: 100n });
  assert.deepEqual([fixed.fleet.isDialectOpen, fixed.fleet.dialect.name], [false, 'aptos']);
  assert.ok(fixed.told().every((text) => !text.startsWith('dialect')));
});

test('the view is another one after each change of a part of it, and reports each head once', (t) => {
  const { fleet, at, report, told } = fleetOf(t, ['full', 'full']);
  const nothing = fleet.view;
  assert.deepEqual([nothing.headers, nothing.chainId, nothing.isPlain, told()], [[], undefined, true, []]);
  fleet.refresh();
  assert.equal(fleet.view, nothing);
  // A node without requests in flight moves no head, and its chain is known.
  at(0).isDrained = true;
  report(0, { version: 90n, oldest: 20n });
  assert.deepEqual([fleet.view.chainId, fleet.view.head, told()], [4, undefined, []]);
  at(0).isDrained = false;
  report(0, { version: 100n, oldest: 20n });
  const views = [nothing, fleet.view];
  const isAnother = (): boolean => {
    const isNew = fleet.view !== views.at(-1);
    views.push(fleet.view);
    return isNew;
  };
  assert.deepEqual(told(), ['confirmed 100', 'head 100 n0']);
  assert.equal(isAnother(), false);
  report(0, { version: 100n, oldest: 20n });
  assert.equal(isAnother(), false);
  report(1, { version: 101n, oldest: 20n });
  assert.deepEqual([isAnother(), told()], [true, ['head 101 n1']]);
  report(0, { version: 100n, oldest: 21n });
  report(1, { version: 101n, oldest: 21n });
  assert.equal(isAnother(), true, 'the oldest version');
  assert.deepEqual([fleet.oldest?.version, told()], [100n, []], 'of the first of the deepest nodes');
  const info = { ...ledgerInfo({ version: 101n, oldest: 22n }), oldestBlockHeight: 2n };
  for (const node of [0, 1]) fleet.observe(at(node), info, 0);
  fleet.refresh();
  isAnother();
  for (const node of [0, 1]) fleet.observe(at(node), { ...info, oldestBlockHeight: 3n }, 0);
  assert.equal(isAnother(), true, 'its block height');
  const headers: HeaderValues = { 'x-node-txn-encryption-key': 'k' };
  const look = { upstream: at(0), status: 200, info, headers, coding: undefined, tookMs: 5 };
  fleet.recordLook(look);
  assert.equal(isAnother(), true, 'the key of the epoch');
  assert.ok(fleet.view.headers.join().endsWith(fleet.view.ledgerWide.join()) && fleet.view.ledgerWide.includes('k'));
  fleet.recordLook({ ...look, headers: { ...look.headers, 'x-node-new': 'v' } });
  assert.equal(isAnother(), true, 'a name of the ledger');
  assert.equal(fleet.ownHeadersOf({ ...look, headers: { 'x-node-new': 'v' } }), undefined);
  assert.ok(fleet.ownHeadersOf({ ...look, headers: { 'x-node-own': 'v' } })?.includes('v') === true);
  const removed = at(1);
  fleet.replace([at(0)], 0);
  removed.recordAnswer(5, 0);
  fleet.observe(removed, ledgerInfo({ version: 102n, oldest: 22n }), 0);
  told();
  assert.equal(isAnother(), true);
  assert.deepEqual(told(), ['head 102 '], 'its node is no part of the fleet');
  at(0).isDrained = true;
  fleet.ledger.startOver();
  fleet.refresh();
  assert.deepEqual([fleet.view.head, told().filter((text) => text.startsWith('head'))], [undefined, []]);
});

test('another process takes over the ledgers of nodes that it knows, and begins a generation', (t) => {
  const [mine, peer] = [fleetOf(t, ['full', 'full', 'full']), fleetOf(t, ['full', 'full'])];
  peer.report(0, { version: 1_000n });
  peer.report(1, { version: 9_000_000_000n });
  peer.at(1).isSuspect = true;
  const reports = [...peer.fleet.reports(), { name: 'n9', isSuspect: true, info: ledgerInfo({ version: 7n }) }];
  assert.deepEqual(
    reports.map(({ name, isSuspect, info }) => [name, isSuspect, info?.version]),
    [
      ['n0', false, 1_000n],
      ['n1', true, 9_000_000_000n],
      ['n9', true, 7n],
    ],
  );
  mine.report(0, { version: 5_000n });
  mine.report(2, { version: 900n });
  mine.at(2).isSuspect = true;

  mine.fleet.adopt([...reports, { name: 'n2', isSuspect: false, info: undefined }], 10);

  const heads = [0, 1, 2].map((index) => [mine.at(index).head, mine.at(index).isSuspect]);
  assert.deepEqual(heads, [
    [1_000n, false],
    [9_000_000_000n, true],
    [900n, true],
  ]);
  assert.deepEqual([mine.fleet.head?.version, mine.fleet.generation], [1_000n, 1]);
  const open = fleetOf(t, ['full'], { dialect: 'auto' });
  open.fleet.adopt(reports, 10);
  assert.deepEqual([open.fleet.head, open.fleet.generation, open.at(0).head], [undefined, 0, -1n]);
});

test('a refusal of a version is reported where it is news, and one of a peer moves the window of the same node alone', (t) => {
  const { fleet, at, report, told } = fleetOf(t, ['full', 'full']);
  for (const node of [0, 1]) report(node, { version: 1_000n, oldest: 100n });
  told();
  const refused = LedgerVersion.of(200n);
  fleet.recordRefusal(at(0), refused, 0);
  assert.deepEqual(told(), ['refused n0 200']);
  at(1).address.isShared = true;
  fleet.recordRefusal(at(1), refused, 0);
  assert.deepEqual(told(), []);
  const other = nodeAt(t, 10, { name: 'n2' });
  fleet.replace([at(0), other], 0);
  other.recordAnswer(5, 0);
  fleet.observe(other, ledgerInfo({ version: 1_000n, oldest: 100n }), 0);
  told();

  fleet.onPeerRefusal(other.fingerprint, LedgerVersion.of(300n), 0);

  assert.deepEqual([at(0).window.at(0)?.oldest, other.window.at(0)?.oldest, told()], [201n, 301n, []]);
});

test('nodes are ours by their settled chain, lag by their ledger time, and are replaceable by others that answer', (t) => {
  const { fleet, at, report } = fleetOf(t, ['full', 'full', 'full']);
  for (const node of [0, 1]) report(node, { version: 100n, timestampUsec: 40_000_000n });
  report(2, { version: 100n, chainId: 5 });
  const isOurs = [4, 5].map((chainId) =>
    [0, 2].map((node) => fleet.isOurs(at(node), ledgerInfo({ version: 1n, chainId }))),
  );
  assert.deepEqual(isOurs, [
    [true, false],
    [false, false],
  ]);
  assert.deepEqual([fleet.isReplaceable(at(0)), fleet.isReplaceable(at(2))], [true, true]);
  report(1, { version: 101n, timestampUsec: 70_000_000n });
  report(0, { version: 100n, timestampUsec: 40_000_000n });
  assert.deepEqual([at(0).lagMs, fleet.isLagging(at(0)), fleet.isLagging(at(1))], [30_000, false, false]);
  report(1, { version: 102n, timestampUsec: 70_001_000n });
  report(0, { version: 100n, timestampUsec: 40_000_000n });
  assert.equal(fleet.isLagging(at(0)), true);
  fleet.setDrained(at(1), true, 0);
  assert.deepEqual([fleet.isReplaceable(at(0)), fleet.isReplaceable(at(1))], [false, true]);
});

test('a change of the health of a node, or of its reason, is reported once; the vote on the chain reports foreign ones', (t) => {
  const { fleet, at, told } = fleetOf(t, ['full']);
  const node = at(0);
  const noted = (cause?: object): readonly string[] => {
    for (const _ of [1, 2]) fleet.noteHealth(node, cause);
    return told();
  };
  assert.deepEqual([noted(), node.unusableSinceMs], [[], undefined]);
  node.recordAnswer(5, 0);
  assert.deepEqual([noted(), node.unusableSinceMs], [['node usable n0 usable '], undefined]);
  for (const _ of [1, 2]) node.recordFailure(5, 0, 'time-out');
  assert.deepEqual(noted({ kind: 'timeout' }), ['node down n0 down time-out timeout']);
  const sinceMs = node.unusableSinceMs;
  node.explain('other dialect');
  assert.deepEqual(noted(), ['node of other dialect n0 down other dialect']);
  assert.deepEqual([typeof sinceMs, node.unusableSinceMs], ['number', sinceMs]);
  node.isForeign = true;
  assert.deepEqual([noted(), node.noted.health], [[], 'foreign']);
  node.isForeign = false;
  node.recordAnswer(5, 0);
  node.isRemoved = true;
  assert.deepEqual(noted(), []);
});

test('a node that is below the second head confirms nothing new, and one that goes back or is believed again does', (t) => {
  const { fleet, at, report, told } = fleetOf(t, ['full', 'full']);
  report(0, { version: 1_000_000n });
  report(1, { version: 1_000_000n });
  for (const lookMs of [0, 5_000, 10_000]) report(1, { version: 995_000n }, lookMs, lookMs);
  assert.equal(fleet.ledger.confirmed, 995_000n);
  at(1).isSuspect = true;
  fleet.refresh();
  assert.equal(fleet.ledger.confirmed, 1_000_000n);
  report(1, { version: 996_000n }, 10_100);
  assert.equal(fleet.ledger.confirmed, 996_000n);
  told();
  for (const node of [0, 1]) fleet.setDrained(at(node), true, 0);
  assert.deepEqual([fleet.ledger.confirmed, told().filter((text) => text.startsWith('confirmed'))], [undefined, []]);
});
