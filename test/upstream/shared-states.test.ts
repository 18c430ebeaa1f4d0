/** The shared states by bound: which state each demand gets, when one is renewed, and what a peer's state changes. */
import { test } from 'node:test';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { type PublishedState, SharedStates } from '../../src/upstream/shared-states.ts';
import { ledgerInfo } from '../support/ledger-info.ts';
import { runScript, scriptsIn, type Steps } from '../support/script.ts';

function infoAt(version: number) {
  return ledgerInfo({ version: BigInt(version) });
}

function stateAt(version: number, asOfMs: number): PublishedState {
  return { info: infoAt(version), body: Buffer.from('{}'), asOfMs, upstream: 'full-0' };
}

/** States of these bounds. All versions of states are results as such. */
function statesOf(...bounds: readonly number[]): Steps {
  let shared: string[] = [];
  let reached = 0n;
  const states = new SharedStates(
    ({ info }, of) => void shared.push(`${info.version} to ${of.join('+')}`),
    (version) => version <= reached,
  );
  states.follow(bounds);
  const find = (boundMs: number, nowMs: number, min?: number, isRead = true) =>
    states.find(boundMs, min === undefined ? undefined : LedgerVersion.of(BigInt(min)), nowMs, isRead)?.info.version;
  return {
    find,
    look: (version: number, asOfMs: number, forAll = false) => states.take(stateAt(version, asOfMs), forAll),
    report: (boundMs: number, nowMs: number) => find(boundMs, nowMs, undefined, false),
    renewal: (nowMs: number, lookedAtMs = -Infinity) => states.renewalInMs(nowMs, lookedAtMs),
    follow: (...others: readonly number[]) => states.follow(others),
    adopt: (version: number, asOfMs: number, ...of: readonly number[]) => states.adopt(stateAt(version, asOfMs), of),
    offer: (version: number, ...of: readonly number[]) => states.offer(infoAt(version), of),
    refuse: () => states.refuseOffers(),
    reach: (version: number) => (reached = BigInt(version)),
    lose: (above: number) => states.drop((version) => version > BigInt(above)),
    clear: () => states.clear(),
    within: (boundMs: number) => states.sharedWithin(boundMs)?.info.version,
    newest: () => states.newest?.info.version,
    newestShared: () => states.newestShared,
    passed: (nowMs: number) => states.passedBy(nowMs),
    inUse: (nowMs: number) => states.isInUse(nowMs),
    /** The publications since the last call. */
    shared: () => {
      const published = shared.join('; ') || 'nothing';
      shared = [];
      return published;
    },
  };
}

