// The claim of one gateway on the store's folder.
import assert from 'node:assert/strict';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { Claim } from '../../../src/cache/store/thread.ts';
import { storeFolder } from '../../support/stores.ts';

function claimOf(t: TestContext, folder: string, run: string): Claim {
  const claim = new Claim(folder, run);
  t.after(() => claim.release());
  return claim;
}

test('the processes of one gateway share a folder, and keep another gateway out until the last one has left', (t) => {
  const folder = storeFolder(t);
  const [first, second, other] = ['one', 'one', 'two'].map((run) => claimOf(t, folder, run));

  assert.deepEqual([first?.take(), second?.take(), other?.take()], [true, true, false]);
  first?.release();
  assert.equal(other?.take(), false);
  second?.release();
  assert.equal(other?.take(), true);
  assert.equal(first?.take(), false);
});

test('a claim whose file was replaced is taken anew: another gateway may have the other file', (t) => {
  const folder = storeFolder(t);
  const [first, other] = [claimOf(t, folder, 'one'), claimOf(t, folder, 'two')];
  assert.equal(first.take(), true);

  rmSync(join(folder, 'claim.db'));

  assert.equal(other.take(), true);
  assert.equal(first.take(), false);
});

test('a damaged claim is replaced, and so is one without its table', (t) => {
  const folder = storeFolder(t);
  const path = join(folder, 'claim.db');
  writeFileSync(path, 'no database at all, but a text that is longer than its header'.repeat(20));
  const claim = claimOf(t, folder, 'one');

  assert.deepEqual([claim.take(), claim.take()], [false, true]);
  claim.release();
  rmSync(path);
  const file = new DatabaseSync(path);
  file.exec('create table claim (another text)');
  file.close();
  assert.deepEqual([claim.take(), claim.take()], [false, true]);
});

test('a file with a log of writes in place of the claim keeps the other gateway out as well', (t) => {
  const folder = storeFolder(t);
  const [path, swapped] = [join(folder, 'claim.db'), join(folder, 'swapped.db')];
  const file = new DatabaseSync(swapped);
  file.exec('pragma journal_mode = wal; create table claim (run text not null)');
  file.close();
  renameSync(swapped, path);

  const [first, other] = [claimOf(t, folder, 'one'), claimOf(t, folder, 'two')];

  assert.deepEqual([first.take(), other.take()], [true, false]);
});
