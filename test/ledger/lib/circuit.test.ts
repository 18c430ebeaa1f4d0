import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Circuit, type CircuitPolicy } from '../../../src/ledger/lib/circuit.ts';
import { fc } from '../../support/fast-check.ts';
import { runScript, scriptsIn, type Steps } from '../../support/script.ts';

type Cause = 'one' | 'other';
type Policy = CircuitPolicy<Cause>;

/**
 * The policies of the gateway, and those that a node's other states could have. What open means and who tries is their
 * owners' business.
 */
const policies: readonly Policy[] = [
  // Redis (never asked while open, a timer tries) and a worker (its life is the trial, up to 10 s after 30 calm ones).
  { firstMs: 100, longestMs: 2_000, calmMs: 10_000 },
  // A node for a class of reads, by ejection: last choice, a copy of an answered read tries.
  { opensAfter: { one: 5, other: 2 }, closesAfter: { one: 3 }, firstMs: 1_000, longestMs: 30_000, calmMs: 60_000 },
  // A node that failed a look: it provides no newest state.
  { firstMs: 1_000, longestMs: 30_000, calmMs: 0 },
  // A node that refuses for load: last choice, the first request after the pause tries; or held for the wait it names.
  { firstMs: 100, longestMs: 30_000, longestBetweenMs: 1_000, calmMs: 10_000 },
  // A node whose answers contradict its head: not believed, all pauses are of one length. `FleetLedger.contradict` also
  // asks that one contradiction follows the other within 10 s, and has no trials.
  { opensAfter: { one: 3 }, firstMs: 600_000, longestMs: 600_000, calmMs: 600_000 },
];

const anyPolicy = fc.constantFrom(...policies);
const manyMs = fc.nat(100_000);
const someMs = fc.integer({ min: 1, max: 100_000 });
const anyCause = fc.constantFrom('one' as const, 'other' as const);
const anyEvents = fc.array(fc.constantFrom('one' as const, 'other' as const, 'answer' as const));

function failuresOf({ opensAfter }: Policy, cause: Cause): number {
  return opensAfter?.[cause] ?? 1;
}

/** A circuit that `one` has just opened at `nowMs`. */
function opened(policy: Policy, nowMs = 0): Circuit<Cause> {
  const circuit = new Circuit(policy);
  for (let count = 1; count <= failuresOf(policy, 'one'); count += 1) circuit.fail('one', nowMs, nowMs);
  assert.equal(circuit.cause, 'one');
  return circuit;
}

/** Closes it by trials at `nowMs`. */
function close(circuit: Circuit<Cause>, nowMs: number): void {
  while (circuit.endTrial(true, nowMs) !== undefined);
}

test('failures of one cause in a row open it, counted apart from other causes, and an answer begins anew', () => {
  fc.assert(
    fc.property(anyPolicy, anyEvents, (policy, events) => {
      const circuit = new Circuit(policy);
      const rows = { one: 0, other: 0 };
      for (const [nowMs, event] of events.entries()) {
        if (event === 'answer') {
          assert.equal(circuit.succeed(nowMs, nowMs), false);
          rows.one = rows.other = 0;
          continue;
        }
        rows[event] += 1;
        const isEnough = rows[event] === failuresOf(policy, event);
        assert.equal(circuit.fail(event, nowMs, nowMs), isEnough ? policy.firstMs : undefined);
        assert.deepEqual([circuit.isOpen, circuit.cause], [isEnough, isEnough ? event : undefined]);
        if (isEnough) return;
      }
    }),
  );
});

test('pauses double with each failed trial, up to the longest', () => {
  fc.assert(
    fc.property(anyPolicy, fc.nat(12), manyMs, (policy, trials, boundMs) => {
      const circuit = opened(policy);
      let nowMs = 0;
      for (let trial = 0; trial < trials; trial += 1) {
        const pauseMs = Math.min(policy.firstMs * 2 ** trial, policy.longestMs);
        assert.deepEqual([circuit.state(nowMs + pauseMs - 1), circuit.state(nowMs + pauseMs)], ['open', 'half open']);
        assert.equal(circuit.beginTrial(nowMs + pauseMs - 1, boundMs), false);
        assert.equal(circuit.beginTrial(nowMs + pauseMs, boundMs), true);
        nowMs += pauseMs + boundMs;
        assert.equal(circuit.endTrial(false, nowMs), Math.min(policy.firstMs * 2 ** (trial + 1), policy.longestMs));
      }
    }),
  );
});

test('answered trials close it, as many in a row as the cause asks for, one right after the other', () => {
  fc.assert(
    fc.property(anyPolicy, anyCause, fc.array(fc.boolean()), (policy, cause, outcomes) => {
      const circuit = new Circuit(policy);
      for (let count = 1; count <= failuresOf(policy, cause); count += 1) circuit.fail(cause, 0, 0);
      const enough = policy.closesAfter?.[cause] ?? 1;
      let [nowMs, inARow] = [0, 0];
      for (const isAnswered of outcomes) {
        nowMs += policy.longestMs;
        assert.equal(circuit.beginTrial(nowMs, 0), true);
        const waitMs = circuit.endTrial(isAnswered, nowMs);
        inARow = isAnswered ? inARow + 1 : 0;
        assert.equal(circuit.isOpen, inARow < enough);
        if (inARow === enough) return assert.deepEqual([waitMs, circuit.cause], [undefined, undefined]);
        assert.equal(waitMs === 0, isAnswered);
        assert.equal(circuit.state(nowMs), isAnswered ? 'half open' : 'open');
      }
    }),
  );
});

