/** The plan of a call, and its answer when no node has more to add: tables over made-up fleets and attempts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import type { NodeAnswer } from '../../../src/upstream/dispatch/exchange.ts';
import { UnreachedError } from '../../../src/upstream/dispatch/fleet-request.ts';
import {
  CallHistory,
  type CallState,
  chooseFinalAnswer,
  type NonFinalOutcome,
  plan,
  reasonOf,
} from '../../../src/upstream/dispatch/plan.ts';
import type { FleetState } from '../../../src/upstream/fleet-state.ts';
import type { Upstream } from '../../../src/upstream/node/upstream.ts';
import { type Candidate, isAskable, type Need } from '../../../src/upstream/select/ranking.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';
import { rowsIn } from '../../support/tables.ts';

type Node = Candidate<Upstream> & { readonly report: (range: string) => void };

const version = LedgerVersion.of(100n);
const list = (text: string): readonly string[] => (text === '' ? [] : text.split(', '));

/** A node by name, range (`head/oldest`, `?` without a report) and traits: `b 100/50 archival down`. */
function nodeIn(text: string): Node {
  const [name = '', range = '?', ...traits] = text.split(' ');
  const has = (trait: string): boolean => traits.includes(trait);
  const health = (['unproven', 'down', 'foreign'] as const).find(has) ?? 'usable';
  const tier = has('archival') ? 'archival' : 'full';
  const [isDrained, isSuspect] = [has('drained'), has('suspect')];
  const heldForMs = Number(traits.find((trait) => trait.startsWith('held'))?.slice(4) ?? 0);
  let window: Candidate['window'];
  const report = (range: string): void => {
    const [head = 0n, oldest = 0n] = range.split('/').map(BigInt);
    window = { head: LedgerVersion.of(head), oldest: LedgerVersion.of(oldest), safeOldest: oldest };
  };
  if (range !== '?') report(range);
  const upstream: Upstream = {
    get alone() {
      return new Set([upstream]);
    },
    name,
    tier,
    health,
    isDrained,
    isSuspect,
    isTrusted: health === 'usable' && !isSuspect && !isDrained,
    fault: has('time-out') ? 'time-out' : has('refused') ? 'connection refused' : undefined,
    address: { isShared: has('shared') },
    withheldForMs: () => heldForMs,
    latencyMs: () => 1,
    window: { around: () => window },
    get head() {
      return window?.head ?? -1n;
    },
  } as unknown as Upstream;
  const trust = { isSuspect, isEjected: has('ejected'), isDeferred: has('deferred'), isWithheld: heldForMs > 0 };
  return {
    upstream,
    name,
    tier,
    health,
    isDrained,
    ...trust,
    cost: 1,
    headTolerance: 0,
    report,
    get window() {
      return window;
    },
  };
}

function needIn(text: string): Need {
  const [kind = '', argument] = text.split(' ');
  const number = argument === undefined || kind === 'hash' ? undefined : LedgerVersion.of(BigInt(argument));
  if (kind === 'block') return { kind: 'block', height: number ?? 0n };
  if (kind === 'hash') return { kind: 'transaction', submittedTo: argument };
  if (kind === 'head') return { kind: 'head', min: number };
  if (kind === 'min') return { kind: 'head', min: number, isChosen: true };
  if (kind === 'chosen') return { kind: 'version', version: number ?? version, isChosen: true };
  return { kind: 'version', version: LedgerVersion.of(BigInt(kind)) };
}

const error = { kind: 'failed', mayHaveArrived: true, sign: 'error' } as const;

/** Outcomes by name; with a status, the node's answer goes along. */
const outcomes: Readonly<Record<string, Partial<NonFinalOutcome> & { readonly status?: number }>> = {
  error,
  unsent: { ...error, mayHaveArrived: false },
  timeout: { ...error, sign: 'timeout' },
  shed: { kind: 'failed', isShed: true },
  unrouted: { kind: 'refused', isUnrouted: true },
  internal: { ...error, status: 500 },
  garbled: { ...error, status: 502 },
  behind: { kind: 'behind', status: 404 },
  pruned: { kind: 'pruned', status: 410 },
  unread: { kind: 'pruned' },
  absent: { kind: 'absent', status: 404 },
  blank: { kind: 'absent', status: 404 },
  refused: { kind: 'refused', status: 403 },
};

