/** The next step of a call. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { CallHistory, type NonFinalOutcome, plan } from '../../../src/upstream/dispatch/plan.ts';
import type { FleetState } from '../../../src/upstream/fleet-state.ts';
import { Upstream } from '../../../src/upstream/node/upstream.ts';
import type { Candidate } from '../../../src/upstream/select/ranking.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';

type Node = Candidate<Upstream>;

const version = LedgerVersion.of(100n);

/** A usable node with this head, or one without a report. */
function node(t: TestContext, head: bigint | undefined, traits: Partial<Node> = {}): Node {
  const url = new URL('http://127.0.0.1:9/v1');
  const upstream = new Upstream({ name: 'n', url, tier: 'full', connections: 1, connectTimeoutMs: 1 });
  t.after(() => upstream.close());
  if (head !== undefined) upstream.adopt(ledgerInfo({ version: LedgerVersion.of(head) }), 0);
  const window = upstream.window.at(0);
  return { upstream, name: 'n', tier: 'full', health: 'usable', window, cost: 1, headTolerance: 0, ...traits };
}

const failed: NonFinalOutcome = { kind: 'failed', answer: undefined, mayHaveArrived: true, sign: 'error' };
const behind: NonFinalOutcome = { kind: 'behind', answer: undefined, mayHaveArrived: true };
const ejected = { isEjected: true };

const deadlineAtMs = 1_000;
const never = new AbortController().signal;

/** The step after these nodes were asked in turn; `again`: the last one is repeated. */
function after(
  known: readonly Node[],
  outcomes: readonly (readonly [Node, NonFinalOutcome])[],
  { mayWait = true, maxAttempts = 4, hasRepeated = false, isIdempotent = true, nowMs = 0 } = {},
): string {
  const history = new CallHistory();
  history.hasRepeated = hasRepeated;
  if (!mayWait) history.waitUntilMs = -1;
  for (const [{ upstream }, outcome] of outcomes) {
    history.ask(upstream);
    history.record(outcome, upstream, 0);
  }
  const fleet = { head: ledgerInfo({ version }) } as FleetState;
  const need = { kind: 'version', version } as const;
  const limits = { maxAttempts, waitForVersionMs: 500 };
  const state = { fleet, limits, need, isIdempotent, history, nodes: () => known, deadlineAtMs, signal: never };
  const step = plan(state, known, nowMs);
  if (step.kind !== 'ask') return step.kind;
  return step.repeats === undefined ? 'ask' : 'again';
}

test('an unasked node that has reached the version is asked', (t) => {
  const [one, other] = [node(t, 90n), node(t, 100n)];
  assert.equal(after([one, other], [[one, behind]]), 'ask');
  assert.equal(after([one, other], [[one, failed]]), 'ask');
  assert.equal(after([one, node(t, undefined)], [[one, behind]]), 'ask');
});

test('lagging nodes are not asked: the call waits for the version', (t) => {
  const [nearer, laggard] = [node(t, 99n), node(t, 50n)];
  assert.equal(after([nearer, laggard], [[nearer, behind]]), 'wait');
  assert.equal(after([nearer], [[nearer, behind]]), 'wait');
});

test('the only node with the version is asked once more after a failure, then the call waits', (t) => {
  const [fresh, laggard] = [node(t, 100n), node(t, 50n)];
  const known = [fresh, laggard];
  assert.equal(after(known, [[fresh, failed]]), 'again');
  assert.equal(after(known, [[fresh, failed]], { maxAttempts: 2 }), 'wait');
  assert.equal(after(known, [[fresh, failed]], { hasRepeated: true }), 'wait');
  assert.equal(after(known, [[fresh, { ...failed, sign: 'timeout' }]]), 'wait');
  assert.equal(after(known, [[fresh, { ...failed, sign: undefined, isShed: true }]]), 'wait');
  assert.equal(
    after(known, [
      [fresh, failed],
      [laggard, { ...failed, sign: undefined }],
    ]),
    'done',
  );
});

test('a node that failed is not asked once more while a node that is passed over has the version', (t) => {
  const [fresh, laggard] = [node(t, 100n), node(t, 50n)];
  assert.equal(after([fresh, laggard, node(t, 100n, ejected)], [[fresh, failed]]), 'wait');
  assert.equal(after([fresh, laggard, node(t, 50n, ejected)], [[fresh, failed]]), 'again');
});

test('while every node fails, no node is waited for', (t) => {
  const [one, other] = [node(t, 100n), node(t, 100n)];
  assert.equal(
    after(
      [one, other],
      [
        [one, failed],
        [other, failed],
      ],
    ),
    'done',
  );
  const unproven = node(t, 50n, { health: 'unproven' });
  assert.equal(after([one, unproven], [[one, failed]]), 'ask');
});

test('the call waits for a trusted node, then asks one that is passed over, then ends', (t) => {
  const [laggard, bad] = [node(t, 50n), node(t, 100n, ejected)];
  assert.equal(after([laggard, bad], [[laggard, behind]]), 'wait');
  assert.equal(after([laggard, bad], [[laggard, behind]], { mayWait: false }), 'ask');
  assert.equal(after([laggard], [[laggard, behind]], { mayWait: false }), 'done');
});

test('no attempt follows the last one, the deadline, or a submission that may have arrived', (t) => {
  const [one, other] = [node(t, 100n), node(t, 100n)];
  const failedAtOne = [[one, failed]] as const;
  assert.equal(after([one, other], failedAtOne, { maxAttempts: 1 }), 'done');
  assert.equal(after([one, other], failedAtOne, { nowMs: deadlineAtMs }), 'done');
  assert.equal(after([one, other], failedAtOne, { isIdempotent: false }), 'done');
  assert.equal(after([one, other], [[one, { ...failed, mayHaveArrived: false }]], { isIdempotent: false }), 'ask');
});

test('a node has arrived by a report newer than its answer, and never after a failure', (t) => {
  const { upstream } = node(t, 100n);
  const history = new CallHistory();
  assert.equal(history.hasArrived(upstream, version), true);
  assert.equal(history.hasArrived(upstream, 101n), false);

  history.record(behind, upstream, 0);
  assert.equal(history.hasArrived(upstream, version), false);
  upstream.adopt(ledgerInfo({ version: LedgerVersion.of(101n) }), 1);
  assert.equal(history.hasArrived(upstream, version), true);

  history.record(failed, upstream, 0);
  assert.equal(history.hasArrived(upstream, version), false);
});

test('at an address of several nodes a 404 is a miss, and a 410 is asked again there', (t) => {
  const { upstream } = node(t, 100n);
  for (const [at, version] of [100n, 90n, 100n, 90n].entries()) {
    upstream.address.observe(ledgerInfo({ version }), at * 10, at * 10 + 5);
  }
  assert.equal(upstream.address.isShared, true);
  const head = { upstream, status: 404, headers: {}, info: undefined, coding: undefined, tookMs: 1 };
  const body = Buffer.alloc(0);
  const answer = { ...head, body, sent: body, json: new JsonBody(body), isFramed: true };
  const history = new CallHistory();

  history.ask(upstream);
  history.record({ kind: 'absent', answer, mayHaveArrived: true }, upstream, 0);
  assert.deepEqual([history.prunedAt.has(upstream), history.asked.has(upstream)], [true, true]);

  history.ask(upstream);
  history.record({ kind: 'pruned', answer, mayHaveArrived: true }, upstream, 0);
  assert.equal(history.asked.has(upstream), false);
});
