/** The state of a fleet without connections: its head, chain, range and outages, its waits, and its nodes that come and go. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { LedgerVersion } from '../../src/ledger/version.ts';
import type { FleetState } from '../../src/upstream/fleet-state.ts';
import type { Tier } from '../../src/upstream/select/ranking.ts';
import { candidatesOf, type Upstream } from '../../src/upstream/node/upstream.ts';
import { fc } from '../support/fast-check.ts';
import { ledgerInfo, type MadeUpLedger } from '../support/ledger-info.ts';
import { runScript, scriptsIn, type Steps } from '../support/script.ts';
import { rowsIn } from '../support/tables.ts';
import { fleetOf } from './fleet-world.ts';

/** The value of one header in the flat list. */
function shown(fleet: FleetState, name: string): string | undefined {
  const list = fleet.view.headers;
  return list[list.indexOf(name) + 1];
}

const never = new AbortController().signal;

test('the fleet is ready from the first usable node with a window on, and no longer when it is down', (t) => {
  const { fleet, at, report, takeDown } = fleetOf(t, ['full', 'full']);
  at(1).recordAnswer(5, 0);
  assert.equal(fleet.isReady, false);
  report(0, { version: 100n });
  assert.equal(fleet.isReady, true);
  takeDown(0);
  assert.equal(fleet.isReady, false);
});

test('one report with a time of the future neither stays in headers nor makes the nodes lag', (t) => {
  const { fleet, at, report } = fleetOf(t, ['full', 'full']);
  const nowUsec = BigInt(Date.now()) * 1_000n;
  report(0, { version: 100n, timestampUsec: nowUsec });
  report(1, { version: 100n, timestampUsec: nowUsec });
  report(0, { version: 101n, timestampUsec: 2n ** 64n - 1n });

  for (const node of [0, 1]) report(node, { version: 110n, timestampUsec: nowUsec + 1_000_000n });
  report(0, { version: 111n, timestampUsec: nowUsec + 900_000n });

  assert.equal(shown(fleet, 'X-Node-Ledger-Timestampusec'), String(nowUsec + 1_000_000n));
  assert.deepEqual([fleet.isLagging(at(0)), fleet.isLagging(at(1))], [false, false]);
});

test('for any reports and failures, version and timestamp never go backward within a generation', (t) => {
  const event = fc.record({
    node: fc.nat(2),
    version: fc.bigInt(1n, 60n),
    timestampUsec: fc.bigInt(1n, 60n),
    fails: fc.integer({ min: 0, max: 9 }).map((value) => value === 0),
    passedMs: fc.constantFrom(0, 50, 15_000),
  });
  fc.assert(
    fc.property(fc.array(event, { maxLength: 40 }), (events) => {
      const { fleet, report, takeDown } = fleetOf(t, ['full', 'full', 'archival']);
      let [nowMs, version, timestamp, generation] = [0, -1, -1, 0];
      for (const { node, fails, passedMs, ...ledger } of events) {
        nowMs += passedMs;
        if (fails) takeDown(node);
        else report(node, ledger, nowMs);
        if (fleet.head === undefined) continue;
        if (fleet.generation !== generation) [version, timestamp, generation] = [-1, -1, fleet.generation];
        const reported = [
          Number(shown(fleet, 'X-Node-Ledger-Version')),
          Number(shown(fleet, 'X-Node-Ledger-Timestampusec')),
        ] as const;
        assert.ok(
          reported[0] >= version && reported[1] >= timestamp,
          `${reported.join()} after ${version}, ${timestamp}`,
        );
        [version, timestamp] = reported;
      }
    }),
    { numRuns: 300 },
  );
});

/** The ledger of a node as text: `1000/400 chain5 3s`, with the oldest version, the chain and the time where they matter. */
function ledgerIn(words: readonly string[]): MadeUpLedger {
  const [head = '', oldest = '0'] = (words[0] ?? '').split('/');
  const seconds = words.find((word) => /^\d+s$/.test(word))?.slice(0, -1);
  return {
    version: BigInt(head),
    oldest: BigInt(oldest),
    chainId: Number(words.find((word) => word.startsWith('chain'))?.slice(5) ?? 4),
    ...(seconds === undefined ? {} : { timestampUsec: BigInt(seconds) * 1_000_000n }),
  };
}

/**
 * Events in turn: `n0 1000 @5` (an answer at 5 ms), `n0 1000 look @5`, `n0 300 insist @5` (looks until it is believed),
 * `n0 headers 1000 @5` (of an answer whose health follows), `n0 answers` (without ledger headers), `n0 denies 1000 x3 @5`
 * (three answers that call the version not found), `n0 down`, `n0 drained`, `n0 resumed`, `n0 busy` (a request is in flight), `settle`,
 * `fleet n1 n2 @5` (the nodes from then on), `restart @5` (another generation).
 */