function outcomeOf(name: string, upstream: Upstream): NonFinalOutcome {
  const { status, ...rest } = outcomes[name] ?? {};
  const body = Buffer.from(
    ['garbled', 'blank'].includes(name) ? '<html>' : '{"message":"m","error_code":"c","vm_error_code":null}',
  );
  const head = { upstream, headers: {}, info: undefined, coding: undefined, tookMs: 1, isFramed: true };
  const answer = status === undefined ? undefined : { ...head, status, body, sent: body, json: new JsonBody(body) };
  return { kind: 'failed', mayHaveArrived: true, ...rest, answer };
}

/** Causes of an abort. */
const causes: Readonly<Record<string, Error>> = {
  client: new Error('the client has left'),
  fault: new GatewayError('internal', 'a fault without a reason'),
  late: new GatewayError('unavailable', 'late', { reason: 'time-out' }),
};

/** A call: its need, its nodes, its history in turn (`a error`, `b = 100`, `again a`, `wait in vain`), circumstances. */
function callIn(need: string, nodes: string, events = '', circumstances = '') {
  const known = list(nodes).map(nodeIn);
  const named = (name = ''): Node => known.find((node) => node.name === name) ?? assert.fail(`no node ${name}`);
  const given = new Map(
    list(circumstances)
      .map((each) => each.split(' ', 2))
      .map(([name = '', value = '']) => [name, value]),
  );
  const history = new CallHistory();
  const happen: Readonly<Record<string, (argument: string) => void>> = {
    again: (name) => history.repeatAtOnce(named(name).upstream),
    wait: (end) => history.endWait(version, end === 'reached', known),
    until: (ms) => (history.waitUntilMs = Number(ms)),
    lost: () => (history.isLost = true),
    queue: (client) => (history.queueFullFor = client),
    forget: (name) => history.forgetMiss(named(name).upstream),
  };
  for (const event of list(events)) {
    const [first = '', second = '', range = ''] = event.split(' ');
    if (happen[first] !== undefined) happen[first](second);
    else if (second === '=') named(first).report(range);
    else {
      const { upstream } = named(first);
      history.ask(upstream);
      history.record(outcomeOf(second, upstream), upstream, 7);
    }
  }
  const head = given.get('head') ?? '100';
  const stop = new AbortController();
  if (given.has('aborted')) stop.abort(causes[given.get('aborted') ?? '']);
  const call: CallState = {
    fleet: {
      head: head === 'none' ? undefined : ledgerInfo({ version: BigInt(head) }),
      upstreams: known.map(({ upstream }) => upstream),
      isLagging: () => false,
    } as unknown as FleetState,
    limits: { maxAttempts: Number(given.get('max') ?? 4), waitForVersionMs: 500 },
    need: needIn(need),
    isIdempotent: !given.has('submission'),
    history,
    nodes: () => known.filter(isAskable),
    deadlineAtMs: 1_000,
    signal: stop.signal,
  };
  return { call, history, known, nowMs: Number(given.get('now') ?? 0) };
}

/** The step in words; `lost`: the gateway chooses another version. */
function stepOf(...given: Parameters<typeof callIn>): string {
  const { call, nowMs } = callIn(...given);
  const step = plan(call, call.nodes(), nowMs);
  const lost = step.isLost ? ' lost' : '';
  if (step.kind === 'done') return `done${lost}`;
  if (step.kind === 'wait') return `wait for ${step.version} until ${step.untilMs}${lost}`;
  const { kind, choice, repeats, isRetry } = step;
  assert.equal(kind, 'ask');
  if (repeats !== undefined) assert.deepEqual([repeats, isRetry], [choice.node.upstream, true]);
  const how = isRetry ? ' (retry)' : '';
  return `${repeats === undefined ? `${choice.node.name}${how}` : `again ${repeats.name}`}${lost}`;
}

