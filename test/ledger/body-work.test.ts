// The work on one hostile body, counted: by its bytes up to the bound, and the same for all above it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { BodyTurns } from '../../src/ledger/body-turns.ts';
import { countWork, startCounting } from '../support/counted-work.ts';

await startCounting();
const { parseTableBody, parseViewBody } = await import('../../src/proxy/routes/canonical-body.ts');
const { parseSubmission } = await import('../../src/encode/submission.ts');
const { Steps } = await import('../../src/encode/outcome.ts');
const { JsonSkim } = await import('../../src/ledger/json-skim.ts');

const files = /\/src\/(?:encode|ledger|proxy\/routes)\//;

const many = (bytes: number, item: (index: number) => string): string => {
  const items: string[] = [];
  for (let length = 0, at = 0; length < bytes; at += 1, length += (items.at(-1)?.length ?? 0) + 1) items.push(item(at));
  return items.slice(0, -1).join();
};
const shapes: Readonly<Record<string, (bytes: number) => string>> = {
  'nested 110 deep': (bytes) => `[${many(bytes, () => '['.repeat(110) + ']'.repeat(110))}]`,
  'one wide array': (bytes) => `[${many(bytes, () => '0')}]`,
  'strings with escapes': (bytes) => `[${many(bytes, () => '"a\\n\\u00e9"')}]`,
  'members in order': (bytes) => `{${many(bytes, (at) => `"k${100_000 + at}":1`)}}`,
  'members in reverse order': (bytes) => `{${many(bytes, (at) => `"k${900_000 - at}":1`)}}`,
  'one long text': (bytes) => `"0x${'ab'.repeat(bytes / 2)}"`,
};
const view = (value: string): Buffer =>
  Buffer.from(`{"function":"0x1::a::f","type_arguments":[],"arguments":[${value}]}`);
const item = (value: string): Buffer => Buffer.from(`{"key_type":"u8","value_type":"u8","key":${value}}`);

for (const [title, shapeOf] of Object.entries(shapes)) {
  test(`a read with ${title} takes work by its bytes up to 8 kB, and next to none above`, async () => {
    const parsers = {
      view: (value: string) => parseViewBody('application/json', view(value)),
      item: (value: string) => parseTableBody('table_item', item(value), undefined),
    };
    for (const parse of Object.values(parsers)) {
      const [within, above] = [shapeOf(8_000), shapeOf(110_000)];
      const work = await countWork(files, () => assert.match(parse(within).subject, /^json:/));
      assert.ok(work < 20 * within.length + 1_000, `${work} blocks for ${within.length} bytes`);
      const fixed = await countWork(files, () => assert.match(parse(above).subject, /^text:/));
      assert.ok(fixed < 50, `${fixed} blocks above the bound`);
    }
  });

  test(`a signing request with ${title} takes work by 5,000 values and by plain characters`, async () => {
    const body = `{"x":${shapeOf(110_000)}}`;
    const work = await countWork(files, () => assert.throws(() => parseSubmission(body, new Steps())));
    assert.ok(work < 50 * 5_000 + 2 * body.length, `${work} blocks`);
  });

  test(`each step of an answer with ${title} takes work by its length alone`, async () => {
    const skim = new JsonSkim(Buffer.from(shapeOf(200_000)));
    const ends: boolean[] = [];
    while (ends.at(-1) !== true) {
      const work = await countWork(files, () => ends.push(skim.step(10_000)));
      assert.ok(work < 20 * 10_000, `${work} blocks for 10,000 bytes`);
    }
    assert.ok(ends.length >= 20);
    assert.ok(skim.facts !== undefined);
  });
}

// Large bodies share the event loop: the time of their work in one turn has a bound, and clients alternate.

/** A share of 10 ms by a clock that only work moves. `turns`: what was done in each. */
function scene() {
  let nowMs = 0;
  const work = new BodyTurns(10, () => nowMs);
  const turns: string[][] = [[]];
  const run = (client: string, tookMs: number): string | Promise<string> =>
    work.run(client, () => {
      nowMs += tookMs;
      turns.at(-1)?.push(client);
      return client;
    });
  const pass = async (): Promise<void> => {
    turns.push([]);
    await nextTurn();
  };
  return { work, run, pass, turns };
}

test('work is done at once, without a promise, while the turn has time left', async () => {
  const { run, pass, turns } = scene();

  assert.deepEqual([run('a', 4), run('a', 5), run('a', 30)], ['a', 'a', 'a']);
  assert.ok(run('b', 1) instanceof Promise);
  await pass();
  await pass();

  assert.deepEqual(turns, [['a', 'a', 'a'], ['b'], []]);
  assert.equal(run('a', 1), 'a');
});

test('work beyond the share waits for the next turns, as much in each as it has time for', async () => {
  const { run, pass, turns } = scene();
  const pieces = Array.from({ length: 7 }, async () => run('a', 4));
  for (let turn = 0; turn < 3; turn += 1) await pass();

  assert.deepEqual(
    turns.map(({ length }) => length),
    [3, 3, 1, 0],
  );
  assert.deepEqual(
    await Promise.all(pieces),
    Array.from({ length: 7 }, () => 'a'),
  );
});

test('a client with one piece has the first turn but one, whatever another client has waiting', async () => {
  const { run, pass, turns } = scene();
  for (let piece = 0; piece < 50; piece += 1) void run('greedy', 10);
  void run('modest', 10);
  void run('third', 10);
  for (let turn = 0; turn < 4; turn += 1) await pass();

  assert.deepEqual(turns, [['greedy'], ['greedy'], ['modest'], ['third'], ['greedy']]);
});

test('nobody passes those who wait, even with time left', async () => {
  const { run, pass, turns } = scene();
  void run('a', 10);
  void run('b', 1);
  const late = pass().then(() => run('c', 1));
  void run('d', 1);

  assert.equal(await late, 'c');
  assert.deepEqual(turns, [['a'], ['b', 'd', 'c']]);
});

test('an error is that of its own work, and counts as time', async () => {
  const { work, run, pass, turns } = scene();
  const fail = (): never => {
    void run('inner', 10);
    throw new Error('broken');
  };

  assert.throws(() => work.run('a', fail), /broken/);
  const waiting = assert.rejects(async () => work.run('a', fail), /broken/);
  const after = run('a', 1);
  for (let turn = 0; turn < 3; turn += 1) await pass();
  await waiting;

  assert.equal(await after, 'a');
  assert.equal(turns.flat().length, 3);
});
