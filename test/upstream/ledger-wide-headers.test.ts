/** Headers beside the seven that describe the ledger: which looks set them, and which answers have headers of their own. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { dialectOf, type HeaderValues, type LedgerInfo } from '../../src/ledger/ledger-headers.ts';
import { LedgerWideHeaders } from '../../src/upstream/ledger-wide-headers.ts';
import { Upstream } from '../../src/upstream/node/upstream.ts';
import { ledgerInfo } from '../support/ledger-info.ts';

const key = 'x-node-key';

const named = (prefix: string, count: number, value = 'v'): HeaderValues =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`x-node-${prefix}${at}`, value]));

function scene(t: TestContext) {
  const [a, b] = ['a', 'b'].map((name) => {
    const url = new URL('http://127.0.0.1:9/v1');
    const upstream = new Upstream({ name, url, tier: 'full', connections: 1, connectTimeoutMs: 1_000 });
    upstream.recordAnswer(5, 0);
    t.after(() => upstream.close());
    return upstream;
  }) as [Upstream, Upstream];
  const fleet = { generation: 0 };
  const looked: string[] = [];
  const leftOut: string[] = [];
  const headers = new LedgerWideHeaders({
    dialect: dialectOf('node'),
    generation: () => fleet.generation,
    onChange: () => undefined,
    onLookNeeded: ({ name }) => looked.push(name),
    onLeftOut: ({ name }) => leftOut.push(name),
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

  assert.deepEqual(headers.listAt(head), ['X-Node-Key', 'new']);
  assert.equal(headers.listAt(head), headers.listAt({ ...head, version: head.version }), 'the same list');
  assert.deepEqual(headers.listAt({ ...head, epoch: 8n }), []);
});

test('a look without the header ends the value of its own node, not that of another', (t) => {
  const { a, b, headers, look } = scene(t);
  const head = look(a, 100n, { [key]: 'v' });
  look(b, 110n);
  assert.deepEqual(headers.listAt(head), ['X-Node-Key', 'v']);
  look(a, 90n);
  assert.deepEqual(headers.listAt(head), ['X-Node-Key', 'v'], 'an overtaken look');
  look(a, 101n);
  assert.deepEqual(headers.listAt(head), []);
});

test('a removed node’s value stands until the next look at another', (t) => {
  const { a, b, headers, look } = scene(t);
  const head = look(a, 100n, { [key]: 'v' });
  a.isRemoved = true;
  assert.deepEqual(headers.listAt(head), ['X-Node-Key', 'v']);
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
  assert.deepEqual(headers.listAt(head), ['X-Node-Key', 'v']);
  a.isSuspect = true;
  b.isSuspect = false;
  look(b, 20n, { [key]: 'w' });
  assert.deepEqual(headers.listAt(head), ['X-Node-Key', 'w'], 'a suspect’s newer version counts no more');
  fleet.generation += 1;
  assert.deepEqual(headers.listAt(head), []);
});

test('a report of an epoch that no look at the node has shown asks for one, once a second', (t) => {
  const { a, fleet, headers, look, looked } = scene(t);
  const info = look(a, 100n);
  headers.onReport(a, { ...info, epoch: 8n });
  assert.deepEqual(looked, [], 'no header is ledger-wide');
  look(a, 101n, { [key]: 'v' });
  headers.onReport(a, info);
  assert.deepEqual(looked, []);
  for (let reports = 0; reports < 3; reports += 1) headers.onReport(a, { ...info, epoch: 8n });
  assert.deepEqual(looked, ['a']);
  fleet.generation += 1;
  headers.onReport(a, info);
  assert.deepEqual(looked, ['a'], 'within the second');
});

test('a look that is no older than the answer decides whose header it is', (t) => {
  const { a, b, headers, look, own, looked } = scene(t);
  const of = { 'x-node-own': '1', [key]: 'v' };
  look(a, 100n);
  assert.deepEqual(own(a, 101n, of), { text: 'key: v\town: 1', isUndecided: true });
  assert.deepEqual(looked, ['a']);
  for (const [upstream, version] of [
    [a, 100n],
    [b, 200n],
  ] as const) {
    look(upstream, version);
    assert.equal(own(a, 101n, of).isUndecided, true, 'an older look, or one at another node');
  }
  look(a, 101n, { [key]: 'w' });
  assert.deepEqual(own(a, 102n, of), { text: 'own: 1', isUndecided: false });
  assert.deepEqual([...headers.names], [key]);
});

test('an own header that turns ledger-wide, or ceases to be, is never an answer’s own again', (t) => {
  const { a, headers, look, own } = scene(t);
  own(a, 100n, { [key]: 'v' });
  look(a, 100n);
  assert.deepEqual(own(a, 100n, { [key]: 'v' }), { text: 'key: v', isUndecided: false });
  const { names } = headers;
  look(a, 101n, { [key]: 'v' });
  assert.notEqual(headers.names, names);
  look(a, 102n);
  assert.deepEqual(own(a, 102n, { [key]: 'v' }), { text: undefined, isUndecided: false });
});

test('names and bytes are bounded, also over several nodes', (t) => {
  const { a, b, headers, look, own, leftOut } = scene(t);
  look(a, 100n, named('a', 6, 'x'.repeat(600)));
  const head = look(b, 100n, named('b', 6));
  const list = headers.listAt(head);
  assert.equal(list.length / 2, 8);
  assert.ok(list.join('').length <= 4096);
  assert.deepEqual(leftOut, ['b']);

  for (let at = 0; at < 100; at += 1) {
    own(a, 100n, { [`x-node-own${at}`]: '1' });
    look(a, 100n);
  }
  const left = own(a, 100n, { 'x-node-one-more': '1' });
  assert.deepEqual(left, { text: undefined, isUndecided: false });
  assert.equal(own(a, 100n, { 'x-node-own0': '1' }).text, 'own0: 1');
});