/** Claim, need, nodes, history, circumstances and step. The ledger is at version 100 and block 10. */
const steps = `
the first choice is no retry | 100 | a 100, b 50 | | | a
the first attempt goes to the shallowest holder, even as the only one | 100 | a 100/0, b 100/50 | | max 1 | b
the last attempt goes to the deepest holder | 100 | a 100/60, b 100/50, c 100/0 | a error | max 2 | c (retry)
the one before it does not | 100 | a 100/60, b 100/50, c 100/0 | a error | max 3 | b (retry)
a node that lacks the version leaves it to one that has it | 100 | a 90, b 100 | a behind | | b
a node that may have it is asked | 100 | a 90, b ? | a behind | | b
a node that failed leaves the request to another | 100 | a 100, b 100 | a error | | b (retry)
no node is asked twice after a refusal, and a lagging one is asked | 100 | a 100, b 50 | a refused | | b
nodes that lag are waited for | 100 | a 99, b 50 | a behind | | wait for 100 until 500
so is the node that was asked itself | 100 | a 99 | a behind | | wait for 100 until 500
waits end with the call | 100 | a 99 | a behind | now 700 | wait for 100 until 1000
all waits together have one end | 100 | a 99 | a behind, until 300 | now 299 | wait for 100 until 300
after it the call ends | 100 | a 99 | a behind, until 300 | now 300 | done
the state of a token is waited for as well | head 100 | a 99 | a behind | | wait for 100 until 500
a chosen version is not waited for | chosen 100 | a 99 | a behind | | done lost
nor a chosen state | min 100 | a 99 | a behind | | done lost
a chosen version is asked for at another node | chosen 100 | a 99, b 100 | a behind | | b
a chosen version is asked for at a node that is passed over | chosen 100 | a 50, b 100 ejected | a behind | | b
its only holder is repeated, and is lost meanwhile | chosen 100 | a 100, b 50 | a error | | again a lost
and what the repeat finds is kept | chosen 100 | a 100, b 50 | a error, again a, lost | | a (retry) lost
a version that the client chose is never lost | 100 | a 99, b 50 | a behind, until 0 | | done
nothing is lost before the first attempt | chosen 100 | a 100 | | | a
the only holder is repeated once after an error | 100 | a 100, b 50 | a error | | again a
also as the last but one attempt | 100 | a 100, b 50 | a error | max 3 | again a
not as the last one: others are waited for | 100 | a 100, b 50 | a error | max 2 | wait for 100 until 500
not twice | 100 | a 100, b 50 | a error, again a, a error | | wait for 100 until 500
not after a time-out | 100 | a 100, b 50 | a timeout | | wait for 100 until 500
not when it sheds | 100 | a 100, b 50 | a shed | | wait for 100 until 500
not a node that lacks the version itself | 100 | a 99, b 50 | a error | | wait for 100 until 500
not while a node that is passed over has the version | 100 | a 100, b 50, c 100 ejected | a error | | wait for 100 until 500
but when that one lacks it too | 100 | a 100, b 50, c 50 ejected | a error | | again a
a repeat and a wait have an attempt of their own each | 100 | a 100, b 50 | a error, again a, a error, b = 100 | max 2 | b (retry)
and no second one | 100 | a 100, b 50, c 100 | a error, again a, a error, b = 100, b behind | max 2 | done
the node waited for is asked past the last attempt | 100 | a 99 | a behind, a = 100, wait reached | max 1 | a
once | 100 | a 99, b 100 | a behind, a = 100, wait reached, a behind | max 1 | done
a retry after a repeat stays a retry | 100 | a 100, b 50 | a error, again a, a behind, b = 100 | | b (retry)
a request that was shed is no retry elsewhere | 100 | a 100, b 100 | a shed | | b
unless that node sheds requests too | 100 | a 100, b 100 deferred | a shed | | b (retry)
a deferred node after an answer is no retry | 100 | a 90, b 100 deferred | a behind, until 0 | | b
while every node fails, none is waited for | 100 | a 100, b 100 | a error, b error | | done
a node not known to answer is not waited for | 100 | a 100, b 50 unproven | a error | | b (retry)
a node that is down is asked when no other can be waited for | 100 | a 100, b 100 down | a error | | b (retry)
a node that is passed over is asked after the wait | 100 | a 50, b 100 ejected | a behind | | wait for 100 until 500
the wait is over | 100 | a 50, b 100 ejected | a behind, until 0 | | b
a wait is for trusted nodes alone | 100 | a 50 ejected, b 60 ejected | a behind | | b
no wait for a version far beyond every head | 1000101 | a 99, b 50 | a behind | | done
a million versions are near enough | 1000100 | a 99, b 50 | a behind | | wait for 1000100 until 500
a failure says nothing about a far version | 1000101 | a 99, b 50 | a error | | b (retry)
before any report, each node is asked | 100 | a 99, b 50 | a behind | head none | b
the newest state is no node's alone | head | a 100, b 50 | a error | | b (retry)
no wait for a block | block 20 | a 10, b 10 | a behind | | done
a block goes to a node that has reported it | block 20 | a 10, b 20 | a behind | | b
and to none without a report | block 20 | a 10, b ? | a behind | | done
a failure says nothing about a block | block 20 | a 10, b 10 | a error | | b (retry)
no node has it: asked ones are no hope | block 20 | a 20 | a behind | | done
no attempt after the last one | 100 | a 100, b 100 | a error | max 1 | done
no attempt after the deadline | 100 | a 100, b 100 | a error | now 1000 | done
the last moment counts | 100 | a 100, b 100 | a error | now 999 | b (retry)
no attempt for a client that has left | 100 | a 100 | | aborted client | done
a submission that may have arrived is not sent again | head | a 100, b 100 | a error | submission | done
one that never left is | head | a 100, b 100 | a unsent | submission | b (retry)
after a 410 the deepest that may hold it | 30 | a 100/50, b 100/40, c 100/0 | a pruned | | c
a holder that failed is repeated after the others' 410 | block 3 | a 10/0, b 10/5 | a error, b pruned | | again a
whichever came first | block 3 | a 10/0, b 10/5 | b pruned, a error | | again a
past the last attempt as well | block 3 | a 10/0, b 10/5 | b pruned, a error | max 2 | again a
not twice after a 410 | block 3 | a 10/0, b 10/5 | a error, again a, a error, b pruned | | done
not after its time-out | block 3 | a 10/0, b 10/5 | a timeout, b pruned | | done
not while it is down | block 3 | a 10/0 down, b 10/5 | a error, b pruned | | done
not once it has refused as well | block 3 | a 10/0, b 10/5, c 10/0 drained | a error, b pruned, a pruned | | done
nor when it has pruned the block | block 3 | a 10/4, b 10/5, c 10/0 drained | a error, b pruned | | done
another that may hold it is repeated instead | block 3 | c 10/4, a 10/0, b 10/5 | c error, a error, b pruned | | again a
nor without a 410 of another | block 3 | a 10/0, b 10/0 | a error, b error | | done
the one that failed, not the first | block 3 | b 10/5, c 10/0, a 10/0 | c timeout, a error, b pruned | | again a
the node of a submission as well | hash a | a 100/50, b 100/0 | a error, b absent | | again a
`;