test('failures of requests that were sent before the last change prove nothing', () => {
  fc.assert(
    fc.property(anyPolicy, fc.array(manyMs), (policy, sent) => {
      const circuit = opened(policy, 200_000);
      const dueMs = 200_000 + policy.firstMs;
      for (const sentAtMs of sent) assert.equal(circuit.fail('one', sentAtMs + 100_000, dueMs), undefined);
      close(circuit, dueMs);
      for (const sentAtMs of sent) assert.equal(circuit.fail('one', dueMs - 1 - sentAtMs, dueMs + 1), undefined);
      assert.equal(circuit.isOpen, false);
    }),
  );
});

test('a circuit that opens again soon goes on with longer pauses; after its calm it begins with the first', () => {
  fc.assert(
    fc.property(anyPolicy, fc.nat(1_000_000), (policy, forMs) => {
      const circuit = opened(policy);
      const closedAtMs = policy.firstMs;
      close(circuit, closedAtMs);
      let pauseMs: number | undefined;
      const nowMs = closedAtMs + forMs;
      for (let count = 1; count <= failuresOf(policy, 'other'); count += 1)
        pauseMs = circuit.fail('other', nowMs, nowMs);
      const isCalm = forMs >= policy.calmMs;
      assert.equal(pauseMs, isCalm ? policy.firstMs : Math.min(policy.firstMs * 2, policy.longestMs));
    }),
  );
});

test('at the end of the time that it is held for a trial is due, whatever the pause and its trials', () => {
  fc.assert(
    fc.property(anyPolicy, someMs, manyMs, fc.nat(12), (policy, heldMs, firstMs, trials) => {
      const circuit = opened(policy);
      circuit.hold('one', firstMs, 1_000, 0);
      circuit.hold('one', heldMs, 1_000, 0);
      for (let nowMs = 0, trial = 0; trial < trials && nowMs < heldMs; trial += 1, nowMs += 5_000) {
        const isTrial = circuit.beginTrial(nowMs, 1_000);
        if (isTrial && trial % 3 > 0) circuit.endTrial(false, nowMs);
      }
      assert.equal(circuit.state(heldMs), 'half open');
      assert.equal(circuit.beginTrial(heldMs, 1_000), true);
      assert.equal(circuit.state(heldMs + 1_000), 'open');
    }),
  );
});

test('whatever happens: between two trials of a circuit that stays open is the pause that the first one began', () => {
  const step = fc.record({ afterMs: manyMs, isAnswered: fc.constantFrom(true, false, undefined) });
  fc.assert(
    fc.property(anyPolicy, fc.array(step), fc.nat(1_000_000), (policy, steps, heldMs) => {
      const circuit = opened(policy);
      circuit.hold('one', heldMs, 0, 0);
      let [nowMs, leastMs] = [0, Math.min(policy.firstMs, heldMs === 0 ? Infinity : heldMs)];
      for (const { afterMs, isAnswered } of steps) {
        nowMs += afterMs;
        const isHeld = nowMs < heldMs;
        const isTrial = circuit.beginTrial(nowMs, 1_000);
        assert.ok(!isTrial || nowMs >= leastMs);
        if (!isTrial) continue;
        assert.equal(circuit.beginTrial(nowMs, 1_000), false);
        if (isAnswered === undefined) continue;
        const waitMs = circuit.endTrial(isAnswered, nowMs);
        if (waitMs === undefined) return assert.deepEqual([isAnswered, isHeld], [true, false]);
        assert.ok(waitMs <= policy.longestMs && (isAnswered || heldMs > 0 || waitMs >= policy.firstMs));
        leastMs = nowMs + waitMs;
      }
    }),
  );
});

/** A circuit, closed at first. `fail`: the ms at which the request was sent and failed. */
function stepsOf(policy: Policy): Steps {
  const circuit = new Circuit(policy);
  return {
    fail: (cause: Cause, sentAtMs: number, nowMs: number) => circuit.fail(cause, sentAtMs, nowMs),
    hold: (cause: Cause, untilMs: number, gapMs: number, nowMs: number) => circuit.hold(cause, untilMs, gapMs, nowMs),
    answered: (sentAtMs: number, nowMs: number) => circuit.succeed(sentAtMs, nowMs),
    begin: (nowMs: number, boundMs: number) => circuit.beginTrial(nowMs, boundMs),
    end: (isAnswered: boolean, nowMs: number) => circuit.endTrial(isAnswered, nowMs),
    state: (nowMs: number) => circuit.state(nowMs),
    isOpen: () => circuit.isOpen,
    cause: () => circuit.cause,
    calm: (nowMs: number) => circuit.isCalm(nowMs),
    heldUntil: () => circuit.heldUntilMs,
  };
}