function happen({ fleet, at, report, look, takeDown }: ReturnType<typeof fleetOf>, events: string): void {
  for (const event of events.split(', ')) {
    const [subject = '', ...words] = event.split(' ');
    const nowMs = Number(words.find((word) => word.startsWith('@'))?.slice(1) ?? 0);
    const index = Number(subject.slice(1));
    const nodeOf = (name: string): Upstream => at(Number(name.slice(1)));
    if (subject === 'settle') fleet.ledger.settle();
    else if (subject === 'fleet') fleet.replace(words.filter((word) => word.startsWith('n')).map(nodeOf), nowMs);
    else if (subject === 'restart') fleet.ledger.startOver(undefined, nowMs);
    else if (words[0] === 'down') takeDown(index);
    else if (words[0] === 'drained' || words[0] === 'resumed')
      fleet.setDrained(at(index), words[0] === 'drained', nowMs);
    else if (words[0] === 'busy') at(index).inFlight = 1;
    else if (words[0] === 'answers') at(index).recordAnswer(5, nowMs);
    else if (words[0] === 'headers') fleet.observe(at(index), ledgerInfo(ledgerIn(words.slice(1))), nowMs);
    else if (words[0] === 'denies')
      for (let left = words.includes('x3') ? 3 : 1; left > 0; left -= 1)
        fleet.ledger.contradict(at(index), BigInt(words[1] ?? ''), nowMs);
    else if (words.includes('insist'))
      for (const laterMs of [0, 5_000, 10_000]) look(index, ledgerIn(words), nowMs + laterMs);
    else if (words.includes('look')) look(index, ledgerIn(words), nowMs);
    else report(index, ledgerIn(words), nowMs);
    fleet.refresh();
  }
}

/**
 * Claim, nodes (`2+1`: one joins later; `chain4`: of the config), events, chain with head, oldest version and generation
 * (`?`: no node serves it), health of each node (`!`: suspect), reports.
 */
