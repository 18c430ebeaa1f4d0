import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { TurnShares, type PacedWork } from '../../../../src/proxy/http/server/turn-shares.ts';

/** Shares whose clock moves with each piece of work; pieces are noted by their names. */
function world() {
  let nowMs = 0;
  const done: string[] = [];
  const shares = new TurnShares(() => nowMs);
  const workOf = (client: string, name: string, pieces: number, pieceMs: number): PacedWork => {
    let left = pieces;
    return {
      client,
      work(isOver) {
        do {
          done.push(name);
          nowMs += pieceMs;
          left -= 1;
        } while (left > 0 && !isOver());
        return left > 0;
      },
    };
  };
  /** The pieces since the last call. */
  const taken = (): string[] => done.splice(0);
  return { shares, workOf, taken };
}

test('work above the share of its client waits for the next turn, and work of another client does not', async () => {
  const { shares, workOf, taken } = world();
  shares.begin(workOf('hostile', 'one', 5, 1));
  shares.begin(workOf('hostile', 'two', 1, 1));
  shares.begin(workOf('quiet', 'other', 1, 1));
  // The share of two clients is 2 ms each; `two` comes behind the rest of `one`.
  assert.deepEqual(taken(), ['one', 'other']);
  await nextTurn();
  assert.deepEqual(taken(), ['one', 'two']);
  await nextTurn();
  assert.deepEqual(taken(), ['one', 'one']);
});

test('connections of one client take turns within its share, and none is lost', async () => {
  const { shares, workOf, taken } = world();
  for (const name of ['a', 'b', 'c']) shares.begin(workOf('hostile', name, 4, 0.25));
  const all: string[][] = [taken()];
  for (let turn = 0; turn < 3; turn += 1) {
    await nextTurn();
    all.push(taken());
  }
  // Half a millisecond each.
  assert.deepEqual(
    all.map((turn) => turn.join('')),
    ['aa', 'aabbccbb', 'cc', ''],
  );
});

test('many clients share a turn', async () => {
  const { shares, workOf, taken } = world();
  for (let client = 0; client < 16; client += 1) shares.begin(workOf(`client ${client}`, 'x', 10, 0.5));
  taken();
  await nextTurn();
  // 8 ms for all.
  assert.equal(taken().length, 16);
});

test('work that is charged without a measurement uses the share up', () => {
  const { shares, workOf, taken } = world();
  const charges = Array.from({ length: 4 }, () => shares.charge('hostile', 0.75));
  assert.deepEqual(charges, [true, true, false, false]);
  shares.begin(workOf('hostile', 'late', 1, 1));
  assert.deepEqual(taken(), []);
});