for (const [claim = '', need = '', nodes = '', events, circumstances, expected] of rowsIn(steps)) {
  test(`step: ${claim}`, () => assert.equal(stepOf(need, nodes, events, circumstances), expected));
}

/** The node's answer that the client gets, or the gateway's own: reason, further facts and message. */
function finalOf(...given: Parameters<typeof callIn>): string {
  const { call } = callIn(...given);
  let answer: NodeAnswer;
  try {
    answer = chooseFinalAnswer(call);
  } catch (error) {
    assert.ok(error instanceof GatewayError);
    assert.equal(error.status, 503);
    const { reason, headers, client, call: attempted } = error;
    if (call.signal.aborted) assert.equal(error.cause, call.signal.reason);
    const holders =
      error instanceof UnreachedError ? [`held by ${error.failed.map(({ name }) => name).join(' ') || 'none'}`] : [];
    const asked = attempted === undefined ? [] : [`${attempted.attempts} to ${attempted.upstream}`];
    const others = [
      ...asked,
      ...(client === undefined ? [] : [client]),
      ...(headers.length > 0 ? [headers.join(' ')] : []),
    ];
    return [reason, ...others, ...holders, error.message].join(' - ');
  }
  return `${answer.upstream.name} ${answer.status}`;
}

/** The messages of docs/errors.md, by their short forms in the table: `none` and `away` with their subject and counts. */
function messageIn(text: string): string {
  return text
    .replace(/none\((.*); (.*)\)/, 'no node answered $1 ($2); try again')
    .replace(/away\((.*); (.*)\)/, 'the nodes that may hold $1 cannot be reached or are drained ($2); try again')
    .replace('unreached', 'no node that can be reached holds ledger version 100 yet; try again');
}

