// Large bodies share the event loop: the time of their work in one turn has a bound, and clients alternate.
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { test } from 'node:test';
import { BodyTurns } from '../../src/ledger/body-turns.ts';

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