const ledgers = `
before the first answer there is no ledger | 2 | settle | none | unproven unproven |
the head is the newest that any node has reported | 2 | n0 100, n1 90, n1 110 | 4: 110/0 #0 | usable usable |
the only node reports an older ledger for a moment | 1 | n0 1000/400, n0 300 @100 | 4: 1000/400 #0 | usable |
the ledger of the only node goes back, and a generation begins | 1 | n0 1000/400, n0 300 @100, n0 300 insist @200 | 4: 300/0 #1 | usable | lower n0 1000 300, back n0 1000 300
a node that was restored while another is at the head is only behind | 2 | n0 1000000, n1 999000, n0 300 insist @100 | 4: 1000000/0 #0 | usable usable | lower n0 1000000 300
a head that its own node takes back is given up, though it was near to the others | 3 | n0 1000, n1 1000, n2 1000, n0 6000, n0 1001 insist @100, n0 1002 @10110 | 4: 1002/0 #1 | usable usable usable | lower n0 6000 1001, suspect n0 6000 true
a head that another node has reached stays, though its own node went back | 2 | n0 1000, n1 1000, n0 6000, n1 6000, n0 1001 insist @100 | 4: 6000/0 #0 | usable usable | lower n0 6000 1001
a node that is down confirms nothing | 2 | n0 1000000, n1 1000000, n1 down, n0 995500 insist @100 | 4: 995500/0 #1 | usable down | lower n0 1000000 995500, back n0 1000000 995500
nor does one that has gone back as well, near enough to pass for a node that is a little behind | 2 | n0 1000000, n1 1000000, n1 995000 insist @100, n0 995500 insist @10100 | 4: 995500/0 #1 | usable usable | lower n1 1000000 995000, lower n0 1000000 995500, back n0 1000000 995500
also once an operator resumes it | 2 | n0 1000000, n1 1000000, n1 995000 insist @100, n1 resumed, n0 995500 insist @10100 | 4: 995500/0 #1 | usable usable | lower n1 1000000 995000, lower n0 1000000 995500, back n0 1000000 995500
the first nodes after the start do not turn the ledger over | 3 | n0 1000, settle, n1 300 chain5 look @10, n2 300 chain5 look @10 | 4: 1000/0 #0 | usable foreign foreign | foreign n1 5 4, foreign n2 5 4
a second look does | 3 | n0 1000, settle, n1 300 chain5 look @10, n2 300 chain5 look @10, n1 300 chain5 look @20, n2 300 chain5 look @20 | 5: 300/0 #1 | foreign usable usable | foreign n1 5 4, foreign n2 5 4, foreign n0 4 5
a fleet of two that begins to answer after the start keeps the chain of the first answer | 2 | settle, n1 300 chain5 look @10, n0 1000 look @20, n0 1000 look @30, n0 1000 look @40 | 5: 300/0 #0 | foreign usable | foreign n0 4 5
with a chain of the config no majority counts | 3 chain4 | n0 300 chain5 look, n1 300 chain5 look | none | foreign foreign unproven | foreign n0 5 4, foreign n1 5 4
nor do looks of the only node of the chain | 3 chain4 | n0 300 chain5 look, n1 300 chain5 look, n2 1000 look, settle, n2 300 chain5 look @10, n2 300 chain5 look @20 | 4: 1000/? #0 | foreign foreign foreign | foreign n0 5 4, foreign n1 5 4, foreign n2 5 4, outage 1000
the chain of most nodes is the fleet's; the others are reported once, and change nothing | 3 | n0 100, n1 9000/1 chain5, n2 200/50, n1 9001 chain5 | 4: 200/0 #0 | usable foreign usable | foreign n1 5 4
a tie of two chains goes to the node configured first | 2 | n0 100, n1 100 chain5 | 4: 100/0 #0 | usable foreign | foreign n1 5 4
in any order of answers | 2 | n1 100 chain5, n0 100 | 4: 100/0 #1 | usable foreign | foreign n1 5 4
after the start a tie changes nothing | 2 | n0 100, n1 101, settle, n0 9000 chain5 look @10, n0 9000 chain5 look @20 | 4: 101/0 #0 | foreign usable | foreign n0 5 4
a majority that comes later turns the fleet to its chain, and the head with it | 3 | n0 9000 chain5, n1 100, n2 101 | 4: 101/0 #1 | foreign usable usable | foreign n1 4 5, foreign n0 5 4
a foreign node that comes back to the chain is used with the window that it has now | 3 | n0 100/50, n1 100/50, n2 9000/1 chain5, n2 99/40 | 4: 100/40 #0 | usable usable usable | foreign n2 5 4
the oldest version is the deepest usable node's | 3 | n0 1000/500, n1 990/100, n2 980/300 | 4: 1000/100 #0 | usable usable usable |
without one that is down | 3 | n0 1000/500, n1 990/100, n2 980/300, n1 down | 4: 1000/300 #0 | usable down usable | lost 100 299 n1
once it answers again, by its report of then, and in an outage as before | 3 | n0 1000/500, n1 990/100, n2 980/300, n1 down, n1 1010/120, n0 down, n1 down, n2 down | 4: 1010/120 #0 | down down down | lost 100 299 n1, found, lost 120 299 n1, outage 1010
the oldest version is that of the remaining nodes | 2 | n0 100/5, n1 100/50, fleet n1 | 4: 100/50 #0 | usable usable |
a head that another node is near to outlives its node | 2 | n1 95, n0 100, fleet n1 @1000, n1 99 @2000 | 4: 100/0 #0 | usable usable |
also for long, once that one has reached it | 2 | n1 95, n0 100, fleet n1 @1000, n1 99 @2000, n1 100 @3000, n1 100 @90000 | 4: 100/0 #0 | usable usable |
a head that the others contradict stays until they do | 1+1 | n0 9000000000, fleet n0 n1, fleet n1 | 4: 9000000000/? #0 | usable unproven | outage 9000000000
and goes with its node | 1+1 | n0 9000000000, fleet n0 n1, fleet n1, n1 100 @1000 | 4: 100/0 #1 | usable usable | outage 9000000000, back n1 9000000000 100, outage over 100
a head slightly too far ahead stays for the allowed lag | 2 | n1 100, n0 5000, fleet n1 @1000, n1 101 @31000 | 4: 5000/0 #0 | usable usable |
and goes when no remaining node reaches it within that | 2 | n1 100, n0 5000, fleet n1 @1000, n1 101 @30900, n1 102 @31100 | 4: 102/0 #1 | usable usable | back n1 5000 102
the remaining nodes vote on the chain | 3 | n0 100, n1 100, n2 70 chain9, fleet n2 | 9: 70/0 #1 | usable usable usable | foreign n2 9 4
nodes that have not answered yet are on the fleet's chain, and in its outage | 1+1 | n0 100, fleet n1 | 4: 100/? #0 | usable unproven | outage 100
their first answer ends it | 1+1 | n0 100, fleet n1, n1 100 | 4: 100/0 #0 | usable usable | outage 100, outage over 100
a head that the others contradict again and again is given up, and its node is asked last | 3 | n0 50000 10s, n1 100 0s, n2 100 0s | 4: 100/0 #1 | usable! usable usable | suspect n0 50000 true
also the one that a generation begins with | 3 | n0 50000 10s, restart, n1 100 0s, n2 100 0s | 4: 100/0 #2 | usable! usable usable | suspect n0 50000 true
a head that was believed beside two others goes on, where the others stand | 3 | n1 100 0s, n2 100 0s, n0 200 0s, n2 down, n0 9000 10s, n2 100 0s, n0 15000 10s | 4: 15000/0 #0 | usable usable usable |
not at a bound | 3 | n1 100 0s, n2 100 0s, n0 200 0s, n0 15000 10s | 4: 200/0 #0 | usable! usable usable | suspect n0 15000 false
and not one that was believed alone | 3 | n0 4000 10s, n0 5000 10s, n1 100 0s, n2 100 0s, n0 15000 10s | 4: 5000/0 #0 | usable! usable usable | suspect n0 15000 false
but one that two others leave standing does | 3 | n0 5000 10s, n1 100 0s, n2 100 0s @300, n0 15000 10s @310 | 4: 15000/0 #0 | usable usable usable |
others that are down contradict no head | 3 | n1 100, n2 100, n1 down, n2 down, n0 9000000000 | 4: 9000000000/0 #0 | usable down down | outage 100, outage over 9000000000
a head is compared with the others from 250 ms on | 3 | n0 40000 10s, n0 50000 10s, n1 100 0s, n2 100 0s @249 | 4: 50000/0 #0 | usable usable usable |
no later | 3 | n0 40000 10s, n0 50000 10s, n1 100 0s, n2 100 0s @250 | 4: 100/0 #1 | usable! usable usable | suspect n0 50000 true
the report of its own node is no occasion for that | 5 | n0 999990, n0 1000000, n3 999000, n1 100, n2 100, n4 100, n0 300 insist @300 | 4: 1000000/0 #0 | usable usable usable usable usable | lower n0 1000000 300
a head that others contradict is not taken, and reported once | 3 | n0 1000, n1 1000, n2 9000000000, n2 9000000001 | 4: 1000/0 #0 | usable usable usable! | suspect n2 9000000000 false
three answers that contradict their own headers disprove a head | 2 | n1 990, n0 1000, n0 denies 1000 x3 | 4: 990/0 #1 | usable! usable | suspect n0 1000 true
each within 10 s of the one before | 2 | n1 990, n0 1000, n0 denies 995, n0 denies 995 @10000, n0 denies 995 @20000 | 4: 990/0 #1 | usable! usable | suspect n0 1000 true
not two, or three with a longer time between them | 2 | n1 990, n0 1000, n0 denies 1000, n0 denies 1000 @10000, n0 denies 1000 @20001, n0 denies 1000 @20001 | 4: 1000/0 #0 | usable usable |
not of a version that another node has reached | 3 | n1 1000, n2 990, n0 1001, n0 denies 1000 x3 | 4: 1001/0 #0 | usable usable usable |
or of a head that one has | 3 | n0 1000, n1 1000, n2 990, n0 denies 1005 x3 | 4: 1000/0 #0 | usable usable usable |
not where no other node has reported its ledger | 2 | n0 1000, n1 answers, n0 denies 1000 x3 | 4: 1000/0 #0 | usable usable |
the head of another node stays | 3 | n0 1000, n1 900, n2 900, n0 down, n1 denies 950 x3 | 4: 1000/0 #0 | down usable usable |
a disproved node moves no head for ten minutes | 2 | n1 990, n0 1000, n0 denies 1000 x3, n0 1010 @599999 | 4: 990/0 #1 | usable! usable | suspect n0 1000 true
and then does | 2 | n1 990, n0 1000, n0 denies 1000 x3, n0 1010 @600000 | 4: 1010/0 #1 | usable usable | suspect n0 1000 true
or when no other node answers | 2 | n1 990, n0 1000, n0 denies 1000 x3, n1 down, n0 1010 @10 | 4: 1010/0 #1 | usable down | suspect n0 1000 true
a drained node moves no head | 2 | n0 1000, n1 1000, n1 drained, n1 1010 | 4: 1000/0 #0 | usable usable |
but with its last requests | 2 | n0 1000, n1 1000, n1 drained, n1 busy, n1 1010 | 4: 1010/0 #0 | usable usable |
a generation begins with the newest report of the nodes that answer: not of one that is drained | 2 | n0 1000, n1 1010, n1 drained, restart | 4: 1000/0 #1 | usable usable |
down | 2 | n0 1000, n1 1010, n1 down, restart | 4: 1000/0 #1 | usable down |
or seems to have gone back | 2 | n0 1000, n1 1010, n1 300, n1 300 @10000, restart @10000 | 4: 1000/0 #1 | usable usable | lower n1 1010 300
where none answers, of the nodes of the chain | 2 | n0 1000, n1 9000 chain5, n0 down, restart | 4: 1000/0 #1 | down foreign | foreign n1 5 4, outage 1000
that are not drained or suspect | 4 | n0 1000, n1 1000, n2 9000000000, n3 1010, n3 drained, n0 down, n1 down, n2 down, restart | 4: 1000/0 #1 | down down down! usable | suspect n2 9000000000 false, outage 1010
of none without one | 1 | n0 1000, n0 drained, restart | none | usable | outage 1000
of a node whose report gives the head up, before its health follows | 3 | n1 100, n2 3000, n0 5000, n1 down, n2 down, fleet n1 n2 @1000, n1 headers 102 @31100 | 4: 102/0 #1 | usable down down | outage 5000, back n1 5000 102
another node that is removed prolongs no head | 3 | n1 100, n2 100, n0 5000, fleet n1 n2 @1000, fleet n1 @20000, n1 102 @31100 | 4: 102/0 #1 | usable usable usable | back n1 5000 102
a head whose node is drained stays for the allowed lag | 2 | n1 100, n0 5000, n0 drained @1000, n1 101 @31000 | 4: 5000/0 #0 | usable usable |
no longer | 2 | n1 100, n0 5000, n0 drained @1000, n1 102 @31001 | 4: 102/0 #1 | usable usable | back n1 5000 102
nor does one that is removed give it up | 3 | n1 100, n2 100, n0 5000, fleet n1 @1000, n2 101 @31100 | 4: 5000/0 #0 | usable usable usable |
a late answer of its node prolongs it | 2 | n1 100, n0 5000, fleet n1 @1000, n0 5001 @20000, n1 101 @50000 | 4: 5001/0 #0 | usable usable |
a generation begins with the first of the newest reports | 3 | n0 100, n1 100, n2 90, restart, fleet n0 n2 @1000, n2 91 @40000 | 4: 100/0 #1 | usable usable usable |
a head that a remaining node reaches is that one's | 3 | n1 95, n2 90, n0 100, fleet n1 n2 @1000, n1 100 @3000, n2 91 @90000 | 4: 100/0 #0 | usable usable usable |
one that a node had reached before it was its own is given up for the time being | 3 | n0 100, n1 100, n2 90, fleet n1 n2 @1000, n2 91 @40000 | 4: 100/0 #1 | usable usable usable | back n2 100 91
the ledger goes back to the newest report that is left | 2 | n0 1000000 10s, n1 980000 9s, n0 300 10s insist @100 | 4: 980000/0 #1 | usable usable | lower n0 1000000 300, back n0 1000000 980000
a head that its own node takes back stays while no other node answers | 2 | n0 1000000, n1 999000, n0 300 insist @100, n1 down, n0 301 @20000 | 4: 1000000/0 #0 | usable down | lower n0 1000000 300
or while one of the others has reached it | 3 | n0 1000, n1 1000, n2 1000, n0 6000, n1 6000, n0 1001 insist @100 | 4: 6000/0 #0 | usable usable usable | lower n0 6000 1001
versions that only a node holds which is down are lost until it answers | 2 | n0 1000/100, n1 1000/500, n0 down, n0 1000/100 | 4: 1000/100 #0 | usable usable | lost 100 499 n0, found
those of several nodes, and of drained ones | 4 | n0 1000/100, n1 1000/500, n2 1000/50, n3 1000/500, n0 drained, n2 down | 4: 1000/500 #0 | usable usable down usable | lost 50 499 n0,n2
also when the deepest is away first | 4 | n0 1000/50, n1 1000/500, n2 1000/40, n3 1000/60, n0 down, n2 down, n3 down | 4: 1000/500 #0 | down usable down down | lost 40 499 n0,n2,n3
windows that differ by a tenth are alike | 2 | n0 1000/450, n1 1000/500, n0 down | 4: 1000/500 #0 | down usable |
by more they are not | 2 | n0 1000/449, n1 1000/500, n0 down | 4: 1000/500 #0 | down usable | lost 449 499 n0
nothing is lost with a node of another chain | 3 | n0 1000/100, n1 1000/500, n2 1000/500, n0 1000/100 chain5 | 4: 1000/500 #0 | foreign usable usable | foreign n0 5 4
or found in an outage | 2 | n0 1000/100, n1 1000/500, n0 down, n1 down, n1 1000/500, n0 1000/100 | 4: 1000/100 #0 | usable usable | lost 100 499 n0, outage 1000, outage over 1000, found
a lower head is reported once it has been lower for half a second | 1 | n0 1000, n0 300 @100, n0 301 @599 | 4: 1000/0 #0 | usable |
and once | 1 | n0 1000, n0 300 @100, n0 301 @600, n0 302 @700 | 4: 1000/0 #0 | usable | lower n0 1000 301
the outage of a fleet that believes no head is one | 3 | n1 1000, n2 1000, n0 9000000000, fleet n0, restart, n0 down | none | down! usable usable | suspect n0 9000000000 false, outage
in an outage, other nodes that do not answer either end nothing | 1+1 | n0 100, n0 down, fleet n1 | 4: 100/? #0 | down unproven | outage 100
`;

