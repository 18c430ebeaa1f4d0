import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { cacheKey, keyOn, keyText, readText, versionOf, type KeyParts } from '../../src/cache/key.ts';
import {
  type AnswerContent,
  type CachedResponse,
  decodeRecord,
  decodeReference,
  encodeRecord,
  encodeReference,
  largestBody,
  smallestCompressed,
} from '../../src/cache/record.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { answerOf, keyAt } from '../support/answers.ts';
import { anyAnswer } from '../support/any-answer.ts';
import { fc } from '../support/fast-check.ts';

/** Bytes before the first text, and where in them the length of the body stands. */
const headBytes = 22;
const lengthAt = 18;

async function recordOf(answer: CachedResponse): Promise<Buffer> {
  const record = await encodeRecord(answer);
  assert.ok(record !== undefined);
  return record;
}

const content = (changes: Partial<AnswerContent> = {}): Partial<AnswerContent> => ({
  gasUsed: '12',
  cursor: '0x00ff',
  committedAt: LedgerVersion.of(81n),
  ...changes,
});

/** One answer of each kind of body. */
const samples = [
  answerOf('{"a":1}', content()),
  answerOf('{"a":1}'),
  answerOf('{"a":1}', content({ ownHeaders: 'trace: a b\tyield: 7' })),
  answerOf('{"a":1}', { ownHeaders: 'yield: 7' }),
  answerOf('{"coin":{"value":"12"}},'.repeat(200), content({ lifetimeMs: 600_000 })),
];

test('an answer is read back unchanged', async () => {
  await fc.assert(
    fc.asyncProperty(anyAnswer, async (answer) => {
      const record = await encodeRecord(answer);
      // A content type of more than 255 bytes has none.
      fc.pre(record !== undefined);
      assert.deepEqual(await decodeRecord(record, answer.digest), answer);
    }),
  );
});

test('an answer without own headers has the digest and the record that earlier gateways write and read', async () => {
  const answer = answerOf('{"a":1}', content());
  assert.equal(answer.digest, 'gJzQnQvrpnhM7QzsXndAT7');
  const head = '4c47011c00c810020006000000000000005100000007';
  assert.equal(
    (await recordOf(answer)).toString('hex'),
    `${head}${Buffer.from('application/json120x00ff{"a":1}').toString('hex')}`,
  );
});

test('answers that differ in anything a client can see have digests of their own, and no part can imitate another', () => {
  const body = Buffer.alloc(1_000_000);
  const others: readonly (readonly [body: string, changes: Partial<AnswerContent>])[] = [
    ['', { body }],
    ['', { body: Buffer.concat([body.subarray(1), Buffer.of(1)]) }],
    ['x', {}],
    ['x', { status: 404 }],
    ['x', { contentType: 'application/x-bcs' }],
    ['x', { gasUsed: '1' }],
    ['x', { cursor: '1' }],
    ['x', { lifetimeMs: 600_000 }],
    ['x', { ownHeaders: 'a: 1' }],
    ['x', { ownHeaders: 'a: 2' }],
    ['x', { ownHeaders: 'a: 1\tb: 2' }],
    ['a: 1\nx', {}],
    [' a: 1\nx', {}],
    ['x', { cursor: 'a: 1' }],
  ];
  const digests = others.map(([text, changes]) => answerOf(text, changes).digest);
  assert.equal(new Set(digests).size, others.length);
  for (const digest of digests) assert.match(digest, /^[\w-]{22}$/);
});

test('a record with forged own headers is no answer', async () => {
  const forged = [
    'epoch: 9',
    'cursor: 00',
    'gas-used: 1',
    'Upper: 1',
    'a:1',
    ': 1',
    '',
    'a: 1\t',
    'a: \u00e9',
    'a b: 1',
  ];
  forged.push('a: 1\r\nb: 2', Array.from({ length: 9 }, (_, at) => `h${at}: 1`).join('\t'), `a: ${'x'.repeat(5_000)}`);
  for (const ownHeaders of forged) {
    const answer = answerOf('x', { ownHeaders });
    assert.equal(await decodeRecord(await recordOf(answer), answer.digest), undefined, JSON.stringify(ownHeaders));
  }
});

