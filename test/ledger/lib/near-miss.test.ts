import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findNearMiss } from '../../../src/ledger/lib/near-miss.ts';
import { CancelToken } from '../../../src/ledger/stop.ts';

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

test('listeners are called once, in order, with the reason', () => {
  const stop = new CancelToken();
  const told: unknown[] = [];
  stop.addEventListener('abort', () => told.push(['first', stop.aborted, stop.reason]));
  stop.addEventListener('abort', () => told.push(['second']));
  assert.deepEqual([stop.aborted, stop.reason], [false, undefined]);
  stop.abort('enough');
  stop.abort('again');
  assert.deepEqual(told, [['first', true, 'enough'], ['second']]);
  assert.equal(stop.reason, 'enough');
});

test('a removed listener is not called, not even when another listener removes it', () => {
  const stop = new CancelToken();
  const told: string[] = [];
  const gone = (): void => void told.push('gone');
  const last = (): void => void told.push('last');
  stop.addEventListener('abort', gone);
  stop.removeEventListener('abort', gone);
  stop.removeEventListener('abort', gone);
  stop.addEventListener('abort', () => {
    told.push('first');
    stop.removeEventListener('abort', last);
    stop.addEventListener('abort', gone);
  });
  stop.addEventListener('abort', last);
  stop.abort('enough');
  assert.deepEqual(told, ['first']);
});