for (const [claim = '', given = '', events = '', ...expected] of rowsIn(ledgers)) {
  test(claim, (t) => {
    // An outage asks how long ago nodes answered, on this clock.
    t.mock.method(performance, 'now', () => 0);
    const [count = 0, spares = 0] = (given.split(' ')[0] ?? '').split('+').map(Number);
    const options = { spares, ...(given.endsWith('chain4') ? { chainId: 4 } : {}) };
    const made = fleetOf(t, Array<Tier>(count + spares).fill('full'), options);
    happen(made, events);
    const { fleet, at, reports } = made;
    const { head, oldest, generation, chainId } = fleet;
    const ledger =
      head === undefined ? 'none' : `${chainId}: ${head.version}/${oldest?.oldestVersion ?? '?'} #${generation}`;
    const health = Array.from(
      { length: count + spares },
      (_, index) => at(index).health + (at(index).isSuspect ? '!' : ''),
    ).join(' ');
    assert.deepEqual([ledger, health, reports.join(', ')], expected);
    const names = ['Ledger-Version', 'Ledger-Timestampusec', 'Ledger-Oldest-Version', 'Oldest-Block-Height'];
    const { oldestVersion, oldestBlockHeight } = (head && oldest) ?? head ?? {};
    const facts = [head?.version, head?.timestampUsec, oldestVersion, oldestBlockHeight];
    assert.deepEqual(
      names.map((name) => shown(fleet, `X-Node-${name}`)),
      facts.map((fact) => fact?.toString()),
    );
    if (head === undefined) assert.equal(fleet.ledger.source, undefined);
  });
}

