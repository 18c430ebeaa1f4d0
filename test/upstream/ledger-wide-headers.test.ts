/** The key of an epoch: which looks set it; and headers without a known meaning: which answers have them. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Dialect, familyText, type HeaderValues, type LedgerInfo } from '../../src/ledger/ledger-headers.ts';
import { LedgerWideHeaders } from '../../src/upstream/ledger-wide-headers.ts';
import type { Upstream } from '../../src/upstream/node/upstream.ts';
import { ledgerHeaders, ledgerInfo } from '../support/ledger-info.ts';
import { nodeAt } from '../support/node-client.ts';
import { runScript, scriptsIn, type Steps } from '../support/script.ts';

const key = 'x-node-txn-encryption-key';
const written = 'X-Node-Txn-Encryption-Key';

const named = (prefix: string, count: number, value = 'v'): HeaderValues =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-node-${prefix}${at}`, value]));

function scene(t: TestContext) {
  const [a, b] = [nodeAt(t, 9, { name: 'a' }), nodeAt(t, 9, { name: 'b' })];
  for (const upstream of [a, b]) upstream.recordAnswer(5, 0);
  const fleet = { generation: 0, dialect: new Dialect('node') };
  const looked: string[] = [];
  const leftOut: string[] = [];
  const headers = new LedgerWideHeaders(fleet, {
    onUnconfirmed: ({ name }) => looked.push(name),
    onChange: (change, fields) => {
      assert.equal(change, 'headers left out');
      leftOut.push(...Object.values(fields).map(String));
    },
  });
  const look = (upstream: Upstream, version: bigint, sent: HeaderValues = {}, epoch = 7n): LedgerInfo => {
    const info = { ...ledgerInfo({ version }), epoch };
    headers.onLook({ upstream, info, headers: sent });
    return info;
  };
  const own = (upstream: Upstream, version: bigint, sent: HeaderValues) =>
    headers.ownOf({ upstream, info: ledgerInfo({ version }), headers: sent });
  return { a, b, fleet, headers, look, own, looked, leftOut };
}

const sentIn = (words: readonly string[]): HeaderValues =>
  Object.fromEntries(
    words
      .map((word) => word.split(':'))
      .map(([name = '', value = '']) => [name === 'key' ? key : `x-node-${name}`, value]),
  );

const infoOf = (version: number, epoch = 7) => ({
  ...ledgerInfo({ version: BigInt(version) }),
  epoch: BigInt(epoch),
});

/** The steps of a scene; headers are words such as `own:1`, and `key:v` is the key. */
function stepsOf(t: TestContext): Steps {
  let nowMs = 5_000;
  t.mock.method(performance, 'now', () => nowMs);
  const { a, b, fleet, headers, look, own, looked } = scene(t);
  let { names } = headers;
  const nodeOf = (name: string): Upstream => (name === 'a' ? a : b);
  const mark = (property: 'isSuspect' | 'isForeign' | 'isRemoved') => (name: string, is: boolean) => {
    nodeOf(name)[property] = is;
  };
  return {
    look: (name: string, version: number, epoch: number, ...words: readonly string[]) =>
      look(nodeOf(name), BigInt(version), sentIn(words), BigInt(epoch)),
    report: (name: string, version: number, epoch: number, ...words: readonly string[]) =>
      headers.onReport(nodeOf(name), infoOf(version, epoch), sentIn(words)),
    own: (name: string, version: number, ...words: readonly string[]) =>
      own(nodeOf(name), BigInt(version), sentIn(words))?.replaceAll('\t', '+'),
    list: (epoch: number) => headers.listAt(infoOf(1, epoch)).join(' ') || 'none',
    isSameList: () => headers.listAt(infoOf(1)) === headers.listAt(infoOf(2)),
    hasOtherNames: () => names !== (names = headers.names),
    looked: () => looked.join('+') || 'none',
    suspect: mark('isSuspect'),
    foreign: mark('isForeign'),
    removed: mark('isRemoved'),
    down: (name: string) => {
      for (let failures = 0; failures < 2; failures += 1) nodeOf(name).recordFailure(5, nowMs, 'time-out');
    },
    generation: () => (fleet.generation += 1),
    later: () => (nowMs += 1_000),
  };
}

