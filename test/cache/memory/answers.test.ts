import assert from 'node:assert/strict';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { Answers, WideMap } from '../../../src/cache/memory/answers.ts';
import type { CachedResponse } from '../../../src/cache/record.ts';
import { anyAnswer } from '../../support/any-answer.ts';
import { answerOf } from '../../support/answers.ts';
import { fc } from '../../support/fast-check.ts';

test('an answer is read back unchanged, whatever its content', () => {
  const answers = new Answers();
  const isUnchanged = (given: CachedResponse) => assert.deepEqual(answers.get(answers.hold(given)), given);
  fc.assert(fc.property(anyAnswer, isUnchanged), { numRuns: 400 });
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

/** Under churn one Map of V8 takes half of 2^24: more for once, with 3 GB: LEDGERGATE_WIDE_MAP=9000000. */
const live = Number(process.env['LEDGERGATE_WIDE_MAP'] ?? 50_000);

test('entries of a wide map may come and go, however many there are', () => {
  const wide = new WideMap<number>();
  for (let next = 0; next < 3 * live; next += 1) {
    wide.set(next, next);
    if (next >= live) wide.delete(next - live);
  }
  const kept = [2 * live - 1, 2 * live, 3 * live - 1].map((next) => wide.get(next));
  assert.deepEqual(kept, [undefined, 2 * live, 3 * live - 1]);
});
