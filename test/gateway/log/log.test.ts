import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog, loudLevels } from '../../../src/gateway/log/log.ts';

test('written lines at warn and above are counted, children included, whatever the level was before', () => {
  const written: string[] = [];
  const { log, lines } = createLog('info', {
    to: { write: (line) => void written.push((JSON.parse(line) as { msg: string }).msg) },
  });
  const counts = () => loudLevels.map((level) => lines.written(level));

  log.info('one');
  log.warn({ a: 1 }, 'two');
  log.child({ worker: 1 }).error('three');
  assert.deepEqual(counts(), [1, 1, 0]);

  log.level = 'error';
  log.warn('four');
  log.fatal('five %d', 5);
  assert.deepEqual(counts(), [1, 1, 1]);

  log.level = 'silent';
  log.fatal('six');
  assert.deepEqual(counts(), [1, 1, 1]);
  assert.deepEqual(written, ['one', 'two', 'three', 'five 5']);
});