test('the chain of most nodes is reported once it is settled, and again when another is; the one of the config never', (t) => {
  const made = fleetOf(t, ['full', 'full']);
  happen(made, 'n0 1000, n1 1000');
  assert.deepEqual(made.taken, []);
  happen(made, 'settle, settle');
  assert.deepEqual(made.taken, ['4']);
  happen(made, 'n0 300 chain5 insist, n1 300 chain5 insist @20000, n1 301 chain5 @40000');
  assert.deepEqual(made.taken, ['4', '5']);

  const fixed = fleetOf(t, ['full'], { chainId: 4 });
  happen(fixed, 'n0 1000, settle, n0 1001');
  assert.deepEqual(fixed.taken, []);
});

test('answers alone never take the ledger back, however long they report an older one: a look does', (t) => {
  const { fleet, report, look, doubted } = fleetOf(t, ['full']);
  report(0, { version: 1000n });
  for (let nowMs = 0; nowMs < 60_000; nowMs += 1_000) report(0, { version: 300n }, nowMs);
  assert.deepEqual([fleet.head?.version, fleet.generation], [1000n, 0]);
  assert.equal(doubted.length, 50);

  look(0, { version: 301n }, 60_000);

  assert.deepEqual([fleet.head?.version, fleet.generation], [301n, 1]);
});

