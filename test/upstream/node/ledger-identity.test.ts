/** Which chain a node and the fleet stand for, and the name that the ledger has in Redis. */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { LedgerIdentity, NodeChain } from '../../../src/upstream/node/ledger-identity.ts';
import type { CancelSignal } from '../../../src/ledger/stop.ts';
import { ledgerHeaders, ledgerInfo } from '../../support/ledger-info.ts';
import { runScript, scriptsIn, type Steps } from '../../support/script.ts';
import { senderOf } from '../../support/sender.ts';

/** `4`: an answer of chain 4; `look 5`: a look that was sent after all that came before it; `late 5`: before it. */
type Word = `${'' | 'look ' | 'late '}${4 | 5 | 6}`;

/** Its chain, the chain in doubt, and whether the last word counted. */
type Known = readonly [number | undefined, number | undefined, boolean | undefined];

/** A node of chain 4 in a fleet of chain 4, after `words`. */
function after(words: readonly Word[]): Known {
  const chain = new NodeChain();
  chain.settle(4);
  let nowMs = 0;
  let counted: boolean | undefined;
  for (const word of words) {
    const [chainId = '', kind] = word.split(' ').reverse();
    nowMs += 10;
    const lookSentAtMs = kind === undefined ? undefined : kind === 'late' ? 0 : nowMs - 1;
    counted = chain.observe(Number(chainId), 4, nowMs, lookSentAtMs);
  }
  return [chain.id, chain.doubted, counted];
}

const cases: readonly (readonly [string, readonly Word[], Known])[] = [
  ['its own chain', ['4', 'look 4'], [4, undefined, true]],
  ['one answer of another chain is a doubt', ['5'], [4, 5, false]],
  ['so are many', ['5', '5', '5', '5'], [4, 5, false]],
  ['one look is a doubt', ['look 5'], [4, 5, false]],
  ['a look that was sent before the doubt settles nothing', ['5', 'late 5'], [4, 5, false]],
  ['a look after an answer settles the other chain', ['5', 'look 5'], [5, undefined, true]],
  ['two looks settle it', ['look 5', 'look 5'], [5, undefined, true]],
  ['a look at a third chain is a new doubt', ['5', 'look 6'], [4, 6, false]],
  ['answers of its own chain in a doubt count and leave the doubt', ['5', '4'], [4, 5, true]],
  ['and renew it: a look that was in flight settles nothing', ['5', '4', 'late 5'], [4, 5, false]],
  ['a look at its own chain ends the doubt', ['5', 'late 4'], [4, undefined, true]],
  ['after that the other chain needs two words again', ['5', 'look 4', 'look 5'], [4, 5, false]],
  ['back again', ['5', 'look 5', '4', 'look 4'], [4, undefined, true]],
];

for (const [claim, words, expected] of cases) {
  test(`the chain of a node: ${claim}`, () => {
    assert.deepEqual(after(words), expected);
  });
}

test('the first word of a node is believed when it is the fleet’s chain, and a doubt when it is not', () => {
  const chain = new NodeChain();
  assert.equal(chain.observe(7, undefined, 0), true);
  assert.equal(chain.id, 7);
  const other = new NodeChain();
  assert.equal(other.observe(5, 4, 0), false);
  assert.deepEqual([other.id, other.doubted], [undefined, 5]);
  assert.equal(other.observe(4, 4, 1), false);
  assert.equal(other.observe(4, 4, 2, 1), true);
  assert.equal(other.id, 4);
  // A look that is sent as the answer comes is sent after it.
  assert.deepEqual([other.observe(5, 4, 10), other.observe(5, 4, 12, 10), other.id], [false, true, 5]);
});

const turn = (): Promise<void> => new Promise(setImmediate);

function stepsOf(t: TestContext): Steps {
  let [nowMs, asked, answers] = [5_000, 0, Promise.resolve()];
  t.mock.method(performance, 'now', () => nowMs);
  let [word, open, stopped] = ['', (): void => undefined, ''];
  const fleet = { chainId: 4 as number | undefined, generation: 0 };
  const whole = async (_: unknown, signal: CancelSignal) => {
    asked += 1;
    signal.addEventListener('abort', () => (stopped = (signal.reason as Error).message));
    const [status = '', hash = ''] = word.split(':');
    await answers;
    return { status: Number(status), body: Buffer.from(hash === 'text' ? hash : JSON.stringify({ hash })) };
  };
  const identity = new LedgerIdentity(fleet, { whole });
  return {
    /** Status and hash: `a` is a digit of which all are, and \`text\` no JSON. */
    answers: (status: number, hash = '', digits = 64) => {
      word = `${status}:${hash === 'text' ? hash : `0x${String(hash).repeat(digits)}`}`;
    },
    prefixed: () => (word = word.replace('0x', 'z0x')),
    look: () => identity.look(),
    begin: () => void identity.look(),
    name: async () => {
      const { name } = identity;
      await turn();
      return name;
    },
    asked: () => asked,
    clock: (ms: number) => (nowMs = ms),
    generation: () => (fleet.generation += 1),
    chainless: () => (fleet.chainId = undefined),
    shut: () => void ({ promise: answers, resolve: open } = Promise.withResolvers<void>()),
    /** Later answers come at once; those of before with `open`. */
    flow: () => void (answers = Promise.resolve()),
    open: async () => {
      open();
      await turn();
    },
    close: () => identity.close(),
    stopped: () => stopped,
  };
}

