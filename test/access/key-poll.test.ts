import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { KeyPoll, type Fields } from '../../src/access/key-poll.ts';

/** A poll of what `read` says, and what it has told. */
function polled(t: TestContext, read: () => Fields) {
  const told: Fields[] = [];
  const events = { onKeys: (fields: Fields) => void told.push(fields), onTrouble: () => undefined };
  const poll = new KeyPoll({ read: () => Promise.resolve(read()) }, events);
  t.after(() => poll.close());
  return { told, look: () => poll.start() };
}

test('keys are told once, and again when one has come, gone or changed; their order is nothing', async (t) => {
  const states: readonly (readonly [Fields, number])[] = [
    [{ a: '1', b: '2' }, 1],
    [{ a: '1', b: '2' }, 1],
    [{ b: '2', a: '1' }, 1],
    [{ a: '1', b: '3' }, 2],
    [{ a: '1' }, 3],
    [{ a: '1', c: '3' }, 4],
    [{ a: '1', b: '3' }, 5],
    [{}, 6],
    [{}, 6],
  ];
  let now: Fields = {};
  const { told, look } = polled(t, () => now);
  for (const [fields, count] of states) {
    now = fields;
    await look();
    assert.equal(told.length, count, JSON.stringify(fields));
  }
});

test('to see that nothing has changed costs less than making a text of all keys', async (t) => {
  const hashes = Array.from({ length: 20_000 }, (_, index) => createHash('sha256').update(`${index}`).digest('hex'));
  const fields = (): Fields => Object.fromEntries(hashes.map((hash) => [hash, '{"name":"a","plan":"free"}']));
  let now = fields();
  const { told, look } = polled(t, () => now);
  await look();
  const [looks, texts]: [number[], number[]] = [[], []];
  for (let round = 0; round < 5; round += 1) {
    now = fields();
    looks.push(await timeOf(look));
    texts.push(
      await timeOf(() => JSON.stringify(Object.entries(now).sort(([one], [other]) => (one < other ? -1 : 1)))),
    );
  }
  assert.equal(told.length, 1);
  assert.ok(Math.min(...looks) < Math.min(...texts) / 1.5, `${Math.min(...looks)} µs, ${Math.min(...texts)} µs`);
});

/** In microseconds of the processor. */
async function timeOf(work: () => unknown): Promise<number> {
  const { user } = process.cpuUsage();
  await work();
  return process.cpuUsage().user - user;
}
