/** Purges: the reads that a scope covers, its text in messages between replicas, and the steps here, in Redis and there. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cacheKey, digestMark, keyOn, readText, type CacheKey } from '../../src/cache/key.ts';
import { operations } from '../../src/cache/kinds.ts';
import {
  accountStarts,
  findScope,
  formatScope,
  keyMatcher,
  marksMatcher,
  marksOf,
  purge,
  type PurgeScope,
} from '../../src/cache/purge.ts';
import { MemoryCache } from '../../src/cache/memory/memory.ts';
import { ReadThrough } from '../../src/cache/read-through.ts';
import { AnswerNames, patternsOf } from '../../src/cache/redis/redis-keys.ts';
import { answerOf, anyEpoch, keyAt, loadThrough } from '../support/answers.ts';
import { pageMatcher } from '../support/purged-pages.ts';
import { Address } from '../../src/ledger/type-tag.ts';
import type { Read } from '../../src/proxy/reads/read.ts';
import { readModule, readResource, readTransaction, readView } from '../support/reads.ts';

const chainId = 4;
const store = '0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>';
const longTag = `0x1::coin::CoinStore<0x1::coin::${'Long'.repeat(120)}>`;
const view = '{"function":"0x1::coin::balance","type_arguments":[],"arguments":["0x1"]}';

const named = {
  resource: readResource('0x1', store),
  later: readResource('0x1', store, { query: '?ledger_version=99999' }),
  bcs: readResource('0x1', store, { accept: 'application/x-bcs' }),
  generic: readResource('0x1', longTag),
  module: readModule('0x1', 'coin'),
  neighbour: readResource('0x10', store),
  neighbourModule: readModule('0x10', 'coin'),
  neighbourGeneric: readResource('0x10', longTag),
  view: readView(view),
  viewBytes: readView('0x1', { contentType: 'application/x.aptos.view_function+bcs' }),
  transaction: readTransaction(`0x${'1'.repeat(64)}`),
} as const;
const reads: readonly Read[] = Object.values(named);

function keyOf(read: Read): CacheKey {
  return cacheKey({ ...read, chainId });
}

const keys = Object.fromEntries(Object.entries(named).map(([name, read]) => [name, keyOf(read)])) as Record<
  keyof typeof named,
  CacheKey
>;

function covered(scope: PurgeScope): readonly string[] {
  const covers = keyMatcher(scope);
  return Object.entries(keys).flatMap(([name, key]) => (covers(key) ? [name] : []));
}

const account: PurgeScope = { kind: 'account', chainId, address: Address.parse('0x1') };
const versions: PurgeScope = { kind: 'versions', read: readText({ ...readResource('0x1', store), chainId }) };

test('an account covers its resources and modules, all views, and no account whose address begins like its own', () => {
  // A digest as subject may belong to any account.
  const own = ['resource', 'later', 'bcs', 'generic', 'module', 'neighbourGeneric', 'view', 'viewBytes'];
  assert.deepEqual(covered(account), own);
});

/** The kinds whose reads of `subject` a purge of the account covers. */
function kindsOf(subject: string): readonly string[] {
  const covers = keyMatcher(account);
  return operations.filter((operation) => covers(keyOf({ ...named.resource, operation, subject })));
}

test('an account covers each kind that may depend on its state, and no other', () => {
  const ofItsOwn = ['resource', 'module', 'account', 'balance', 'modules', 'resources', 'events'];
  const ofAny = ['view', 'table_item', 'raw_table_item'];
  const starts = [
    ...ofItsOwn.flatMap((kind) => [`4|${kind}|0x1/`, `4|${kind}|${digestMark}`]),
    ...ofAny.map((kind) => `4|${kind}|`),
  ];
  assert.deepEqual(new Set(accountStarts(chainId, '0x1')), new Set(starts));
  const long = `0x10/${'a'.repeat(1_000)}`;
  for (const subject of ['0x1/a', long]) assert.deepEqual(new Set(kindsOf(subject)), new Set([...ofItsOwn, ...ofAny]));
  assert.deepEqual(new Set(kindsOf('0x10/a')), new Set(ofAny));
});

