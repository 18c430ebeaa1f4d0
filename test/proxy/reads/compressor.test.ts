import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brotliDecompressSync } from 'node:zlib';
import { CancelToken } from '../../../src/ledger/stop.ts';
import { Compressor } from '../../../src/proxy/reads/compressor.ts';

const body = Buffer.alloc(100_000, 'abc');

test('clients that wait for a compression have one body each in turn, and those that leave are skipped', async () => {
  const compressor = new Compressor(1);
  const done: string[] = [];
  const start = async (client: string, name: string, signal = new CancelToken()): Promise<void> => {
    const coded = await compressor.compress('br', body, { client, signal });
    assert.deepEqual(brotliDecompressSync(coded), body);
    done.push(name);
  };
  const left = new CancelToken();
  const hostile = ['first', 'second', 'third'].map((name) => start('hostile', name));
  const leaving = start('hostile', 'leaving', left);
  const quiet = start('quiet', 'other');
  left.abort(new Error('the client hung up'));
  await assert.rejects(leaving, /hung up/);
  await Promise.all([...hostile, quiet]);
  assert.deepEqual(done, ['first', 'second', 'other', 'third']);
  await start('late', 'late');
});