test('with any one byte changed a record is no answer, or still the same one', async () => {
  for (const answer of samples) {
    const record = await recordOf(answer);
    const others = record.length < 300 ? [1, 2, 4, 8, 16, 32, 64, 128, 255] : [1, 128];
    for (let at = 0; at < record.length; at += 1) {
      for (const change of others) {
        const damaged = Buffer.from(record);
        damaged[at]! ^= change;
        const decoded = await decodeRecord(damaged, answer.digest);
        // Compressed bytes have bits without a meaning; the body must be the same to the byte even so.
        const isCompressed = answer.body.length >= smallestCompressed;
        if (decoded !== undefined) assert.ok(isCompressed, `byte ${at} of ${record.length}`);
        if (decoded !== undefined) assert.deepEqual(decoded, answer);
      }
    }
  }
});

test('a record that is cut off anywhere, or longer, is no answer', async () => {
  for (const answer of samples) {
    const record = await recordOf(answer);
    for (let length = 0; length < record.length; length += 1) {
      assert.equal(await decodeRecord(record.subarray(0, length), answer.digest), undefined, `${length} bytes`);
    }
    if (answer.body.length < smallestCompressed) {
      assert.equal(await decodeRecord(Buffer.concat([record, Buffer.of(0)]), answer.digest), undefined);
    }
  }
});

test('a record is read for its own digest and format only', async () => {
  const [first, second] = samples as [CachedResponse, CachedResponse];
  const record = await recordOf(first);
  assert.equal(await decodeRecord(record, second.digest), undefined);
  for (let format = 0; format < 256; format += 1) {
    const other = Buffer.from(record).fill(format, 2, 3);
    assert.equal((await decodeRecord(other, first.digest)) !== undefined, format === 1, `format ${format}`);
  }
});

test('a claimed length takes no memory, and neither does a body that expands beyond it', async () => {
  const answer = answerOf('b'.repeat(smallestCompressed));
  const record = await recordOf(answer);
  const head = record.subarray(0, headBytes + answer.contentType.length);
  const bomb = zstdCompressSync(Buffer.alloc(256 * 1024 * 1024));
  const claims = [0xffff_ffff, largestBody + 1, largestBody, 1_000];
  const before = process.resourceUsage().maxRSS;
  for (const claim of claims) {
    const [damaged, bombed] = [Buffer.from(record), Buffer.concat([head, bomb])];
    damaged.writeUInt32BE(claim, lengthAt);
    bombed.writeUInt32BE(claim, lengthAt);
    assert.equal(await decodeRecord(damaged, answer.digest), undefined);
    assert.equal(await decodeRecord(bombed, answer.digest), undefined);
  }
  // One body of the largest size may be there for a moment: in pieces, and in one.
  const grownKib = process.resourceUsage().maxRSS - before;
  assert.ok(grownKib < (3 * largestBody) / 1024, `${grownKib} KiB`);
});

test("a window wider than the writer's is refused before its allocation", async () => {
  const answer = answerOf('c'.repeat(smallestCompressed));
  const record = await recordOf(answer);
  const head = record.subarray(0, headBytes + answer.contentType.length);
  // RFC 8878 3.1.1: magic, a descriptor without content size, the window, and one last block as it is.
  const block = Buffer.alloc(3);
  block.writeUIntLE(1 | (answer.body.length << 3), 0, 3);
  const withWindow = (log: number): Buffer =>
    Buffer.concat([head, Buffer.of(0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3), block, answer.body]);
  assert.deepEqual(await decodeRecord(withWindow(19), answer.digest), answer);
  assert.equal(await decodeRecord(withWindow(27), answer.digest), undefined);
});