/** Claim, need, nodes, history, circumstances, and the answer. */
const ends = `
a 410 is the answer when all have pruned it | 30 | a 100/50, b 100/40 | a pruned, b pruned | | b 410
a 404 as well | hash a | a 100/50, b 100/0 | a absent, b absent | | b 404
a refusal without an error code as well | hash a | a 100 | a blank | | a 404
a version above the ledger is not there yet | 101 | a 100 | a behind | | a 404
one that the ledger has reached is there | 100 | a 99 | a behind | | not reached - 1 to a - held by none - unreached
a block above the ledger is not there yet | block 11 | a 10 | a behind | | a 404
one that it has reached is there | block 10 | a 9 | a behind | | nodes failed - 1 to a - none(block 10; 1 asked)
before any report, a node is believed | 100 | a 99 | a behind | head none | a 404
the newest state is always there | head | a 99 | a behind | | nodes failed - 1 to a - none(this request; 1 asked)
also before any report | head | a 99 | a behind | head none | nodes failed - 1 to a - none(this request; 1 asked)
a transaction is where the ledger is | hash | a 99 | a behind | | nodes failed - 1 to a - none(this request; 1 asked)
a node's own error passes | 100 | a 100 | a internal | | a 500
unless it has no error code | 100 | a 100 | a garbled | | nodes failed - 1 to a - none(ledger version 100; 1 asked)
an answer about the ledger outranks an error | 30 | a 100/50, b 100/40 | a pruned, b internal | | a 410
whichever came first | 101 | a 100, b 100 | a internal, b behind | | b 404
of two errors the first | 100 | a 100, b 100 | a internal, b internal | | a 500
of two refusals the later | 100 | a 100, b 100 | a refused, b refused | | b 403
a silent failure leaves the answer before it | 100 | a 100, b 100 | a refused, b error | | a 403
the deadline ends the call | 100 | a 100 | a internal | aborted late | time-out - 1 to a - the request was abandoned
a client hangs up | 100 | a 100 | | aborted client | hung up - the request was abandoned
a fault without a reason | 100 | a 100 | | aborted fault | hung up - the request was abandoned
no place was free | 100 | a 100 | queue tenant | | nodes full - tenant - the nodes are at capacity; try again
also for a retry | 100 | a 100, b 100 | a error, queue tenant | | nodes full - 1 to a - tenant - the nodes are at capacity; try again
an answer needs no place | 100 | a 100, b 100 | a internal, queue tenant | | a 500
none was asked | 100 | a 100 | | | no node - none(ledger version 100; 0 asked)
the only holder is not repeated after all | chosen 100 | a 100, b 99 | a error, again a | | not reached - 1 to a - held by a - unreached
nor the one of a block | block 5 | a 10 | a error, again a | | nodes failed - 1 to a - none(block 5; 1 asked)
nor is a node after the wait for it | 100 | a 98, b 99 | b error, a error, wait vain | | nodes failed - 2 to a - none(ledger version 100; 2 asked)
the node that is repeated counts once, and is the last | block 5 | a 10, b 10 | a error, b error, again a, a error | | nodes failed - 3 to a - none(block 5; 2 asked)
all failed | 100 | a 100, b 100 | a error, b error | | nodes failed - 2 to b - none(ledger version 100; 2 asked)
a block | block 5 | a 10 | a error | | nodes failed - 1 to a - none(block 5; 1 asked)
older software | head | a 100, b 100 | a unrouted, b unrouted | | nodes failed - 2 to b - none(this request; 2 asked, 2 without this route)
the faults of nodes are counted, and drained ones apart | 100 | a 100 down time-out, b 100 down time-out, c ? down refused, d ? down refused drained, e 100 | a error | | nodes failed - 1 to a - none(ledger version 100; 1 asked, 2 down: time-out, 1 down: connection refused, 1 drained)
all nodes are of another chain | 100 | a 100 foreign, b 100 foreign | | | other chain - all nodes report another chain
not each of them | 100 | a 100 foreign, b 100 | b error | | nodes failed - 1 to b - none(ledger version 100; 1 asked)
the ledger is behind the token | head 150 | a 100 | a error | | not reached - 1 to a - the ledger is at version 100 here, and version 150 was asked for; try again
it is not known yet | head 150 | a ? | a error | head none | not reached - 1 to a - the ledger is at version 0 here, and version 150 was asked for; try again
it has just reached the token | head 100 | a 100 | a error | | nodes failed - 1 to a - none(this request; 1 asked)
a pause is given in whole seconds | 100 | a 100 held1001 | | | nodes paused - Retry-After 2 - none(ledger version 100; 0 asked)
the shortest pause counts | 100 | a 100 held9000, b 100 held3000, c 100 held5000 | | | nodes paused - Retry-After 3 - none(ledger version 100; 0 asked)
a node without a pause may answer next | 100 | a 100 held9000, b 100 | b error | | nodes failed - 1 to b - none(ledger version 100; 1 asked)
unless it is down | 100 | a 100 held9000, b 100 down | | | nodes paused - Retry-After 9 - none(ledger version 100; 0 asked)
or has pruned the version | 30 | a 100 held9000, b 100/50 | | | nodes paused - Retry-After 9 - none(ledger version 30; 0 asked)
or has refused it as pruned | 30 | a 100 held9000, b 100 | b pruned | | nodes paused - 1 to b - Retry-After 9 - away(ledger version 30; 1 asked)
for the newest state each node counts | head | a 100/50 held9000 | | | nodes paused - Retry-After 9 - none(this request; 0 asked)
its holder failed, and the others are behind | 100 | a 100, b 99, c 100 | a error | | not reached - 1 to a - held by a - unreached
holders are those at the version | 100 | a 100, b 99 | a error, b unrouted | | not reached - 2 to b - held by a - unreached
a node behind that failed as well is no other | 100 | a 100, b 99 | a error, b error | | nodes failed - 2 to b - none(ledger version 100; 2 asked)
nor is one whose head is not believed | 100 | a 100, b 99 suspect | a error | | nodes failed - 1 to a - none(ledger version 100; 1 asked)
nor one at the version | 100 | a 100, b 100 | a error | | nodes failed - 1 to a - none(ledger version 100; 1 asked)
the ledger has not reached the version | 101 | a 100, b 99 | a error | | nodes failed - 1 to a - none(ledger version 101; 1 asked)
the ledger is not known | 100 | a 100, b 99 | a error | head none | nodes failed - 1 to a - none(ledger version 100; 1 asked)
a holder that pauses comes back | 100 | a 100 held9000, b 99 held9000 | a error | | nodes paused - 1 to a - Retry-After 9 - none(ledger version 100; 1 asked)
a chosen version is lost all the same | chosen 100 | a 100 held9000, b 99 held9000 | a error | | not reached - 1 to a - held by a - unreached
and with an answer | chosen 100 | a 100, b 100 | a internal, lost | | not reached - 1 to a - held by a - unreached
a version that is not lost has its answer | chosen 100 | a 100, b 100 | a internal | | a 500
no version, no loss | head | a 100 | a error, lost | | nodes failed - 1 to a - none(this request; 1 asked)
the deepest is away | 30 | a 100/50, b 100/0 archival down time-out | a pruned | | holders away - 1 to a - away(ledger version 30; 1 asked, 1 down: time-out)
it is drained | 30 | a 100/50, b 100/0 archival drained | a pruned | | holders away - 1 to a - away(ledger version 30; 1 asked, 1 drained)
a drained node of another chain holds nothing | 30 | a 100/50, b 100/0 drained foreign | a pruned | | a 410
an archival node of another chain may | 30 | a 100/50, b 100/50 archival foreign | a pruned | | holders away - 1 to a - away(ledger version 30; 1 asked)
a full one does not | 30 | a 100/50, b 100/0 foreign | a pruned | | a 410
a node without a report may hold it | 30 | a 100/50, b ? down | a pruned | | holders away - 1 to a - away(ledger version 30; 1 asked)
its own refusal counts | 30 | a 100/50, b 100/0 archival | a pruned, b pruned | | b 410
unless several nodes answer there | 30 | a 100/50, b 100/0 shared | a pruned, b pruned | | holders away - 1 to b - away(ledger version 30; 1 asked)
a repeat that finds another node there leaves the failed attempt | 30 | a 100/50, b 100/0 shared | b error, again b, b pruned | | nodes failed - 1 to b - none(ledger version 30; 1 asked)
a refusal without a body leaves none to pass on | 30 | a 100/50 | a unread | | nodes failed - 1 to a - none(ledger version 30; 1 asked)
the node of a submission is away | hash b | a 100/0, b 100/50 down | a absent | | holders away - 1 to a - away(this request; 1 asked)
the deepest is away from a transaction | hash a | a 100/50, b 100/0 down | a absent | | holders away - 1 to a - away(this request; 1 asked)
a shallower one does not matter | hash a | a 100/0, b 100/50 down | a absent | | a 404
a node that has left the chain holds no transaction | hash a | a 100 foreign, b 100/0 foreign | a absent | | a 404
nor a submission to a removed node | hash gone | a 100/0 | a absent | | a 404
a list of old entries is pruned | head | a 100/50, b 100/60 | a pruned | | a 410
not while a deeper node is away | head | a 100/50, b 100/0 down | a pruned | | holders away - 1 to a - away(this request; 1 asked)
`;

