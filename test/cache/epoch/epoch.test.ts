/** Epochs of a ledger's history, as plain data. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  admits,
  continued,
  endedField,
  everyEpoch,
  formatEpoch,
  readEpochs,
  surplusFields,
  epochAt,
  type Epoch,
} from '../../../src/cache/epoch/epoch.ts';

const root = 'ab'.repeat(32);

function epochOf(id: string, version: bigint, bornMs = 5): Epoch {
  return { id, bornMs, checkpoint: { version, root }, before: [] };
}

test('an epoch is read as it was written, with the epochs before it', () => {
  const child = continued(continued(epochOf('aaaaaaaa', 100n), 'bbbbbbbb', 6), 'cccccccc', 7);
  const epoch = { ...child, checkpoint: { version: 2n ** 64n - 1n, root } };
  assert.deepEqual(readEpochs({ cccccccc: formatEpoch(epoch) }).open, [epoch]);
});

test('a text of another form is no epoch', () => {
  const text = formatEpoch(epochOf('aaaaaaaa', 100n));
  const wrong = {
    short: text,
    aaaaaaaax: text,
    xaaaaaaaa: text,
    AAAAAAAA: text,
    aaaaaaa1: `${text} `,
    aaaaaaa2: text.replace('100', '18446744073709551616'),
    aaaaaaa3: text.slice(0, -1),
    aaaaaaa4: text.toUpperCase(),
    aaaaaaa5: `${text} aaaaaaaa@x`,
    aaaaaaa6: `x${text}`,
    aaaaaaa7: `${text}${' aaaaaaaa@1'.repeat(65)}`,
    aaaaaaa8: '',
    'ended:aaaaaaa': '1',
    'ended:aaaaaaaaa': '1',
    'xended:aaaaaaaa': '1',
  };
  assert.deepEqual(readEpochs(wrong), { open: [], ended: new Set() });
});

test('epochs are read oldest first, of equals by name, and ended ones apart', () => {
  const fields = Object.fromEntries([
    ['aaaaaaaa', formatEpoch(epochOf('aaaaaaaa', 1n, 9))],
    ['cccccccc', formatEpoch(epochOf('cccccccc', 1n, 5))],
    ['bbbbbbbb', formatEpoch(epochOf('bbbbbbbb', 1n, 5))],
    ['dddddddd', formatEpoch(epochOf('dddddddd', 1n, 1))],
    [endedField('dddddddd'), '1'],
  ]);
  const backwards = Object.fromEntries(Object.entries(fields).reverse());
  assert.deepEqual(readEpochs(backwards), readEpochs(fields));
  const epochs = readEpochs(fields);
  assert.deepEqual(
    epochs.open.map(({ id }) => id),
    ['bbbbbbbb', 'cccccccc', 'aaaaaaaa'],
  );
  assert.deepEqual(epochs.ended, new Set(['dddddddd']));
  const all = ['aaaaaaaa', 'bbbbbbbb', 'cccccccc', 'dddddddd'];
  assert.deepEqual([...everyEpoch(epochs)].sort(), all);
  assert.deepEqual([...everyEpoch(epochs, epochOf('eeeeeeee', 1n))].sort(), [...all, 'eeeeeeee']);
});

test('answers of an epoch without members are used up to its checkpoint and no further', () => {
  const child = continued(epochOf('aaaaaaaa', 100n), 'bbbbbbbb', 6);
  assert.deepEqual(
    [0n, 99n, 100n, 101n, undefined].map((version) => epochAt(child, version)),
    ['aaaaaaaa', 'aaaaaaaa', 'aaaaaaaa', 'bbbbbbbb', 'bbbbbbbb'],
  );
  const moved = { ...child, checkpoint: { version: 150n, root } };
  const third = continued(moved, 'cccccccc', 7);
  assert.deepEqual(
    [100n, 101n, 150n, 151n].map((version) => epochAt(third, version)),
    ['aaaaaaaa', 'bbbbbbbb', 'bbbbbbbb', 'cccccccc'],
  );
  assert.deepEqual(everyEpoch({ open: [third], ended: new Set() }), ['cccccccc', 'aaaaaaaa', 'bbbbbbbb']);
});

test('an epoch that never advanced leaves the epochs before it unchanged', () => {
  const child = continued(epochOf('aaaaaaaa', 100n), 'bbbbbbbb', 6);
  const third = continued(child, 'cccccccc', 7);
  assert.deepEqual(third.before, child.before);
});

test('an epoch keeps the names of 64 before it', () => {
  let epoch = epochOf('00000000', 1n);
  for (let step = 1; step <= 70; step += 1) {
    const next = continued(epoch, String(step).padStart(8, '0'), step);
    epoch = { ...next, checkpoint: { version: BigInt(step * 10), root } };
  }
  assert.equal(epoch.before.length, 64);
  assert.deepEqual(readEpochs({ [epoch.id]: formatEpoch(epoch) }).open, [epoch]);
  // Versions of dropped names belong to the oldest that is left: they are read anew.
  assert.equal(epochAt(epoch, 0n), epoch.before[0]?.id);
});

test('beyond sixteen epochs the fields of ended ones go first, then those of the oldest', () => {
  const ids = Array.from({ length: 16 }, (_, index) => `a${String(index).padStart(7, '0')}`);
  const fields = Object.fromEntries(ids.map((id, index) => [id, formatEpoch(epochOf(id, 1n, index))]));
  assert.deepEqual(surplusFields(readEpochs(fields)), []);
  const [ended, oldest] = ['zzzzzzzz', ids[0] ?? ''];
  const one = readEpochs({ ...fields, [endedField(ended)]: '1' });
  assert.deepEqual(surplusFields(one), [ended, endedField(ended)]);
  const two = readEpochs({ ...fields, [endedField(ended)]: '1', bbbbbbbb: formatEpoch(epochOf('bbbbbbbb', 1n, 99)) });
  assert.deepEqual(surplusFields(two), [ended, endedField(ended), oldest, endedField(oldest)]);
});

test('an answer is stored from the checkpoint on, where the node reported its head', () => {
  const epoch = epochOf('aaaaaaaa', 100n);
  assert.deepEqual(
    [99n, 100n, 101n, undefined].map((head) => admits(epoch, head)),
    [false, true, true, false],
  );
});