test('an answer with a header or a body beyond all bounds is not shared', async () => {
  assert.equal(await encodeRecord(answerOf('', { contentType: 'x'.repeat(256) })), undefined);
  assert.equal(await encodeRecord(answerOf('', { cursor: 'x'.repeat(65_536) })), undefined);
  assert.equal(await encodeRecord(answerOf(largestBody + 1)), undefined);
});

test("references are read back, and fit Redis' compact encoding", () => {
  fc.assert(
    fc.property(fc.option(fc.integer({ min: 0, max: 2 ** 33 }), { nil: undefined }), (expiresAt) => {
      const reference = { digest: samples[0]!.digest, expiresAt };
      const text = encodeReference(keyAt(7n), reference);
      assert.deepEqual(decodeReference(keyAt(7n), text), reference);
      assert.ok(text.length <= 64);
    }),
  );
});

test('a reference with any character changed, missing or added is none', () => {
  const key = keyAt(7n);
  for (const expiresAt of [undefined, 1_800_000_000]) {
    const text = encodeReference(key, { digest: samples[0]!.digest, expiresAt });
    for (let at = 0; at < text.length; at += 1) {
      assert.equal(decodeReference(key, text.slice(0, at)), undefined);
      for (let code = 0; code < 256; code += 1) {
        const changed = text.slice(0, at) + String.fromCharCode(code) + text.slice(at + 1);
        if (changed !== text) assert.equal(decodeReference(key, changed), undefined, changed);
      }
    }
    for (const more of ['0', ' ', '\n', '.']) assert.equal(decodeReference(key, text + more), undefined);
  }
});

test('a reference belongs to one read: not to another slot, page or thing', () => {
  const reference = { digest: samples[0]!.digest, expiresAt: undefined };
  const text = encodeReference(keyAt(7n), reference);
  for (let version = 0n; version < 20_000n; version += 1n) {
    if (version !== 7n) assert.equal(decodeReference(keyAt(version), text), undefined, `version ${version}`);
  }
  assert.equal(decodeReference(keyAt(7n, '0x2/0x1::coin::CoinStore'), text), undefined);
});

// Keys and the versions that they are of.

const parts: Omit<KeyParts, 'version'> = { chainId: 4, operation: 'resource', subject: '0x1/0x1::a::B', form: 'json' };
const keyWith = (version: bigint | undefined) =>
  cacheKey({ ...parts, version: version === undefined ? undefined : LedgerVersion.of(version) });

test('a key names its read, the page of its version, and the slot on it', () => {
  const { page, slot, id } = keyWith(3n * 4096n + 5n);
  assert.deepEqual([page, slot], ['4|resource|0x1/0x1::a::B|json|3', 5]);
  assert.equal(keyText({ page, slot, id }), '4|resource|0x1/0x1::a::B|json|3@5');
  assert.deepEqual(keyOn(page, slot), { page, slot, id });
  assert.equal(page, `${readText(parts)}3`);
  assert.equal(id.length, 32);
});

test('a key contains its version, over the whole range', () => {
  for (const version of [0n, 1n, 4095n, 4096n, 4097n, 2n ** 53n + 1n, 2n ** 64n - 1n]) {
    assert.equal(versionOf(keyWith(version)), version);
  }
  assert.equal(versionOf(keyWith(undefined)), undefined);
});

test('a subject of 400 characters is kept as it is, a longer one as its digest', () => {
  const [kept, cut] = [400, 401].map((length) => readText({ ...parts, subject: 'x'.repeat(length) }));
  assert.equal(kept, `4|resource|${'x'.repeat(400)}|json|`);
  assert.match(cut ?? '', /^4\|resource\|sha256:[\w-]{43}\|json\|$/);
  assert.notEqual(cut, readText({ ...parts, subject: `${'x'.repeat(400)}y` }));
});