test('answers alone never turn the ledger over, however many report another chain: a look after them does', (t) => {
  const { fleet, at, report, look, doubted } = fleetOf(t, ['full']);
  report(0, { version: 1000n });
  fleet.ledger.settle();
  const foreign = { version: 300n, chainId: 5 };
  for (const nowMs of [10, 20, 30]) assert.equal(report(0, foreign, nowMs), false);
  assert.deepEqual([fleet.chainId, fleet.head?.version, fleet.generation], [4, 1000n, 0]);
  assert.deepEqual([doubted, at(0).health, at(0).chain.doubted], [['n0', 'n0', 'n0'], 'usable', 5]);

  assert.equal(look(0, foreign, 40), true);

  assert.deepEqual([fleet.chainId, fleet.head?.version, fleet.generation], [5, 300n, 1]);
  assert.equal(at(0).chain.doubted, undefined);
});

test('two heads confirm a version: the second newest one of the nodes that are asked and believed', (t) => {
  const { fleet, at, report, takeDown } = fleetOf(t, ['full', 'full', 'full', 'archival']);
  report(0, { version: 1000n });
  fleet.refresh();
  assert.equal(fleet.ledger.confirmed, 1000n, 'the only node');
  report(1, { version: 990n });
  fleet.refresh();
  report(3, { version: 980n });
  assert.equal(fleet.ledger.confirmed, 990n);
  report(1, { version: 1005n });
  assert.equal(fleet.ledger.confirmed, 1000n);
  // The others contradict it.
  report(2, { version: 900_000_000n });
  assert.equal(at(2).isSuspect, true);
  assert.equal(fleet.ledger.confirmed, 1000n);
  fleet.setDrained(at(1), true, 0);
  assert.equal(fleet.ledger.confirmed, 980n);
  takeDown(3);
  assert.equal(fleet.ledger.confirmed, 1000n, 'the only node that is left');
});

test('a node far behind confirms versions as long as its own time is within the allowed lag', (t) => {
  const { fleet, report } = fleetOf(t, ['full', 'full']);
  const nowUsec = BigInt(Date.now()) * 1_000n;
  report(0, { version: 1_000_000n, timestampUsec: nowUsec });
  for (const [behindMs, confirmed] of [
    [25_000n, 900_000n],
    [35_000n, 1_000_000n],
  ]) {
    report(1, { version: 900_000n, timestampUsec: nowUsec - (behindMs ?? 0n) * 1_000n });
    fleet.refresh();
    assert.equal(fleet.ledger.confirmed, confirmed);
  }
});

