/** What comes from nodes, from Redis, and from other replicas by way of it. */
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { JsonBody } from '../../src/ledger/answer-body.ts';
import { findScope, formatScope, keyMatcher } from '../../src/cache/purge.ts';
import { decodeRecord, decodeReference, encodeRecord, encodeReference } from '../../src/cache/record.ts';
import type { RedisClient } from '../../src/cache/redis/redis-source.ts';
import type { RedisLink } from '../../src/cache/redis/redis-link.ts';
import { type ReplicaNews, News } from '../../src/cache/redis/news.ts';
import { Dialect } from '../../src/ledger/ledger-headers.ts';
import { Submissions } from '../../src/proxy/routes/submissions.ts';
import { answerOf, keyAt } from '../support/answers.ts';
import { fc } from '../support/fast-check.ts';
import { soup } from './soup.ts';
import { fuzzTarget } from './target.ts';

const dialect = new Dialect('node');
const names = dialect.seven;
const number = fc.oneof(
  fc.constantFrom(...'0 1 4 255 256 18446744073709551615 18446744073709551616 -1 +1 1.0 0x1'.split(' '), ''),
  fc.bigInt({ min: 0n, max: 2n ** 65n }).map(String),
  fc.string(),
);
const value = fc.oneof(
  { arbitrary: number, weight: 12 },
  { arbitrary: fc.array(number), weight: 1 },
  { arbitrary: fc.constant(undefined), weight: 1 },
);
const headers = fc
  .tuple(...names.map(() => value))
  .map((values) => Object.fromEntries(values.map((text, at) => [names[at], text])));

const key = keyAt(500n);
const otherKey = keyAt(501n);
const bodies = ['{"a":"1"}', 'b'.repeat(5_000), ''];
const records = await Promise.all(
  bodies.map(async (body) => {
    const answer = answerOf(body, { gasUsed: '7', cursor: 'ab' });
    const record = await encodeRecord(answer);
    assert.ok(record !== undefined);
    return { answer, record };
  }),
);
const damage = fc.array(fc.record({ at: fc.nat(), byte: fc.nat({ max: 255 }), cut: fc.nat({ max: 3 }) }), {
  maxLength: 4,
});

const scopes = fc.oneof(
  fc.constantFrom(
    { kind: 'everything' } as const,
    { kind: 'read', key } as const,
    { kind: 'versions', read: '4|view|a@5|json|' } as const,
  ),
);
const messages = soup(
  'served ',
  'refused ',
  'purge ',
  'purged ',
  '5',
  ' ',
  'a'.repeat(22),
  '00000000-0000-0000-0000-000000000000',
  'everything',
  'account 4 0x1',
  'read ',
  'versions ',
  '@',
  '\n',
  '18446744073709551615',
);

const nothing = () => Promise.resolve({});

/** A listener to the news of others, with no Redis behind it. */
async function newsListener() {
  const heard: bigint[] = [];
  const subscriber = Object.assign(new EventEmitter(), {
    subscribe: () => Promise.resolve(),
    unsubscribe: () => Promise.resolve(),
    disconnect: () => undefined,
  });
  const link = { write: nothing, read: nothing, runFor: nothing, servers: () => [] };
  const listener = {
    onNews: (news: ReplicaNews) => heard.push(news.kind === 'shared' ? news.info.version : news.version),
    onPurge: () => Promise.resolve(true),
  };
  const state = new News(
    link as unknown as RedisLink,
    subscriber as unknown as RedisClient,
    'lg',
    () => '4',
    () => undefined,
    listener,
  );
  await state.follow();
  state.close();
  return { heard, tell: (message: string) => subscriber.emit('message', 'lg:news:4', message) };
}

const news = await newsListener();
const submissions = new Submissions();

export const neighbourTargets = [
  fuzzTarget('ledger headers', headers, (given) => {
    const info = dialect.findInfo(given);
    if (info === undefined) return;
    assert.ok(info.chainId >= 0 && info.chainId <= 255);
    assert.ok(info.oldestVersion <= info.version && info.version < 2n ** 64n);
    assert.ok(info.oldestBlockHeight <= info.blockHeight);
    const list = dialect.list(info);
    const again = Object.fromEntries(names.map((name, at) => [name, list[2 * at + 1]]));
    assert.deepEqual(dialect.findInfo(again), info);
  }),
  fuzzTarget(
    'JSON of nodes',
    soup('{', '}', '"', ':', ',', '"hash"', '"error_code"', 'null', '[', ']', '"__proto__"', '0'),
    (text) => {
      const body = Buffer.from(text);
      const json = new JsonBody(body);
      assert.equal(typeof json.members, 'object');
      assert.ok(json.isJson || Object.keys(json.members).length === 0);
      void submissions.recordAnswer('a', { status: 202, body, json });
    },
  ),
  fuzzTarget('record of Redis', fc.tuple(fc.nat({ max: records.length - 1 }), damage), async ([at, changes]) => {
    const { answer, record } = records[at] ?? { answer: answerOf(''), record: Buffer.alloc(0) };
    let bytes = Buffer.from(record);
    for (const { at: place, byte, cut } of changes) {
      bytes[place % bytes.length] = byte;
      bytes = Buffer.from(bytes.subarray(0, bytes.length - Math.min(cut, bytes.length - 1)));
    }
    const decoded = await decodeRecord(bytes, answer.digest);
    if (decoded !== undefined) assert.deepEqual({ ...decoded, coded: {} }, { ...answer, coded: {} });
    else assert.ok(!bytes.equals(record));
  }),
  fuzzTarget(
    'bytes for a record of Redis',
    fc.tuple(fc.uint8Array({ maxLength: 200 }), fc.boolean()),
    async (given) => {
      const [bytes, isOurs] = given;
      const record = Buffer.concat([isOurs ? records[0]!.record.subarray(0, 3) : Buffer.alloc(0), bytes]);
      assert.equal(await decodeRecord(record, answerOf('x').digest), undefined);
    },
  ),
  fuzzTarget(
    'reference of Redis',
    fc.tuple(soup('.', 'a', '-', '0', 'z', 'A'.repeat(22)), fc.nat({ max: 60 }), fc.string({ maxLength: 2 })),
    ([text, at, put]) => {
      assert.equal(decodeReference(key, text), undefined);
      const reference = encodeReference(key, { digest: answerOf('x').digest, expiresAt: 5 });
      assert.equal(decodeReference(otherKey, reference), undefined);
      const damaged = reference.slice(0, at) + put + reference.slice(at + put.length);
      if (damaged !== reference) assert.equal(decodeReference(key, damaged), undefined);
    },
  ),
  fuzzTarget('scope of a purge', fc.tuple(messages, scopes), ([text, scope]) => {
    assert.deepEqual(findScope(formatScope(scope)), scope);
    const found = findScope(text);
    if (found === undefined) return;
    assert.deepEqual(findScope(formatScope(found)), found);
    assert.equal(typeof keyMatcher(found)(key), 'boolean');
  }),
  fuzzTarget('news of other replicas', messages, (message) => {
    news.heard.length = 0;
    news.tell(message);
    for (const version of news.heard) assert.ok(version >= 0n && version < 2n ** 64n);
  }),
];