/** Claim and script. `look 10 0`: a look finds version 10 as of 0 ms. `find 1000 900 11`: bound, time and floor. */
const tables: readonly (readonly [bounds: readonly number[], table: string])[] = [
  [
    [],
    `
without bounds only the newest state is found | look 10 0, find 5 5 = 10, find 4 5 = undefined, shared = nothing, newestShared = undefined, passed 0 = 10
`,
  ],
  [
    [1_000],
    `
a look for one client leaves the state that the others share | look 10 0, look 11 100 = true, find 1000 900 = 10, find 1000 900 11 = 11, look 12 899 = true, find 1000 900 = 10, find 1000 900 12 = 12, shared = 10 to 1000
until nine tenths of its bound | look 10 0, look 13 900, find 1000 900 = 13, find 1000 900 14 = undefined, shared = 10 to 1000; 13 to 1000
a look that was due and renewed nothing is repeated after a bound | look 10 0, find 1000 900, renewal 1000 0 = 0, renewal 1000 899 = 0, renewal 1000 900 = 880, renewal 1000 980 = 960
a look for a floor of another replica makes its state the shared one, not that of the look | look 10 0, offer 12 1000, reach 14, look 14 100, within 1000 = 12, find 1000 100 = 12, find 1000 100 13 = 14
before the first state of a bound, that of another replica is a floor alone: its age is unknown | offer 12 1000, reach 12, find 1000 0 = undefined, newestShared = 12, reach 11, look 11 0, find 1000 0 = undefined, reach 12, find 1000 0 = 12
of the states of other replicas the newest counts, until a look is newer | look 10 0, offer 12 1000, offer 11 1000, lose 12, find 1000 0 = undefined, newestShared = 12, reach 14, look 14 900, find 1000 900 = 14
older states of other replicas change nothing | offer 9 1000, look 10 0, find 1000 0 = 10, newestShared = 10, offer 10 1000, find 1000 0 = 10
those that no node reaches are forgotten | look 10 0, offer 12 1000, refuse, find 1000 0 = 10, offer 12 1000, lose 11, find 1000 0 = 10
`,
  ],
  [
    [200],
    `
a bound that a reload adds begins with the newest state | look 10 0, follow 200 1000, shared = 10 to 200, find 1000 0 = 10, shared = 10 to 1000
a state is taken when it is newer than the newest: a higher version, or the same later | look 10 0 = true, look 10 0 = false, look 10 1 = true, look 9 2 = false, look 11 0 = true
states are in use for five bounds after the last one was renewed | inUse 0 = false, look 10 0, inUse 1000 = true, inUse 1001 = false
and while another replica shares one | offer 12 200, inUse 0 = true
the looks end when the last read is more than five bounds ago | look 10 0, find 200 0, renewal 1000 = 0, renewal 1001 = undefined
`,
  ],
  [
    [200, 1_000],
    `
beyond its bound a state gives way to the newest, which is shared from then on | look 10 5000, look 11 5190, find 1000 6000 = 10, shared = 10 to 1000+200; 11 to 200, find 1000 6001 = 11, shared = 11 to 1000
a client may loosen the bound: while nothing newer is known, it gets the old state | look 10 5000, look 11 5190, find 1000 6001 = 11, find 1000 6191 = undefined, find 3000 6191 = 11
a report finds the state that a read would get, and neither shares it nor keeps it renewed | look 10 5000, look 11 5190, report 1000 6000 = 10, shared, report 1000 6001 = 11, report 1000 6191 = undefined, shared = nothing, renewal 6001 = undefined, find 1000 6001 = 11, shared = 11 to 1000
states are in use while one of any bound is | look 10 0, inUse 5000 = true, inUse 5001 = false
for all, every bound shares the look | look 10 0, shared, look 11 1 true, shared = 11 to 1000+200
a state is renewed at 98 % of its bound while reads came within five bounds | renewal 0 = undefined, look 10 0, renewal 0 = undefined, find 1000 100, renewal 100 = 880, find 200 100, renewal 100 = 96, renewal 300 = 0, renewal 1101 = 0
by the process that found it | look 10 0, find 1000 100, find 200 1200, adopt 11 1200 200 1000, renewal 1200 = undefined, find 200 1401, renewal 1401 = undefined, look 12 1401, renewal 1401 = 196, renewal 2402 = undefined
a floor that a stricter bound satisfies renews no more than the bound of its read | look 10 0, look 11 190, find 1000 190 11 = 11, renewal 190 = 790
the first to come due is first | look 10 0, look 11 190, find 1000 190, look 12 880, find 200 890, renewal 890 = 90, renewal 985 = 0, clear, renewal 890 = undefined
the state of a peer is shared where it is newer, by its bounds alone | look 10 0, shared, adopt 12 10 1000, adopt 11 20 1000 400, find 1000 20 = 12, find 200 20 = 10, find 20 20 = 12, shared = nothing, newest = 12, newestShared = 12, passed 20 = 10
a state beyond its bound is below the version that all have passed, and is no answer to a client that loosens it | look 10 5000, look 11 5899, passed 6000 = 10, passed 6001 = 11, lose 10, find 10000 6041 = undefined
states of versions that are lost go | look 10 0, look 11 190, lose 11, newest = 11, lose 10, find 1000 190 = 10, find 200 190 = undefined, newest = undefined, find 1000 1001 = undefined
states of bounds that the config keeps stay | look 10 0, look 11 190, lose 10, follow 1000 2000, find 1000 190 = 10, find 2000 190 = 10, clear, find 2000 190 = undefined
the state of another replica is a floor, and the shared state from the time on at which a node here holds it | look 10 0, shared, offer 12 1000, find 1000 10 = undefined, find 200 10 = 10, newestShared = 12, reach 12, find 1000 20 = 12, find 200 20 = 10, find 20 20 = 12, find 19 20 = undefined, shared = nothing
its age is that of the state before: no look is saved, and none is added | look 10 0, offer 12 1000, reach 12, find 1000 1000 = 12, find 1000 1001 = undefined, shared = 10 to 1000+200; 12 to 200
`,
  ],
  [
    [200, 5_000],
    `
each bound has a state of its own, and a demand the loosest within its bound that satisfies it | look 10 0, look 11 190, look 12 380, find 5000 390 = 10, find 9000 390 = 10, find 4999 390 = 12, find 200 390 = 12, find 5000 390 11 = 12, find 5000 390 13 = undefined, find 199 390 = 12, find 50 390 = 12, find 9 390 = undefined, shared = 10 to 5000+200; 11 to 200; 12 to 200
the versions that are shared: the newest, and the one that all in use have passed | newestShared = undefined, passed 0 = undefined, look 10 0, look 11 190, newestShared = 11, passed 390 = 10, passed 391 = 10
and that of a bound | within 200 = undefined, look 10 0, look 11 190, within 199 = undefined, within 200 = 11, within 4999 = 11, within 5000 = 10
while none is in use, the next read of each gets the newest, or a newer one | look 10 0, look 11 190, look 12 4999, passed 4999 = 12, passed 5001 = 12, passed 10000 = 12
`,
  ],
];

for (const [bounds, table] of tables)
  for (const [claim, script] of scriptsIn(table)) test(claim, () => runScript(statesOf(...bounds), script));