test('a version that two nodes have reached is reported once; another history begins a generation, and is reported', (t) => {
  const made = fleetOf(t, ['full', 'full']);
  const { fleet, told } = made;
  happen(made, 'n0 answers, n1 answers, n0 headers 100, n1 headers 100, n0 headers 101, n0 headers 102');
  happen(made, 'n1 headers 102, n1 headers 102');

  assert.deepEqual(
    told().filter((text) => text.startsWith('confirmed')),
    ['confirmed 100', 'confirmed 102'],
  );
  fleet.replaceHistory(LedgerVersion.of(50n));
  assert.deepEqual([fleet.ledger.confirmed, fleet.generation, told()], [102n, 1, ['history replaced 50 102']]);
  const silent = fleetOf(t, ['full']);
  silent.fleet.replaceHistory(LedgerVersion.of(50n));
  assert.deepEqual(silent.told(), ['history replaced 50 ']);
});

test('an answer awaits the second node from just above its head on, near it or far, where it will be by its speed', (t) => {
  const { fleet, at, report } = fleetOf(t, ['full', 'full']);
  const areNear = (nowMs: number, ...versions: readonly bigint[]) =>
    versions.map((version) => fleet.awaited(at(0), version, nowMs)?.isNear);
  assert.deepEqual(areNear(0, 5n), [undefined]);
  report(0, { version: 9_000n });
  report(1, { version: 1_000n });
  assert.deepEqual(areNear(0, 1_000n, 1_001n, 1_500n, 1_501n), [undefined, true, true, false]);
  report(1, { version: 2_000n }, 1_000);
  assert.deepEqual(areNear(1_500, 2_999n, 3_000n, 3_001n), [true, true, false]);
  const awaited = fleet.awaited(at(0), 3_000n, 1_500);
  assert.deepEqual([awaited?.head(), awaited?.withinMs], [9_000n, 30_000]);
});

test('an outage begins with the last node that could be asked, and ends with the first that can be again', (t) => {
  t.mock.method(performance, 'now', () => 7);
  const { fleet, at, report, takeDown, reports: outages } = fleetOf(t, ['full', 'full']);
  const shownNow = () => [fleet.outageFromMs, fleet.view.isPlain, fleet.view.outageSinceMs === fleet.outageSinceMs];
  takeDown(0);
  assert.deepEqual([outages, fleet.outageSinceMs, shownNow()], [[], undefined, [undefined, true, true]]);
  for (const index of [0, 1]) {
    report(index, { version: 100n });
    fleet.refresh();
  }
  takeDown(0);
  assert.deepEqual(outages, []);
  takeDown(1);
  fleet.refresh();
  assert.deepEqual(
    [outages, typeof fleet.outageSinceMs, shownNow()],
    [['outage 100'], 'number', [7, false, true]],
    'on both clocks',
  );
  at(0).recordAnswer(5, 0);
  fleet.refresh();
  assert.deepEqual(
    [outages, fleet.outageSinceMs, shownNow()],
    [['outage 100', 'outage over 100'], undefined, [undefined, true, true]],
  );
});

test('in an outage the oldest version is that of the nodes that answered within 30 s before it', (t) => {
  t.mock.method(performance, 'now', () => nowMs);
  let nowMs = 0;
  const { fleet, report, takeDown } = fleetOf(t, ['archival', 'archival', 'full']);
  report(0, { version: 100n, oldest: 10n }, 9_999);
  report(1, { version: 100n, oldest: 20n }, 10_000);
  report(2, { version: 100n, oldest: 30n }, 39_000);
  nowMs = 40_000;
  for (const index of [0, 1, 2]) takeDown(index);
  assert.deepEqual([shown(fleet, 'X-Node-Ledger-Oldest-Version'), fleet.oldest?.oldestVersion], ['20', 20n]);
});

/** Waits of a fleet of three nodes, by name; `-a`: wait a has ended in vain. */
function waitsOf(t: TestContext): Steps {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { fleet, at, report, takeDown, told } = fleetOf(t, ['full', 'full', 'full']);
  const client = new AbortController();
  const ended: string[] = [];
  return {
    node: (index: number, version: number, chainId = 4) => report(index, { version: BigInt(version), chainId }),
    down: takeDown,
    /** An attempt reports the headers of an answer before the health that follows from it. */
    back: (index: number, version: number) => {
      fleet.observe(at(index), ledgerInfo({ version: BigInt(version) }), 10);
      at(index).recordAnswer(5, 10);
      fleet.refresh();
    },
    wait: (name: string, version: number, ms = 500) =>
      void fleet
        .waitFor(LedgerVersion.of(BigInt(version)), ms, client.signal)
        .then((isReached) => ended.push(isReached ? name : `-${name}`)),
    leave: () => client.abort(),
    tick: (ms: number) => t.mock.timers.tick(ms),
    ended: async () => {
      // A turn of the event loop lets everything that was woken finish.
      await new Promise(setImmediate);
      return ended.splice(0).join('+') || 'none';
    },
    awaited: () => fleet.isAwaited,
    begun: () => told().filter((text) => text === 'awaited').length,
  };
}

