import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dialect, familyText, type HeaderValues } from '../../src/ledger/ledger-headers.ts';
import { fc } from '../support/fast-check.ts';

/** Names of the interface specification. */
const complete = {
  'x-node-chain-id': '4',
  'x-node-ledger-version': '1000',
  'x-node-ledger-oldest-version': '100',
  'x-node-ledger-timestampusec': '1700000000000000',
  'x-node-epoch': '7',
  'x-node-block-height': '50',
  'x-node-oldest-block-height': '5',
} as const;

const names = Object.keys(complete) as (keyof typeof complete)[];
const node = new Dialect('node');

test('seven headers make a snapshot', () => {
  assert.deepEqual(node.findInfo(complete), {
    chainId: 4,
    version: 1000n,
    oldestVersion: 100n,
    timestampUsec: 1700000000000000n,
    epoch: 7n,
    blockHeight: 50n,
    oldestBlockHeight: 5n,
  });
});

for (const name of names) {
  test(`without ${name}, or with nonsense in it, there is no snapshot`, () => {
    const words = [
      '',
      ' ',
      '-1',
      '1.5',
      '0x10',
      'null',
      '1e3',
      '0100',
      '+100',
      '4, 4',
      '18446744073709551616',
      '1 ',
      ' 1',
    ];
    const nonsense: readonly HeaderValues[string][] = [undefined, ['4', '4'], [], ...words];
    for (const value of nonsense) {
      assert.equal(node.findInfo({ ...complete, [name]: value }), undefined, JSON.stringify(value));
    }
  });
}

const max = '18446744073709551615';
const rows: readonly (readonly [claim: string, headers: HeaderValues, fault?: string])[] = [
  ['those of a node', {}],
  ['those of an archival node', { 'x-node-ledger-oldest-version': '0', 'x-node-oldest-block-height': '0' }],
  [
    'those of a ledger of one block, at time zero',
    { ...Object.fromEntries(names.map((name) => [name, '0'])), 'x-node-chain-id': '4' },
  ],
  [
    'one version, chain 255, the largest u64',
    { ...Object.fromEntries(names.map((name) => [name, max])), 'x-node-chain-id': '255' },
  ],
  ['an epoch in words', { 'x-node-epoch': 'soon' }, 'missing'],
  ['none', Object.fromEntries(names.map((name) => [name, undefined])), 'missing'],
  ['a head below the oldest version', { 'x-node-ledger-oldest-version': '1001' }, 'below oldest'],
  ['a chain id above 255', { 'x-node-chain-id': '256' }, 'absurd'],
  ['an oldest block above the newest', { 'x-node-oldest-block-height': '51' }, 'absurd'],
  ['more blocks than versions', { 'x-node-block-height': '1001' }, 'absurd'],
  [
    'an oldest block above the oldest version',
    { 'x-node-block-height': '900', 'x-node-oldest-block-height': '101' },
    'absurd',
  ],
  ['time zero after the first block', { 'x-node-ledger-timestampusec': '0' }, 'absurd'],
];

for (const [claim, changed, fault] of rows) {
  test(`headers: ${claim}: ${fault ?? 'a snapshot, and written as they were read'}`, () => {
    const headers = { ...complete, ...changed };
    assert.equal(node.faultOf(headers), fault);
    const info = node.findInfo(headers);
    assert.equal(info === undefined, fault !== undefined);
    if (info === undefined) return;
    const list = node.list(info);
    const read = Array.from({ length: list.length / 2 }, (_, at) => [list[2 * at]?.toLowerCase(), list[2 * at + 1]]);
    assert.deepEqual(read, Object.entries(headers));
  });
}

test('names are written as nodes write them', () => {
  const info = node.findInfo(complete);
  assert.ok(info !== undefined);
  const written = node.list(info).filter((_, at) => at % 2 === 0);
  assert.equal(
    written.join(),
    'X-Node-Chain-Id,X-Node-Ledger-Version,X-Node-Ledger-Oldest-Version,X-Node-Ledger-Timestampusec,X-Node-Epoch,X-Node-Block-Height,X-Node-Oldest-Block-Height',
  );
});

test('each dialect reads its own names only', () => {
  const aptos = Object.fromEntries(
    Object.entries(complete).map(([name, value]) => [name.replace('node', 'aptos'), value]),
  );
  assert.equal(new Dialect('aptos').findInfo(aptos)?.version, 1000n);
  assert.equal(node.findInfo(aptos), undefined);
  assert.equal(new Dialect('aptos').findInfo(complete), undefined);
});

const fields = fc
  .dictionary(fc.stringMatching(/^[a-z\d-]{1,20}$/), fc.stringMatching(/^[ -~]{0,40}$/), {
    maxKeys: familyText.mostFields,
  })
  .map((record) => new Map(Object.entries(record).map(([name, value]) => [`x-node-${name}`, value])))
  .filter((map) => ![...map.keys()].some((name) => node.known.has(name)));

test('headers are read back from their text, in one order and under the names of either dialect', () => {
  fc.assert(
    fc.property(fields, (given) => {
      const text = familyText.of(given, node);
      assert.equal(text, familyText.of(new Map([...given].reverse()), node));
      if (text === undefined) return assert.equal(given.size, 0);
      assert.ok(familyText.isValid(text));
      const list = familyText.list(text, new Dialect('aptos'), new Set());
      const pairs = list.flatMap((name, at) =>
        at % 2 === 0 ? [[name.replace('x-aptos-', 'x-node-'), list[at + 1]]] : [],
      );
      assert.deepEqual(new Map(pairs as [string, string][]), given);
      return undefined;
    }),
  );
});

test('names that are ledger-wide now are left out of the list', () => {
  assert.deepEqual(familyText.list('a: 1\tb: 2', node, new Set(['x-node-a'])), ['x-node-b', '2']);
});
