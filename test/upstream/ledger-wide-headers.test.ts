/** The key of an epoch: which looks set it; and headers without a known meaning: which answers have them. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Dialect, type HeaderValues, type LedgerInfo } from '../../src/ledger/ledger-headers.ts';
import { familyText } from '../../src/ledger/node-headers.ts';
import { LedgerWideHeaders } from '../../src/upstream/ledger-wide-headers.ts';
import type { Upstream } from '../../src/upstream/node/upstream.ts';
import { ledgerHeaders, ledgerInfo } from '../support/ledger-info.ts';
import { nodeAt } from '../support/node-client.ts';

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
    onChange: (_change, fields) => leftOut.push(...Object.values(fields).map(String)),
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

test('the newest look sets the value, for its epoch alone', (t) => {
  const { a, b, headers, look } = scene(t);
  assert.deepEqual(headers.listAt(undefined), []);
  const head = look(a, 100n, { [key]: 'new' });
  look(b, 90n, { [key]: 'old' });

  assert.deepEqual(headers.listAt(head), [written, 'new']);
  assert.equal(headers.listAt(head), headers.listAt({ ...head, version: head.version }), 'the same list');
  assert.deepEqual(headers.listAt({ ...head, epoch: 8n }), []);
});

test('a look without the header ends the value of its own node, not that of another', (t) => {
  const { a, b, headers, look } = scene(t);
  const head = look(a, 100n, { [key]: 'v' });
  look(b, 110n);
  assert.deepEqual(headers.listAt(head), [written, 'v']);
  look(a, 90n);
  assert.deepEqual(headers.listAt(head), [written, 'v'], 'an overtaken look');
  look(a, 101n);
  assert.deepEqual(headers.listAt(head), []);
});

test('a removed node’s value stands until the next look at another', (t) => {
  const { a, b, headers, look } = scene(t);
  const head = look(a, 100n, { [key]: 'v' });
  a.isRemoved = true;
  assert.deepEqual(headers.listAt(head), [written, 'v']);
  look(b, 50n);
  assert.deepEqual(headers.listAt(head), []);
});

test('a suspect, a node of another chain and an earlier generation set nothing', (t) => {
  const { a, b, fleet, headers, look } = scene(t);
  b.isSuspect = true;
  const head = look(b, 500n, { [key]: 'of a suspect' });
  assert.deepEqual(headers.listAt(head), []);
  look(a, 100n, { [key]: 'v' });
  a.isForeign = true;
  assert.deepEqual(headers.listAt(head), []);
  a.isForeign = false;
  assert.deepEqual(headers.listAt(head), [written, 'v']);
  a.isSuspect = true;
  b.isSuspect = false;
  look(b, 20n, { [key]: 'w' });
  assert.deepEqual(headers.listAt(head), [written, 'w'], 'a suspect’s newer version counts no more');
  fleet.generation += 1;
  assert.deepEqual(headers.listAt(head), []);
});

test('a report of an epoch that no look at the node has shown asks for one, once a second', (t) => {
  const { a, fleet, headers, look, looked } = scene(t);
  const info = look(a, 100n);
  headers.onReport(a, { ...info, epoch: 8n });
  assert.deepEqual(looked, [], 'there is no key');
  look(a, 101n, { [key]: 'v' });
  headers.onReport(a, info);
  assert.deepEqual(looked, []);
  for (let reports = 0; reports < 3; reports += 1) headers.onReport(a, { ...info, epoch: 8n });
  assert.deepEqual(looked, ['a']);
  fleet.generation += 1;
  headers.onReport(a, info);
  assert.deepEqual(looked, ['a'], 'within the second');
});

test('an answer with a key that the look at its node had not asks for a look', (t) => {
  const { a, headers, look, looked } = scene(t);
  const info = look(a, 100n);
  headers.onReport(a, info, { [key]: 'v' });
  assert.deepEqual([looked, headers.listAt(info)], [['a'], []]);
});

test('headers that no look had are their answer\u2019s own, and ask for one look', (t) => {
  const { a, headers, look, own, looked } = scene(t);
  const of = { 'x-node-own': '1', 'x-node-wide': '2', [key]: 'v' };
  look(a, 100n);
  for (let answers = 0; answers < 3; answers += 1) assert.equal(own(a, 101n, of), 'own: 1\twide: 2');
  assert.deepEqual(looked, ['a']);
  const { names } = headers;
  look(a, 101n, { 'x-node-wide': '2' });
  assert.notEqual(headers.names, names);
  assert.equal(own(a, 102n, of), 'own: 1');
  look(a, 103n);
  assert.equal(own(a, 104n, of), 'own: 1', 'for good');
});

test('a new name asks for looks until one of its node, not older than the answer, has succeeded', (t) => {
  let nowMs = 5_000;
  t.mock.method(performance, 'now', () => nowMs);
  const { a, b, look, own, looked } = scene(t);
  own(a, 101n, { 'x-node-own': '1' });
  look(a, 100n);
  look(b, 200n);
  nowMs += 1_000;
  own(a, 102n, { 'x-node-own': '1' });
  assert.deepEqual(looked, ['a', 'a']);

  look(a, 101n);
  nowMs += 1_000;
  own(a, 103n, { 'x-node-own': '1' });
  own(b, 103n, { 'x-node-own': '1' });
  assert.deepEqual(looked, ['a', 'a']);
});

test('a name whose node cannot be looked at is looked for at another', (t) => {
  const { a, b, look, own, looked } = scene(t);
  own(a, 101n, { 'x-node-own': '1' });
  for (let failures = 0; failures < 2; failures += 1) a.recordFailure(5, performance.now(), 'time-out');
  own(b, 101n, { 'x-node-own': '1' });
  look(b, 101n);
  own(b, 102n, { 'x-node-own': '1' });

  assert.deepEqual(looked, ['a', 'b']);
});

test('a key on answers that the ledger info lacks is looked for once an epoch', (t) => {
  let nowMs = 5_000;
  t.mock.method(performance, 'now', () => nowMs);
  const { a, headers, look, looked } = scene(t);
  let info = look(a, 100n);
  for (let version = 101n; version < 105n; version += 1n) {
    headers.onReport(a, info, { [key]: 'v' });
    info = look(a, version);
    nowMs += 1_000;
  }
  assert.deepEqual(looked, ['a']);
  info = look(a, 200n, {}, 8n);
  headers.onReport(a, info, { [key]: 'v' });
  assert.deepEqual(looked, ['a', 'a']);
});

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
  look(b, 100n, named('b', 8));
  assert.equal(headers.names.size, 16);
  assert.equal(own(b, 100n, { 'x-node-own': '1' }), undefined);
  assert.deepEqual(leftOut, ['b']);
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
  for (const value of ['\u00e9', 'a\tb', 'a\r\nb: c', '\u0000'])
    assert.deepEqual(familyOf(t, { 'x-node-a': value }), [undefined, true]);
  assert.deepEqual(familyOf(t, { 'x-node-a_b': 'v' }), [undefined, true]);
});