/** Claim and script. `look a 100 7 key:v`: node, version, epoch and headers of its ledger info; `report`: of an answer. */
const scripts = `
the newest look sets the value, for its epoch alone | list 7 = none, look a 100 7 key:new, look b 90 7 key:old, list 7 = ${written} new, isSameList = true, list 8 = none
a look without the header ends the value of its own node, not that of another | look a 100 7 key:v, look b 110 7, list 7 = ${written} v, look a 90 7, list 7 = ${written} v, look a 101 7, list 7 = none
a removed node's value stands until the next look at another | look a 100 7 key:v, removed a true, list 7 = ${written} v, look b 50 7, list 7 = none
of two at one version the later counts | look a 100 7 key:v, look b 100 7 key:w, list 7 = ${written} w
a suspect and a node of another chain set nothing | suspect b true, look b 500 7 key:s wide:1, hasOtherNames = false, list 7 = none, look a 100 7 key:v, foreign a true, list 7 = none, foreign a false, list 7 = ${written} v
nor does a suspect's newer version count, or an earlier generation | look a 100 7 key:v, suspect a true, look b 20 7 key:w, list 7 = ${written} w, generation, list 7 = none
a report of an epoch that no look at the node has shown asks for one, once a second | look a 100 7, report a 100 8, looked = none, look a 101 7 key:v, report a 100 7, looked = none, 3x report a 100 8, looked = a, generation, report a 100 7, looked = a
so does one of another generation | look a 100 7 key:v, generation, report a 100 7 key:v, looked = a
and one of a node that was not looked at | report a 100 7 key:v, looked = a
a report with the key of the look, or one without a key of a node that has none, asks for none | look a 100 7 key:v, report a 100 7 key:v, look b 90 7, report b 90 7, looked = none
a look that was asked for by a report without a key does not show that the node has none | look a 100 7 key:v, report b 90 7, look b 91 7, later, report b 92 7 key:v, looked = b+b
nor does one that had it | look a 100 7, report a 100 7 key:v, look a 101 7 key:v, look a 102 7, later, report a 102 7 key:v, looked = a+a
an answer with a key that the look at its node had not asks for a look | look a 100 7, report a 100 7 key:v, looked = a, list 7 = none
a key on answers that the ledger info lacks is looked for once an epoch | look a 100 7, report a 100 7 key:v, look a 101 7, later, report a 101 7 key:v, look a 102 7, later, report a 102 7 key:v, looked = a, look a 200 8, report a 200 8 key:v, looked = a+a
headers that no look had are their answer's own, and ask for one look | look a 100 7, 3x own a 101 own:1 wide:2 key:v = own: 1+wide: 2, looked = a, hasOtherNames = false, look a 101 7 wide:2, hasOtherNames = true, own a 102 own:1 wide:2 key:v = own: 1
names are others once a look has one that none had | look a 100 7 wide:2, hasOtherNames = true, look a 101 7 wide:2, hasOtherNames = false
a header that a look had is none of an answer for good | look a 100 7 wide:2, look a 103 7, own a 104 own:1 wide:2 = own: 1
a new name asks for looks until one of its node, not older than the answer, has succeeded | own a 101 own:1, look a 100 7, look b 200 7, later, own a 102 own:1, looked = a+a, look a 101 7, later, own a 103 own:1, own b 103 own:1, looked = a+a
a name whose node cannot be looked at is looked for at another | own a 101 own:1, down a, own b 101 own:1, look b 101 7, later, own b 102 own:1, looked = a+b
`;

for (const [claim, script] of scriptsIn(scripts)) test(claim, (t) => runScript(stepsOf(t), script));

test('a key that cannot be a header of an answer is none', (t) => {
  const { a, headers, look, leftOut } = scene(t);
  assert.deepEqual(headers.listAt(look(a, 100n, { [key]: 'x'.repeat(5_000) })), []);
  assert.deepEqual(leftOut, ['a']);
});

test('names are bounded: beyond them, no answer has headers of its own', (t) => {
  const { a, b, headers, look, own, leftOut } = scene(t);
  for (let at = 0; at < 100; at += 1) assert.equal(own(a, 100n, { [`x-node-own${at}`]: '1' }), `own${at}: 1`);
  look(a, 100n, named('a', 8));
  assert.equal(own(b, 100n, { 'x-node-own': '1' }), 'own: 1');
  look(b, 100n, named('b', 6));
  assert.deepEqual([headers.names.size, leftOut], [16, []]);
  assert.equal(own(b, 100n, {}), undefined);
  assert.deepEqual(leftOut, []);
  for (const _ of [1, 2]) assert.equal(own(b, 100n, { 'x-node-own': '1' }), undefined);
  assert.deepEqual(leftOut, ['b']);
  look(a, 101n, named('c', 1));
  assert.deepEqual([headers.names.size, leftOut], [16, ['b', 'a']]);
});