for (const [claim = '', need = '', nodes = '', events, circumstances, expected = ''] of rowsIn(ends)) {
  test(`end: ${claim}`, () => assert.equal(finalOf(need, nodes, events, circumstances), messageIn(expected)));
}

/** Nodes, history, and what it is after a wait: nodes that are not asked again. The version is 100. */
const waits = `
a node that arrives may be asked again | a 99, b 99 | a behind, b behind, a = 100, wait reached | b
not one that has failed | a 100, b 99 | a error, b behind, b = 100, wait reached | a
not one that had the version before its answer | a 100, b 99 | a behind, b behind, b = 100, wait reached | a
nor one without a newer report | a 99 | a behind, wait reached | a
a node whose answer says nothing of heads may be | a 100 | a refused, wait reached |
after a wait in vain the nearest is asked again | a 98, b 99, c 97 | a behind, b behind, c behind, wait vain | a, c
the nearest of those that are usable and believed | a 97, b 99 down, c 98 suspect | a behind, b behind, c behind, wait vain | b, c
of equals the first | a 98, b 98 | a behind, b behind, wait vain | b
without one, the nodes that were asked early | a 99 down, b 99 down | a behind, b behind, b = 100, wait vain | a
`;

for (const [claim = '', nodes = '', events, expected] of rowsIn(waits)) {
  test(`wait: ${claim}`, () => {
    const { history } = callIn('100', nodes, events);
    assert.equal([...history.asked].map(({ name }) => name).join(', '), expected);
    // No other wait follows one in vain.
    assert.equal(history.waitUntilMs, events?.endsWith('vain') === true ? -Infinity : undefined);
    assert.equal(history.isRepeating, true);
  });
}