test('the marks of a page have its kind, and for a kind of another format no account', () => {
  for (const [index, operation] of operations.entries())
    assert.equal(marksOf(keyOf({ ...named.resource, operation }).page).kind, index);
  const { account, kind } = marksOf('4|resourc|0x1/a|json|');
  assert.deepEqual([account, kind], [0, -1]);
});

const other: PurgeScope = { ...account, chainId: 40 };

test('an account of another chain is another account', () => {
  assert.deepEqual(covered(other), []);
  assert.deepEqual(
    reads.filter((read) => marksMatcher(other)(marksOf(keyOf(read).page))),
    [],
  );
});

test('a read covers its version and form, or all of its versions', () => {
  assert.deepEqual(covered({ kind: 'read', key: keys.resource }), ['resource']);
  const { page, slot } = keys.resource;
  assert.equal(keyMatcher({ kind: 'read', key: keys.resource })(keyOn(page, slot + 1)), false);
  assert.deepEqual(covered(versions), ['resource', 'later']);
  assert.deepEqual(covered({ kind: 'read', key: keys.transaction }), ['transaction']);
  assert.equal(covered({ kind: 'everything' }).length, Object.keys(keys).length);
});

test('a published scope is read back unchanged', () => {
  const reads = Object.values(keys).map((key): PurgeScope => ({ kind: 'read', key }));
  const views: PurgeScope = { kind: 'versions', read: readText({ ...readView(view), chainId }) };
  const long: PurgeScope = { kind: 'account', chainId: 200, address: Address.parse(`0x${'ab'.repeat(32)}`) };
  for (const scope of [...reads, account, long, versions, views, { kind: 'everything' } as const]) {
    assert.deepEqual(findScope(formatScope(scope)), scope);
  }
});

test('texts of another form are no scope', () => {
  for (const text of [
    '',
    'all',
    'everything else',
    'read',
    'read x',
    'read x@',
    'account 0x1',
    'account 4 1',
    'account 4 0x',
    'account 4 0x1g',
    'account a4 0x1',
    'an account 4 0x1',
    'read x@12345',
    'read x@1y',
  ]) {
    assert.equal(findScope(text), undefined, text);
  }
});

/** SCAN's patterns, as far as they are used here. */
function matches(pattern: string, name: string): boolean {
  assert.match(pattern, /\*$/);
  const parts = pattern.slice(0, -1).match(/\\.|[^]/gs) ?? [];
  return parts.every((part, at) => part === '?' || part.at(-1) === name[at]) && name.length >= parts.length;
}

test('a purge in Redis covers the same pages, and for views at most others of the function', () => {
  const pages = new AnswerNames('lg', '4.a1b2c3d4', anyEpoch);
  const found = (scope: Parameters<typeof patternsOf>[2]) => {
    const patterns = patternsOf('lg', '4.a1b2c3d4', scope);
    return Object.entries(keys).flatMap(([name, key]) =>
      patterns.some((pattern) => matches(pattern, pages.page(key))) ? [name] : [],
    );
  };
  assert.deepEqual(found(account), covered(account));
  assert.deepEqual(found(other), []);
  assert.deepEqual(found(versions), covered(versions));
  assert.deepEqual(found({ kind: 'versions', read: readText({ ...readView(view), chainId }) }), ['view']);
  assert.deepEqual(found({ kind: 'everything' }), Object.keys(keys));
});

test('a purge by marks covers every page that it covers by text', () => {
  const pages = reads.flatMap((read) => [1, chainId].map((chain) => cacheKey({ ...read, chainId: chain }).page));
  const scopes = [
    { kind: 'everything' } as const,
    ...['0x1', '0x10', '0x2'].map(
      (address) => ({ kind: 'account', chainId, address: Address.parse(address) }) as const,
    ),
    ...reads.map((read) => ({ kind: 'versions', read: readText({ ...read, chainId }) }) as const),
  ];
  let coveredPages = 0;
  for (const scope of scopes) {
    const [byMarks, byText] = [marksMatcher(scope), pageMatcher(scope)];
    for (const page of pages) {
      assert.equal(byMarks(marksOf(page)), byText(page), `${JSON.stringify(scope)} ${page}`);
      coveredPages += Number(byText(page));
    }
  }
  assert.ok(coveredPages > 40, `${coveredPages} pages`);
});

