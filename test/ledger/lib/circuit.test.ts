import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Circuit, type CircuitPolicy } from '../../../src/ledger/lib/circuit.ts';
import { fc } from '../../support/fast-check.ts';

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

test('a new circuit is closed, and asks for no trial', () => {
  const circuit = new Circuit(policies[0]!);
  assert.deepEqual(
    [circuit.isOpen, circuit.cause, circuit.state(0), circuit.beginTrial(1e9, 0)],
    [false, undefined, 'closed', false],
  );
  assert.equal(circuit.endTrial(false, 0), undefined);
});

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

test('a trial in flight is the only one; without an outcome the next is due after its bound and the pause', () => {
  const circuit = opened(policies[0]!);
  assert.equal(circuit.beginTrial(100, 5_000), true);
  assert.deepEqual([circuit.state(100), circuit.beginTrial(5_199, 0)], ['open', false]);
  assert.deepEqual([circuit.state(5_200), circuit.beginTrial(5_200, 5_000)], ['half open', true]);
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

test('an answer beside the trials closes it, unless one proves too little or it was sent before', () => {
  const [usual, careful] = [opened(policies[0]!, 10), opened(policies[1]!, 10)];
  assert.deepEqual([usual.succeed(9, 20), usual.isOpen], [false, true]);
  assert.deepEqual([usual.succeed(10, 20), usual.isOpen, usual.succeed(20, 20)], [true, false, false]);
  assert.deepEqual([careful.succeed(10, 20), careful.state(1_009), careful.endTrial(true, 1_010)], [false, 'open', 0]);
  assert.deepEqual([careful.endTrial(true, 1_010), careful.endTrial(true, 1_010)], [0, undefined]);
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

test('the failure of a request that was sent after the pause is that of a trial', () => {
  const circuit = opened(policies[0]!);
  assert.deepEqual([circuit.fail('other', 99, 150), circuit.fail('other', 100, 150)], [undefined, 200]);
  assert.deepEqual([circuit.cause, circuit.state(349), circuit.state(350)], ['one', 'open', 'half open']);
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
  const circuit = opened(policies[0]!);
  close(circuit, 100);
  assert.deepEqual([circuit.fail('one', 10_099, 10_099), circuit.endTrial(true, 10_100)], [200, undefined]);
  assert.equal(circuit.fail('one', 20_100, 20_100), 100);
});

test('while it is held, answers bring trials nearer without closing it', () => {
  const circuit = opened(policies[3]!);
  circuit.hold('one', 60_000, 1_000, 0);

  const waits = [1_000, 3_000, 7_000].map((nowMs) => {
    assert.deepEqual([circuit.beginTrial(nowMs - 1, 0), circuit.beginTrial(nowMs, 0)], [false, true]);
    return circuit.endTrial(false, nowMs);
  });
  assert.deepEqual(waits, [2_000, 4_000, 8_000]);
  assert.deepEqual([circuit.endTrial(true, 15_000), circuit.endTrial(true, 19_000)], [4_000, 2_000]);
  assert.deepEqual([circuit.state(20_999), circuit.state(21_000)], ['open', 'half open']);
  // Shorter than the first pause, too, and failures lengthen it from there.
  assert.deepEqual(
    [true, true, false].map((isAnswered) => circuit.endTrial(isAnswered, 22_000)),
    [1_000, 500, 1_000],
  );
  assert.equal(circuit.cause, 'one');
  // Outside of the time that it is held for, no pause is shorter than the first.
  for (let nowMs = 22_000; nowMs < 22_010; nowMs += 1) circuit.endTrial(true, nowMs);
  assert.equal(circuit.fail('one', 60_000, 60_000), 100);
});

test('after the time that it is held for a trial closes it', () => {
  const circuit = opened(policies[0]!);
  circuit.hold('one', 5_000, 0, 0);
  assert.deepEqual([circuit.succeed(4_999, 4_999), circuit.isOpen], [false, true]);
  assert.deepEqual([circuit.succeed(4_999, 5_000), circuit.isOpen], [true, false]);
});

test('a hold opens it, and a longer or shorter one replaces it', () => {
  const circuit = new Circuit(policies[3]!);
  assert.equal(circuit.heldUntilMs, -Infinity);
  circuit.hold('other', 60_000, 1_000, 0);
  assert.deepEqual([circuit.cause, circuit.heldUntilMs], ['other', 60_000]);
  assert.deepEqual([circuit.state(999), circuit.state(1_000)], ['open', 'half open']);
  for (const untilMs of [90_000, 30_000]) {
    circuit.hold('one', untilMs, 5_000, 10);
    assert.deepEqual([circuit.cause, circuit.heldUntilMs, circuit.state(1_000)], ['other', untilMs, 'half open']);
  }
  // One that is over already leaves pauses alone.
  const free = opened(policies[0]!);
  free.hold('one', 50, 5_000, 50);
  assert.deepEqual([free.state(99), free.state(100)], ['open', 'half open']);
  // After its end, a hold of an open circuit lengthens a pause that is shorter.
  circuit.hold('one', 60_000, 5_000, 40_000);
  assert.deepEqual([circuit.cause, circuit.state(44_999), circuit.state(45_000)], ['other', 'open', 'half open']);
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

test('a resource that limits a rate: answers close nothing within a pause, and bound it and the next one', () => {
  const limited = opened(policies[3]!);
  for (let nowMs = 100, pauseMs = 100; pauseMs < 6_400; nowMs += pauseMs) {
    pauseMs = limited.fail('one', nowMs, nowMs) ?? NaN;
  }
  // The pause of 6.4 s began at 6,300 ms.
  assert.deepEqual([limited.succeed(6_299, 6_400), limited.state(12_699)], [false, 'open']);
  assert.deepEqual([limited.succeed(6_300, 6_400), limited.isOpen], [false, true]);
  assert.deepEqual([limited.state(7_299), limited.state(7_300)], ['open', 'half open']);
  assert.equal(limited.beginTrial(7_300, 1_000), true);
  // One that was sent in the pause leaves the trial in flight alone.
  assert.deepEqual(
    [limited.succeed(7_299, 7_400), limited.state(9_299), limited.state(9_300)],
    [false, 'open', 'half open'],
  );
  assert.deepEqual([limited.fail('one', 7_299, 7_450), limited.fail('one', 7_300, 7_500)], [undefined, 1_000]);
  // Without an answer in between, the pause after it grows.
  assert.equal(limited.fail('one', 8_500, 8_500), 2_000);
  assert.deepEqual([limited.succeed(10_500, 10_600), limited.isOpen], [true, false]);
  assert.equal(limited.fail('one', 10_700, 10_700), 1_000);
});

test('the answer that comes as the trial begins leaves it alone, and a hold may begin as another ends', () => {
  const limited = opened(policies[3]!);
  assert.equal(limited.beginTrial(100, 1_000), true);
  assert.deepEqual([limited.succeed(50, 100), limited.state(100)], [false, 'open']);
  const held = opened(policies[3]!);
  held.hold('one', 500, 100, 0);
  held.hold('one', 60_000, 5_000, 500);
  assert.deepEqual([held.state(5_499), held.state(5_500)], ['open', 'half open']);
});

test('it is calm when it has been without a pause for so long', () => {
  const circuit = new Circuit(policies[0]!);
  assert.equal(circuit.isCalm(0), true);
  circuit.fail('one', 0, 0);
  assert.deepEqual([circuit.isCalm(10_099), circuit.isCalm(10_100)], [false, true]);
  circuit.endTrial(true, 5_000);
  assert.deepEqual([circuit.isCalm(14_999), circuit.isCalm(15_000)], [false, true]);
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

test('a pause is reported as it is, whatever the clock: the difference of two times of it is rounded', () => {
  const circuit = new Circuit<Cause>({ firstMs: 2_000, longestMs: 30_000, calmMs: 60_000 });
  assert.equal(circuit.fail('one', 1_000.3009, 1_000.3009), 2_000);
});