/** History, and the reason of the next attempt. */
const reasons = `
 | first choice
a error | retry
a pruned | pruned elsewhere
a behind | behind elsewhere
a absent | absent elsewhere
a refused | refused elsewhere
a behind, wait reached | again after waiting
a error, again a | retry
a behind, wait reached, b behind | behind elsewhere
`;

for (const [events = '', expected] of reasons
  .slice(1, -1)
  .split('\n')
  .map((line) => line.trim().split(/ ?\| /))) {
  test(`reason: ${expected} after ${events}`, () =>
    assert.equal(reasonOf(callIn('100', 'a 99, b 99', events).history), expected));
}

function arrived(events: string, of = version): readonly boolean[] {
  const { history, known } = callIn('100', 'a 100, b ?', events);
  return known.map(({ upstream }) => history.hasArrived(upstream, of));
}

test('a node has arrived by a report newer than its answer, and never after a failure', () => {
  assert.deepEqual(arrived(''), [true, false]);
  assert.deepEqual(arrived('', LedgerVersion.of(101n)), [false, false]);
  assert.deepEqual(arrived('a behind'), [false, false]);
  assert.deepEqual(arrived('a behind, a = 101'), [true, false]);
  assert.deepEqual(arrived('a error, a = 101'), [false, false]);
});

