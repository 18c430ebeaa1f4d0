import assert from 'node:assert/strict';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { Answers } from '../../../src/cache/memory/answers.ts';
import { contentDigest, type AnswerContent, type CachedResponse } from '../../../src/cache/record.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { answerOf } from '../../support/answers.ts';
import { fc } from '../../support/fast-check.ts';

const content: fc.Arbitrary<AnswerContent> = fc.record({
  status: fc.constantFrom(200, 404),
  contentType: fc.oneof(fc.constantFrom('application/json', 'application/x-bcs'), fc.string()),
  body: fc
    .oneof(fc.uint8Array({ maxLength: 800 }), fc.uint8Array({ minLength: 16_000, maxLength: 17_000 }))
    .map((bytes) => Buffer.from(bytes)),
  gasUsed: fc.option(fc.oneof(fc.nat().map(String), fc.string({ unit: 'grapheme' })), { nil: undefined }),
  cursor: fc.option(fc.oneof(fc.string(), fc.string({ minLength: 250, maxLength: 260 })), { nil: undefined }),
  ownHeaders: fc.option(fc.constantFrom('a: ', 'b: 1', 'trace: a b\tyield: 7', `long: ${'x'.repeat(4_000)}`), {
    nil: undefined,
  }),
  committedAt: fc.option(
    fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map((version) => LedgerVersion.of(version)),
    { nil: undefined },
  ),
  lifetimeMs: fc.constantFrom(600_000, Infinity),
});

function answer(of: AnswerContent): CachedResponse {
  return { ...of, digest: contentDigest(of), coded: {} };
}

test('an answer is read back unchanged, whatever its content', () => {
  const answers = new Answers();
  fc.assert(
    fc.property(content, (of) => {
      const given = answer(of);
      assert.deepEqual(answers.get(answers.hold(given)), given);
    }),
    { numRuns: 400 },
  );
});

test('equal answers are held once, and go with the last read that has them', () => {
  const answers = new Answers();
  const first = answers.hold(answerOf('the same'));
  assert.equal(answers.hold(answerOf('the same')), first);
  answers.release(first);
  assert.equal(answers.find(answerOf('the same').digest), first);
  answers.release(first);
  assert.deepEqual([answers.find(answerOf('the same').digest), answers.count, answers.bytes], [undefined, 0, 0]);
});

test("a reader's answer stays unchanged when its block is reused", () => {
  const answers = new Answers();
  const id = answers.hold(answerOf('first answer'));
  const given = answers.get(id);
  answers.release(id);
  for (let index = 0; index < 10_000; index += 1) answers.hold(answerOf(`other ${index}`));
  assert.equal(given.body.toString(), 'first answer');
});

test('answers are found by digest among many, while tables grow and others go', () => {
  const answers = new Answers();
  const ids = Array.from({ length: 20_000 }, (_, index) => answers.hold(answerOf(`answer ${index}`)));
  for (const [index, id] of ids.entries()) if (index % 3 === 0) answers.release(id);
  for (const [index, id] of ids.entries()) {
    const { digest } = answerOf(`answer ${index}`);
    assert.equal(answers.find(digest), index % 3 === 0 ? undefined : id);
  }
  assert.equal(answers.get(ids[1] as number).body.toString(), 'answer 1');
  answers.clear();
  assert.deepEqual([answers.count, answers.bytes, answers.find(answerOf('answer 1').digest)], [0, 0, undefined]);
  assert.equal(answers.get(answers.hold(answerOf('answer 1'))).body.toString(), 'answer 1');
});

test('compressed forms are kept with their answer, counted, and go with it', () => {
  const answers = new Answers();
  for (const body of [400, 60_000]) {
    const id = answers.hold(answerOf(body));
    const { bytes } = answers;
    answers.addCoded(id, 'gzip', Buffer.from('short'));
    const first = answers.bytes - bytes;
    answers.addCoded(id, 'gzip', Buffer.from('another'));
    assert.deepEqual(answers.get(id).coded, { gzip: Buffer.from('short') });
    answers.addCoded(id, 'br', Buffer.from('longer by 10   '));
    // Each counts for its bytes and for what a buffer takes beside them.
    assert.ok(first > 500, `${first} bytes`);
    assert.equal(answers.bytes - bytes, 2 * first + 10);
    answers.release(id);
    assert.equal(answers.bytes, 0);
  }
});

test('no stored answer retains a larger buffer', async () => {
  const answers = new Answers();
  const body = Buffer.allocUnsafe(20_000).fill('a');
  const coded = await promisify(gzip)(body);
  for (const pooled of [body, coded]) assert.ok(pooled.buffer.byteLength > 2 * pooled.length);

  const id = answers.hold(answerOf('', { body }));
  answers.addCoded(id, 'gzip', coded);

  const kept = answers.get(id);
  for (const [bytes, given] of [
    [kept.body, body],
    [kept.coded.gzip, coded],
  ] as const) {
    assert.deepEqual(bytes, given);
    assert.equal(bytes.buffer.byteLength, bytes.length);
  }
});

test('a buffer of its own is stored without a copy', () => {
  const answers = new Answers();
  const body = Buffer.alloc(60_000, 'a');
  assert.equal(answers.get(answers.hold(answerOf('', { body }))).body, body);
});

test('more kinds of content than have a number are held all the same', () => {
  const answers = new Answers();
  const given = Array.from({ length: 300 }, (_, index) => answerOf('a', { contentType: `application/x-${index}` }));
  const ids = given.map((one) => answers.hold(one));
  assert.deepEqual(
    ids.map((id) => answers.get(id).contentType),
    given.map(({ contentType }) => contentType),
  );
});

test("answers beyond the slabs' pages are stored all the same, each unchanged", () => {
  const answers = new Answers(3);
  const given = Array.from({ length: 5_000 }, (_, index) => answerOf(`answer ${index}`.padEnd(300)));
  const ids = given.map((answer) => answers.hold(answer));
  for (const [index, id] of ids.entries()) assert.deepEqual(answers.get(id), given[index]);
  // Objects count for more than blocks of this size.
  assert.ok(answers.bytes > 5_000 * 600, `${answers.bytes} bytes`);
  for (const id of ids) answers.release(id);
  assert.deepEqual([answers.count, answers.bytes], [0, 0]);
});
