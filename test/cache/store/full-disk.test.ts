// A disk without room: a small file system in memory, which root alone can mount.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { CachedResponse } from '../../../src/cache/entry.ts';
import { answerOf, keyAt } from '../../support/answers.ts';
import { eventually, until } from '../../support/eventually.ts';
import { openStore, startStore } from '../../support/stores.ts';

/** A folder of so many MiB; `undefined` where this user cannot mount one. */
function smallDisk(t: TestContext, mebibytes: number): string | undefined {
  const disk = mkdtempSync(join(tmpdir(), 'ledgergate-disk-'));
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${mebibytes}m`, 'tmpfs', disk]);
  t.after(() => {
    spawnSync('umount', ['--lazy', disk]);
    rmSync(disk, { recursive: true });
  });
  if (mounted.status !== 0) {
    t.skip('needs root, to mount a small file system');
    return undefined;
  }
  return disk;
}

test('on a full disk the oldest answers make room, purges hold, and no answer is wrong', async (t) => {
  const disk = smallDisk(t, 12);
  if (disk === undefined) return;
  const folder = join(disk, 'store');
  const bodies = Array.from({ length: 60 }, () => answerOf('', { body: randomBytes(400_000) }));
  const { store, faults, write } = await openStore(t, { folder });

  const kept: boolean[] = [];
  for (const [index, answer] of bodies.entries()) {
    kept.push(await write(keyAt(BigInt(index)), answer));
    // A file that is given up has its room until every look-up has left it.
    if (store.reader === undefined) await until(() => store.reader !== undefined, 10);
  }

  assert.ok(faults.includes('the disk is full'));
  // An answer at most is lost each time that the disk is found full.
  assert.ok(kept.slice(-20).filter(Boolean).length > 10, `${kept.map(Number).join('')} ${faults.join()}`);
  const countFound = async (): Promise<number> => {
    let found = 0;
    for (const [index, answer] of bodies.entries()) {
      const lookup = await store.find(keyAt(BigInt(index)));
      if (!('answer' in lookup)) continue;
      found += 1;
      assert.ok(lookup.answer.body.equals(answer.body));
    }
    return found;
  };
  // The last write may have found the disk full, and begun the next file.
  let next = 0;
  await until(async () => {
    await write(keyAt(BigInt(next)), bodies[next] as CachedResponse);
    next = (next + 1) % bodies.length;
    return (await countFound()) > 3;
  });
  assert.equal(await store.clear({ kind: 'everything' }), true);
  // A renewal of what was found may have found the disk full as well, and begun the next file.
  const lookup = await eventually(
    () => store.find(keyAt(59n)),
    (found) => !('miss' in found) || found.miss !== 'unavailable',
  );
  assert.deepEqual(lookup, { miss: 'absent' });
});

test('a disk that another program has filled is used as soon as it has room', async (t) => {
  const disk = smallDisk(t, 4);
  if (disk === undefined) return;
  const other = join(disk, 'other');
  try {
    writeFileSync(other, randomBytes(5 * 2 ** 20));
  } catch {
    // It is full.
  }
  const { store, write, find } = startStore(t, { folder: join(disk, 'store') });
  await until(() => store.fault === 'the disk is full');
  assert.equal(await write(keyAt(7n), answerOf('a')), false);

  rmSync(other);
  await until(() => store.fault === undefined);

  assert.deepEqual([await write(keyAt(7n), answerOf('a')), await find(keyAt(7n))], [true, 'a']);
});
