import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cacheKey, readText } from '../../src/cache/key.ts';
import { marksMatcher, marksOf } from '../../src/cache/purge-marks.ts';
import { pageMatcher, type PurgeScope } from '../../src/cache/purge-scope.ts';
import { parseAddress } from '../../src/ledger/address.ts';
import type { Read } from '../../src/proxy/read-result.ts';
import { readModule, readResource, readTransaction, readView } from '../support/reads.ts';

const store = '0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>';
const longTag = `0x1::coin::CoinStore<0x1::coin::${'Long'.repeat(120)}>`;
const reads: readonly Read[] = [
  readResource('0x1', store),
  readResource('0x1', store, { query: '?ledger_version=99999' }),
  readResource('0x1', store, { accept: 'application/x-bcs' }),
  readResource('0x1', longTag),
  readResource('0x10', store),
  readResource('0x10', longTag),
  readModule('0x1', 'coin'),
  readModule('0x10', 'coin'),
  readView('{"function":"0x1::coin::balance","type_arguments":[],"arguments":["0x1"]}'),
  readView('{"function":"0x1::a::b","type_arguments":[],"arguments":["|0x1|json|"]}'),
  readTransaction(`0x${'1'.repeat(64)}`),
];
const pages = reads.flatMap((read) => [1, 4].map((chainId) => cacheKey({ ...read, chainId }).page));

const scopes: readonly Exclude<PurgeScope, { kind: 'read' }>[] = [
  { kind: 'everything' },
  ...['0x1', '0x10', '0x2'].map(
    (address) => ({ kind: 'account', chainId: 4, address: parseAddress(address) }) as const,
  ),
  ...reads.map((read) => ({ kind: 'versions', read: readText({ ...read, chainId: 4 }) }) as const),
];

test('by its marks a purge covers what it covers by text', () => {
  let covered = 0;
  for (const scope of scopes) {
    const [byMarks, byText] = [marksMatcher(scope), pageMatcher(scope)];
    for (const page of pages) {
      assert.equal(byMarks(marksOf(page)), byText(page), `${JSON.stringify(scope)} ${page}`);
      covered += Number(byText(page));
    }
  }
  assert.ok(covered > 40);
});