test('an attempt ends the permission for one more than the last', () => {
  const events = ['', 'a error, again a', 'a error, again a, a error'];
  const mayRepeat = events.map((each) => callIn('100', 'a 100', each).history.isRepeating);
  assert.deepEqual(mayRepeat, [false, true, false]);
});

test('failures are recorded with their signs, for the comparison with other nodes', () => {
  const { history, known } = callIn('100', 'a 100, b 100, c 100', 'a timeout, b behind, c shed');
  const [one, , last] = known.map(({ upstream }) => upstream);
  assert.deepEqual(history.failures, [{ upstream: one, sign: 'timeout', symptom: undefined, sentAtMs: 7 }]);
  assert.deepEqual([...history.failed], [one, last]);
  assert.equal(history.lastAsked, last);
});

function missesAfter(...events: readonly string[]) {
  const { asked, prunedAt, attempts, anyPruned, isMissedByShared } = callIn(
    '100',
    'a 100 shared',
    events.join(', '),
  ).history;
  return [asked.size, prunedAt.size, attempts, anyPruned, isMissedByShared];
}

test('at an address of several nodes a 404 is a miss, and a 410 is asked again there, sixteen times', () => {
  assert.deepEqual(missesAfter('a absent'), [1, 1, 1, false, false]);
  assert.deepEqual(missesAfter(...Array<string>(1).fill('a pruned')), [0, 0, 0, true, true]);
  assert.deepEqual(missesAfter(...Array<string>(16).fill('a pruned')), [0, 0, 0, true, true]);
  assert.deepEqual(missesAfter(...Array<string>(17).fill('a pruned')), [1, 1, 1, true, true]);
  // Several nodes are found there only afterwards.
  const { history, known } = callIn('100', 'a 100', 'a pruned, forget a');
  assert.deepEqual([history.prunedAt.size, history.asked.size, history.attempts], [0, 0, 0]);
  assert.deepEqual(
    [history.isRepeating, history.isMissedByShared, history.lastAsked],
    [true, true, known[0]?.upstream],
  );
});
