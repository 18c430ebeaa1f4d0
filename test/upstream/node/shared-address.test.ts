import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RetentionWindow } from '../../../src/upstream/node/retention-window.ts';
import { SharedAddress } from '../../../src/upstream/node/shared-address.ts';
import { holdingOf } from '../../../src/upstream/select/ranking.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';

/** `500-900`: oldest version and head. */
type Window = `${number}-${number}`;

function ledger(window: Window, chainId = 1) {
  const [oldest = '', head = ''] = window.split('-');
  return ledgerInfo({ version: BigInt(head), oldest: BigInt(oldest), chainId });
}

/** One answer after the other, `everyMs` apart, to requests of 1 ms. */
function addressAfter(windows: string, everyMs = 100): SharedAddress {
  const address = new SharedAddress();
  for (const [index, window] of windows.split(' ').entries())
    address.observe(ledger(window as Window), index * everyMs, index * everyMs + 1);
  return address;
}

const several: readonly (readonly [string, string])[] = [
  ['nodes of two windows, in turn', '500-900 0-901 500-902 0-903'],
  ['nodes of two heads', '0-900 0-800 0-902 0-802'],
  ['three nodes, each several times', '0-9 0-9 5-9 5-9 3-9 3-9 0-9'],
];

for (const [title, windows] of several) {
  test(`two steps back are of several nodes: ${title}`, () => {
    assert.equal(addressAfter(windows).isShared, true);
  });
}

const single: readonly (readonly [string, string])[] = [
  ['a node that prunes', '0-900 100-950 200-1000 300-1050'],
  ['a node that lags and stands still', '0-900 0-900 0-901 0-901'],
  ['a node that is restored to an older ledger once', '500-900 100-400 100-401 100-500 600-1000'],
  ['a node that is replaced by a deeper one', '500-900 500-901 0-901 0-902'],
];

for (const [title, windows] of single) {
  test(`one node is one node: ${title}`, () => {
    assert.equal(addressAfter(windows).isShared, false);
  });
}

test('steps back more than 10 s apart are of one node that was restored twice', () => {
  const windows = '0-900 0-800 0-900 0-800';
  assert.equal(addressAfter(windows, 5_100).isShared, false);
  assert.equal(addressAfter(windows, 4_900).isShared, true);
});

test('answers that overtake each other are no steps back', () => {
  const address = new SharedAddress();
  // All requests are sent before the first answer arrives; the answers arrive in the opposite order.
  const backs = [905, 904, 903, 902, 901].map((head, index) =>
    address.observe(ledger(`${head - 500}-${head}`), 10 - index, 20 + index),
  );
  assert.deepEqual(backs, [false, false, false, false, false]);
  assert.equal(address.isShared, false);
});

test('answers of two chains in turn are of several nodes, a move to another chain and back is of one', () => {
  const address = new SharedAddress();
  const chains = [1, 2, 2, 1, 2].map((chainId, index) => {
    address.observe(ledger('0-900', chainId), index * 10, index * 10 + 1);
    return address.isShared;
  });
  assert.deepEqual(chains, [false, false, false, false, true]);
});

test('five minutes after the last step back the address is of one node again', () => {
  const address = addressAfter('500-900 0-900 500-900 0-900');
  address.observe(ledger('0-900'), 300_000, 300_001);
  assert.equal(address.isShared, true);
  address.observe(ledger('0-900'), 300_400, 300_401);
  assert.equal(address.isShared, false);
});

test('the spread holds reports for one to two minutes', () => {
  const address = addressAfter('500-900 0-900 500-900 0-900');
  assert.deepEqual(oldestOf(address), [0n, 500n]);
  address.observe(ledger('300-900'), 61_000, 61_001);
  assert.deepEqual(oldestOf(address), [0n, 500n]);
  address.observe(ledger('300-900'), 122_000, 122_001);
  assert.deepEqual(oldestOf(address), [300n, 300n]);
});

function oldestOf(address: SharedAddress): readonly unknown[] {
  const spread = address.spreadOf(ledger('0-0'));
  return [spread?.deepest.oldestVersion, spread?.shallowest.oldestVersion];
}

test('a window of several nodes surely holds what all of them hold, and may hold what one of them does', () => {
  const address = addressAfter('500-900 0-900 500-900 100-900 50-900');
  const window = new RetentionWindow(address);
  window.observe(ledger('50-900'), 500);
  const held = [600, 499, 0].map((version) => holdingOf(window.at(500), BigInt(version)));

  assert.deepEqual(held, ['held', 'edge', 'edge']);
  assert.equal(window.believed?.oldestVersion, 500n);
  assert.equal(window.info?.oldestVersion, 50n);
  // A refusal is of one of the nodes, and changes nothing for the others.
  window.observeRefusal(LedgerVersion.of(60n), 500);
  assert.equal(holdingOf(window.at(500), 60n), 'edge');
});

test('a spread of another chain changes no window', () => {
  const address = addressAfter('500-900 0-900 500-900 0-900');
  const window = new RetentionWindow(address);
  window.observe(ledger('100-900', 2), 500);
  assert.equal(window.at(500)?.oldest, 100n);
  assert.equal(window.believed?.oldestVersion, 100n);
});

test('a refusal of before counts no more once several nodes answer', () => {
  const address = new SharedAddress();
  const window = new RetentionWindow(address);
  window.observe(ledger('0-900'), 0);
  window.observeRefusal(LedgerVersion.of(60n), 0);
  assert.equal(window.at(500)?.oldest, 61n);
  for (const [at, oldest] of [500, 0, 500, 0].entries()) {
    address.observe(ledger(`${oldest}-900`), at * 100, at * 100 + 1);
  }
  assert.equal(window.at(500)?.oldest, 0n);
});