const everything = { kind: 'everything' } as const;

test('an answer read from Redis before its purge is dropped as well, here and at the other replicas', async () => {
  const memory = new MemoryCache(1_000_000);
  const tiers = new ReadThrough(memory, undefined, undefined);
  const [key, answer] = [keyAt(5n), answerOf('old')];
  memory.store(key, answer);
  let others = 'old';
  const { memory: reads } = await purge(everything, (scope) => tiers.purge(scope), {
    clear: () => {
      assert.deepEqual([memory.find(key), others], [undefined, '']);
      memory.store(key, answer);
      others = 'found in Redis';
      return Promise.resolve(1);
    },
    publishPurge: () => {
      others = '';
      return Promise.resolve({ notified: 1, acknowledged: 1 });
    },
  });
  assert.deepEqual([memory.find(key), others, reads], [undefined, '', 2]);
});

test('no load that is in flight at a purge is stored, in whatever order the loads before it end', async () => {
  const memory = new MemoryCache(1_000_000);
  const tiers = new ReadThrough(memory, undefined, undefined);
  const origin = { upstream: 'node', tookMs: 1, version: undefined, retryAfter: undefined };
  const begin = (version: bigint) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const key = keyAt(version);
    const loaded = loadThrough(tiers, key, () => promise.then(() => ({ answer: answerOf(`${version}`), origin })));
    return { key, end: () => (resolve(), loaded) };
  };
  const before = [0n, 1n, 2n, 3n, 4n, 5n].map(begin);
  const [first, , third, , , last] = before;
  for (const load of [first, last, third]) await load?.end();
  const after = begin(6n);
  await tiers.purge(everything);
  const later = begin(7n);
  for (const load of [...before, after, later]) await load.end();
  const kept = [...before, after, later].map(({ key }) => memory.find(key)?.body.toString());
  assert.deepEqual(kept.filter(Boolean), ['7']);
});

const all = { notified: 2, acknowledged: 2 };
const some = { notified: 2, acknowledged: 1 };

/** Keys that Redis deleted, the reports of the replicas before and after it, and whether the store has the purge. */
const outcomes = [
  ['nothing is missing', 3, [all, all], true, true],
  ['Redis could not be cleared', undefined, [all, all], true, false],
  ['no replica could be notified', 3, [undefined, undefined], true, false],
  ['a replica has not cleared before Redis was cleared', 3, [some, all], true, false],
  ['a replica has not cleared after Redis was cleared', 3, [all, some], true, false],
  ['the store has no record', 3, [all, all], false, false],
] as const;

for (const [name, keys, reports, isStoreClear, isComplete] of outcomes) {
  test(`a purge is ${isComplete ? '' : 'not '}complete: ${name}`, async () => {
    const left = [...reports];
    const purged = await purge(everything, () => Promise.resolve({ reads: 0, isStoreClear }), {
      clear: () => Promise.resolve(keys),
      publishPurge: () => Promise.resolve(left.shift()),
    });
    const last = reports.find((report) => report !== all) ?? all;
    const replicas = reports[0] === undefined ? 'unavailable' : { told: last?.notified, cleared: last?.acknowledged };
    assert.deepEqual([purged.isComplete, purged.redis, purged.replicas], [isComplete, keys ?? 'unavailable', replicas]);
  });
}

test('without Redis a purge is complete once memory and the store are clear', async () => {
  for (const [isStoreClear, isComplete, store] of [
    [undefined, true, 'off'],
    [true, true, 'cleared'],
    [false, false, 'unavailable'],
  ] as const) {
    const purged = await purge(everything, () => Promise.resolve({ reads: 3, isStoreClear }), undefined);
    const expected = { scope: 'everything', isComplete, memory: 3, store, redis: 'off', replicas: 'off' };
    assert.deepEqual(purged, expected);
  }
});