test('names on answers are bounded: beyond sixteen, those before are looked for anew', (t) => {
  let nowMs = 5_000;
  t.mock.method(performance, 'now', () => (nowMs += 1_000));
  const { a, headers, look, own, looked } = scene(t);
  /** Whether an answer with that header asks for a look, which follows. */
  const isLookedFor = (index: number): boolean => {
    const before = looked.length;
    own(a, 100n, { [`x-node-own${index}`]: '1' });
    const isAsked = looked.length > before;
    look(a, 100n);
    return isAsked;
  };
  const all = Array.from({ length: 16 }, (_, index) => index);
  assert.ok(all.every(isLookedFor));
  assert.ok(!all.some(isLookedFor));
  assert.deepEqual([isLookedFor(16), isLookedFor(16), isLookedFor(0)], [true, false, true]);
  // The same of names that no look has followed.
  for (const count of [16, 17]) {
    const other = scene(t);
    for (let index = 0; index < count; index += 1) other.own(other.a, 100n, { [`x-node-own${index}`]: '1' });
    other.look(other.a, 100n);
    const before = other.looked.length;
    for (const index of [count - 1, 0]) other.own(other.a, 100n, { [`x-node-own${index}`]: '1' });
    assert.equal(other.looked.length, count === 16 ? before : before + 1);
  }
  assert.equal(headers.ownOf({ upstream: a, info: undefined, headers: { 'x-node-last': '1' } }), 'last: 1');
  assert.deepEqual(headers.listAt(undefined), []);
  assert.deepEqual([...headers.names], [key, 'x-aptos-txn-encryption-key']);
});

/** The family of one answer, which no look has shown, as text; and whether headers of it were cut. */
function familyOf(t: TestContext, sent: HeaderValues, secret?: Readonly<Record<string, string>>): readonly unknown[] {
  const { own, leftOut } = scene(t);
  const upstream = nodeAt(t, 9, { name: 'c', headers: secret });
  return [own(upstream, 9n, sent), leftOut.length > 0];
}

test('the family of an answer is all of its prefix without a known meaning', (t) => {
  const known = Object.fromEntries(
    Object.entries(ledgerHeaders({ version: 9n })).map(([name, value]) => [name.toLowerCase(), value]),
  );
  const others = { 'content-type': 'a', 'x-aptos-new': '1', 'x-nodes': '2', 'x-anything': '3' };
  const ofAnswer = { 'x-node-gas-used': '7', 'x-node-cursor': 'ab' };
  assert.deepEqual(familyOf(t, { ...known, ...ofAnswer, ...others }), [undefined, false]);
  assert.deepEqual(familyOf(t, { ...known, 'x-node-new': 'a b', ...ofAnswer }), ['new: a b', false]);
});

test('a repeated header is one list; headers of one hop and credentials are none of the family', (t) => {
  assert.deepEqual(familyOf(t, { 'x-node-a': ['1', '2'], 'x-node-b': undefined }), ['a: 1, 2', false]);
  const hop = { connection: 'close, X-Node-A', 'x-node-a': '1', 'x-node-b': '2' };
  assert.deepEqual(familyOf(t, hop), ['b: 2', false]);
  assert.deepEqual(familyOf(t, { 'x-node-a': 'k', 'x-node-b': '2' }, { 'x-node-a': 'k' }), ['b: 2', false]);
});

test('headers beyond the bounds or of other characters are cut', (t) => {
  const [text, isCut] = familyOf(t, named('a', familyText.mostFields + 1));
  assert.deepEqual([String(text).split('\t').length, isCut], [familyText.mostFields, true]);
  const longest = 'v'.repeat(familyText.mostBytes - 'x-node-a'.length);
  assert.deepEqual(familyOf(t, { 'x-node-a': longest }), [`a: ${longest}`, false]);
  assert.deepEqual(familyOf(t, { 'x-node-a': `${longest}v`, 'x-node-b': 'w' }), ['b: w', true]);
  assert.deepEqual(familyOf(t, { 'x-node-a': longest, 'x-node-b': 'w' }), [`a: ${longest}`, true]);
  const half = 'v'.repeat(familyText.mostBytes / 2);
  assert.deepEqual(familyOf(t, { 'x-node-a': half, 'x-node-b': half }), [`a: ${half}`, true]);
  for (const value of ['\u00e9', 'a\tb', 'a\r\nb: c', '\u0000'])
    assert.deepEqual(familyOf(t, { 'x-node-a': value }), [undefined, true]);
  assert.deepEqual(familyOf(t, { 'x-node-a_b': 'v' }), [undefined, true]);
});