/** Claim and script; \`name\` is read, and a look that it begins ends. */
const scripts = `
a name is read once | answers 200 a, look, name = aaaaaaaa, clock 999999, name = aaaaaaaa, asked = 1
a node that does not answer with one is asked again after two seconds | answers 500, look, name = undefined, clock 6999, name = undefined, asked = 1, clock 7000, name = undefined, asked = 2
a ledger without a name of its own is asked for one after a minute | answers 410, look, name = nogenesis, clock 64999, name = nogenesis, asked = 1, answers 200 a, clock 65000, name = nogenesis, asked = 2, name = aaaaaaaa
the name stays while a node does not answer | answers 410, look, answers 503, clock 65000, name = nogenesis, name = nogenesis, asked = 2
a hash has 32 bytes | answers 200 a 63, look, name = nogenesis
and no more | answers 200 a 65, look, name = nogenesis
and nothing ahead of it | answers 200 a, prefixed, look, name = nogenesis
a body that is no JSON has none | answers 200 text, look, name = nogenesis
nothing is asked before the chain is known | chainless, answers 200 a, look, name = undefined, asked = 0
the answer of an earlier generation is dropped | answers 200 a, shut, begin, flow, generation, answers 200 b, name = undefined, name = bbbbbbbb, open, name = bbbbbbbb
the end ends looks | answers 200 a, look, close, stopped = closing
`;

for (const [claim, script] of scriptsIn(scripts)) test(claim, (t) => runScript(stepsOf(t), script));

type Answered = { readonly status: number; readonly body: unknown };

const first = (digit: string): Answered => ({ status: 200, body: { hash: `0x${digit.repeat(64)}` } });
const pruned: Answered = { status: 410, body: { message: 'm', error_code: 'version_pruned', vm_error_code: null } };

/** A ledger whose node answers `answered` for its first transaction. */
async function ledgerOf(t: TestContext, answered: () => Answered) {
  const answer = (_request: unknown, response: ServerResponse): void => {
    const { status, body } = answered();
    const text = JSON.stringify(body);
    const headers = { ...ledgerHeaders({ version: 900n }), 'content-type': 'application/json' };
    response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(text) }).end(text);
  };
  const { sender, fleet, upstream } = await senderOf(t, answer, { connections: 4 });
  fleet.observe(upstream, ledgerInfo({ version: 900n }), performance.now());
  const identity = new LedgerIdentity(fleet, sender);
  t.after(() => identity.close());
  const goBack = (): void => {
    const older = ledgerInfo({ version: 100n });
    const nowMs = performance.now();
    fleet.observe(upstream, older, nowMs + 20_000);
    fleet.observe(upstream, older, nowMs + 40_000, nowMs + 40_000);
  };
  return { identity, fleet, goBack };
}

async function nameOf(
  identity: LedgerIdentity,
  is: (name: string | undefined) => boolean,
): Promise<string | undefined> {
  for (let tries = 0; tries < 200 && !is(identity.name); tries += 1) await sleep(5);
  return identity.name;
}

test('a ledger is called by the hash of its first transaction', async (t) => {
  const { identity } = await ledgerOf(t, () => first('a'));
  assert.equal(identity.name, undefined);
  await identity.look();
  assert.equal(identity.name, 'aaaaaaaa');
});

test('a first transaction of megabytes names its ledger', async (t) => {
  const { status, body } = first('b');
  const { identity } = await ledgerOf(t, () => ({
    status,
    body: Object.assign({ changes: 'c'.repeat(3_000_000) }, body),
  }));
  await identity.look();
  assert.equal(identity.name, 'bbbbbbbb');
});

test('ledgers whose first transaction no node reports share one name', async (t) => {
  const unknown = { message: 'm', error_code: 'resource_not_found', vm_error_code: null };
  for (const answered of [pruned, { status: 404, body: unknown }, { status: 200, body: { hash: '' } }]) {
    const { identity } = await ledgerOf(t, () => answered);
    await identity.look();
    assert.equal(identity.name, 'nogenesis');
  }
});

test('a broken node gives no name', async (t) => {
  const { identity } = await ledgerOf(t, () => ({ status: 503, body: {} }));
  await identity.look();
  assert.equal(identity.name, undefined);
});

test('a ledger that went back has the name of its own first transaction', async (t) => {
  let answered = first('a');
  const { identity, fleet, goBack } = await ledgerOf(t, () => answered);
  await identity.look();
  const before = fleet.generation;
  answered = first('b');
  goBack();
  assert.ok(fleet.generation > before);
  assert.equal(identity.name, undefined);
  assert.equal(await nameOf(identity, (name) => name !== undefined), 'bbbbbbbb');
});

test('a ledger that went back without a first transaction gets the shared name', async (t) => {
  let answered = first('a');
  const { identity, goBack } = await ledgerOf(t, () => answered);
  await identity.look();
  answered = pruned;
  goBack();
  // Whether it is the ledger of before, its epoch decides (`cache/epoch/registry.ts`).
  assert.equal(await nameOf(identity, (name) => name !== undefined), 'nogenesis');
});