const ofRedis = `
a new circuit is closed, calm and not held, and asks for no trial | isOpen = false, cause = undefined, state 0 = closed, begin 1000000000 0 = false, end false 0 = undefined, calm 0 = true, heldUntil = -Infinity
a trial in flight is the only one; without an outcome the next is due after its bound and the pause | fail one 0 0, begin 100 5000 = true, state 100 = open, begin 5199 0 = false, state 5200 = half open, begin 5200 5000 = true
an answer beside the trials closes it, unless it is to a request that was sent before | fail one 10 10, answered 9 20 = false, isOpen = true, answered 10 20 = true, isOpen = false, answered 20 20 = false
the failure of a request that was sent after the pause is that of a trial | fail one 0 0, fail other 99 150 = undefined, fail other 100 150 = 200, cause = one, state 349 = open, state 350 = half open
a circuit that has been closed for its calm begins with the first pause, one ms earlier with the next | fail one 0 0, end true 100, fail one 10099 10099 = 200, end true 10100 = undefined, fail one 20100 20100 = 100
it is calm when it has been without a pause for so long | fail one 0 0, calm 10099 = false, calm 10100 = true, end true 5000, calm 14999 = false, calm 15000 = true
after the time that it is held for an answer closes it | fail one 0 0, hold one 5000 0 0, answered 4999 4999 = false, isOpen = true, answered 4999 5000 = true, isOpen = false
a hold that is over already leaves pauses alone | fail one 0 0, hold one 50 5000 50, state 99 = open, state 100 = half open
`;
const ofReads = `
one answer proves too little where several trials close it | fail other 10 10, fail other 10 10 = 1000, fail one 10 10, answered 10 20 = true, 5x fail one 20 20, answered 20 30 = false, state 1019 = open, end true 1020 = 0, end true 1020 = 0, end true 1020 = undefined
`;
const ofLoad = `
while it is held, refused trials are further and further apart, and answered ones nearer, without closing it | fail one 0 0, hold one 60000 1000 0, begin 999 0 = false, begin 1000 0 = true, end false 1000 = 2000, begin 2999 0 = false, begin 3000 0 = true, end false 3000 = 4000, begin 6999 0 = false, begin 7000 0 = true, end false 7000 = 8000, end true 15000 = 4000, end true 19000 = 2000, state 20999 = open, state 21000 = half open
its gaps get shorter than the first pause, failures lengthen them from there, and no pause after it is shorter than the first | fail one 0 0, hold one 60000 1000 0, end true 22000 = 500, end true 22000 = 250, end false 22000 = 500, cause = one, 10x end true 22000, fail one 60000 60000 = 100
a hold opens it, and a longer or shorter one replaces it | hold other 60000 1000 0, cause = other, heldUntil = 60000, state 999 = open, state 1000 = half open, hold one 90000 5000 10, cause = other, heldUntil = 90000, state 1000 = half open, hold one 30000 5000 10, heldUntil = 30000, state 1000 = half open
after its end, a hold of an open circuit lengthens a pause that is shorter | hold other 30000 1000 0, hold one 60000 5000 40000, cause = other, state 44999 = open, state 45000 = half open
a hold may begin as another ends | fail one 0 0, hold one 500 100 0, hold one 60000 5000 500, state 5499 = open, state 5500 = half open
answers to requests of a pause bound it, and close nothing | fail one 0 0, fail one 100 100 = 200, fail one 300 300 = 400, fail one 700 700 = 800, fail one 1500 1500 = 1600, answered 1499 1600 = false, state 3099 = open, answered 1500 1600 = false, isOpen = true, state 2499 = open, state 2500 = half open
one that was sent in the pause leaves the trial in flight alone, and bounds the next pause | fail one 0 0, 4x end false 1000, begin 2600 1000 = true, answered 2599 2700 = false, state 5199 = open, state 5200 = half open, fail one 2599 2750 = undefined, fail one 2600 2800 = 1000
without an answer in between, the pause after it grows | fail one 0 0, 4x end false 1000, answered 1000 1000, fail one 2000 2000 = 1000, fail one 3000 3000 = 2000, answered 5000 5100 = true, fail one 5200 5200 = 1000
the answer that comes as the trial begins leaves it alone | fail one 0 0, begin 100 1000 = true, answered 50 100 = false, state 100 = open
`;
const ofRounding = `
a pause is reported as it is, whatever the clock: the difference of two times of it is rounded | fail one 1000.3009 1000.3009 = 2000
`;

for (const [table, policy] of [
  [ofRedis, policies[0]!],
  [ofReads, policies[1]!],
  [ofLoad, policies[3]!],
  [ofRounding, { firstMs: 2_000, longestMs: 30_000, calmMs: 60_000 }],
] as const) {
  for (const [claim, script] of scriptsIn(table)) test(claim, () => runScript(stepsOf(policy), script));
}
