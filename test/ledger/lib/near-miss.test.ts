import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findNearMiss } from '../../../src/ledger/lib/near-miss.ts';

const keys = ['timeout', 'deadline', 'probeInterval', 'connections', 'maxAttempts'];

test('a typo, a swap, another case and another separator find the key', () => {
  const table = {
    timout: 'timeout',
    timeuot: 'timeout',
    Timeout: 'timeout',
    probe_interval: 'probeInterval',
    'probe-interval': 'probeInterval',
    connection: 'connections',
    maxAtempts: 'maxAttempts',
  };
  for (const [word, key] of Object.entries(table)) assert.equal(findNearMiss(word, keys), key, word);
});

test('another word has no near miss', () => {
  for (const word of ['', 'x', 'retries', 'keepAlive', '__proto__'])
    assert.equal(findNearMiss(word, keys), undefined, word);
});

test('the nearest wins', () => {
  assert.equal(findNearMiss('ports', ['posts', 'port', 'ports1']), 'posts');
  assert.equal(findNearMiss('hots', ['port', 'host']), 'host');
});