/** Claim and script. `node 0 100`: node 0 reports version 100. `wait a 101 500`: for version 101, half a second at most. */
const waits = `
a read above the head wakes when a usable node gets there, at once and not before | node 0 100, wait a 105, node 1 104, ended = none, node 1 105, ended = a
the wait ends in time when no node reaches the version | node 0 100, wait a 101, tick 499, ended = none, tick 1, ended = -a
or with its client | node 0 100, wait a 101, leave, ended = -a, wait b 101, ended = -b
no request waits for a reached version, or without time | node 0 100, wait a 100, ended = a, wait b 101 0, ended = -b
a node of another chain reaches no version | node 0 100, node 1 100, wait a 101, node 2 9000 5, tick 500, ended = -a
waits for several versions end each at its own | node 0 100, wait a 103, wait b 101, wait c 102, wait d 101, wait e 110, node 0 101, ended = b+d, node 0 102, ended = c, node 0 103, ended = a, tick 500, ended = -e
a node that answers again wakes the waiters of its versions | node 1 90, node 0 100, down 0, wait a 100, ended = none, back 0 100, ended = a
a fleet is awaited from its first wait to its last, which is reported once | node 0 100, awaited = false, wait a 101, awaited = true, begun = 1, wait b 102, begun = 0, tick 500, ended = -a+-b, awaited = false, begun = 0
`;

for (const [claim, script] of scriptsIn(waits)) test(claim, (t) => runScript(waitsOf(t), script));

test('only news of a node looks at the waiters that it cannot serve', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { fleet, at, report } = fleetOf(t, ['full', 'full']);
  report(1, { version: 90n });
  report(0, { version: 100n });
  const known = at(0).window.info;
  assert.ok(known !== undefined);
  let asked = 0;
  const isFit = (upstream: Upstream): boolean => {
    asked += 1;
    return upstream !== at(0);
  };
  const wait = fleet.waitFor(LedgerVersion.of(100n), 500, never, isFit);
  const before = asked;

  for (let answers = 0; answers < 100; answers += 1) fleet.observe(at(0), known, answers);

  assert.equal(asked, before);
  // Another node is no answer to it.
  report(0, { version: 101n });
  await new Promise(setImmediate);
  report(1, { version: 100n });
  assert.equal(await wait, true);
});

test('ten thousand requests wait at most; one more is answered without a wait', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { fleet, report } = fleetOf(t, ['full']);
  report(0, { version: 100n });
  const wait = (): Promise<boolean> => fleet.waitFor(LedgerVersion.of(101n), 500, never);
  const waits = Array.from({ length: 10_000 }, wait);
  assert.equal(await wait(), false);
  report(0, { version: 101n });
  assert.ok((await Promise.all(waits)).every(Boolean));
});

test('a candidate costs its latency for each request in flight and this one', (t) => {
  const { fleet, at, report } = fleetOf(t, ['full']);
  report(0, { version: 100n }, 1000);
  at(0).recordAnswer(100, 1000);
  at(0).inFlight = 3;
  const [candidate] = candidatesOf(fleet, 1000, { kind: 'head' });
  assert.equal(candidate?.cost, 400);
  assert.equal(candidate?.window?.head, 100n);
});

test('nodes that stay keep their state', (t) => {
  const { fleet, at, report } = fleetOf(t, ['full', 'full', 'full'], { spares: 1 });
  const [a, b, c] = [at(0), at(1), at(2)];
  report(0, { version: 100n, oldest: 20n });
  report(1, { version: 90n, oldest: 50n });
  const [before] = candidatesOf(fleet, 10, { kind: 'head' });

  fleet.replace([c, a], 0);

  assert.deepEqual(fleet.upstreams, [c, a]);
  assert.deepEqual(candidatesOf(fleet, 10, { kind: 'head' })[1], before);
  assert.equal(candidatesOf(fleet, 10, { kind: 'head' })[0]?.health, 'unproven');
  assert.deepEqual([fleet.head?.version, fleet.generation], [100n, 0]);
  assert.deepEqual([a.isRemoved, b.isRemoved, c.isRemoved], [false, true, false]);
});

test('a late answer of a removed node raises the head, and decides nothing else', async (t) => {
  const { fleet, at, report } = fleetOf(t, ['full', 'full']);
  for (const index of [0, 1]) report(index, { version: 100n });

  fleet.replace([at(1)], 0);
  assert.equal(report(0, { version: 110n }, 1_000), true);
  assert.deepEqual([fleet.head?.version, fleet.ledger.source], [110n, undefined]);
  // Neither on the chain nor on where the ledger is.
  assert.equal(report(0, { version: 100n, chainId: 9 }, 1_100), false);
  report(0, { version: 50n }, 1_200);
  report(0, { version: 50n }, 60_000);

  assert.deepEqual([fleet.chainId, fleet.head?.version, fleet.generation], [4, 110n, 0]);
  assert.equal(await fleet.waitFor(LedgerVersion.of(105n), 1, never), false);
});
