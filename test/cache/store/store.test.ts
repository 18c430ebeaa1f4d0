// The store with its thread, on real files.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { Worker } from 'node:worker_threads';
import { mutableTtlMs, type CachedResponse } from '../../../src/cache/record.ts';
import type { CurrentEpoch } from '../../../src/cache/epoch/registry.ts';
import { MemoryCache } from '../../../src/cache/memory/memory.ts';
import { type AnswerLoad, ReadThrough } from '../../../src/cache/read-through.ts';
import { Claim } from '../../../src/cache/store/thread.ts';
import { Address } from '../../../src/ledger/type-tag.ts';
import { answerOf, keyAt, loadThrough } from '../../support/answers.ts';
import { eventually, until } from '../../support/eventually.ts';
import { leastBytes, openStore, startStore } from '../../support/stores.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const key = keyAt(7n);

/** The stores of two processes of one gateway. */
async function twoStores(t: TestContext, folder: string) {
  const options = { folder, isShared: true };
  return [await openStore(t, options), await openStore(t, options)] as const;
}

test('another process of the gateway and the next start find an answer, and a close leaves no log of writes', async (t) => {
  const folder = temporaryFolder(t);
  const [first, second] = await twoStores(t, folder);
  const large = answerOf('large'.repeat(12_000));

  assert.deepEqual([await first.write(key, answerOf('small')), await first.write(keyAt(8n), large)], [true, true]);

  assert.deepEqual([await second.find(key), await second.find(keyAt(8n))], ['small', large.body.toString()]);
  // One after the other: of two that close at once neither may be the last, and SQLite leaves the log to the next start.
  await first.store.close();
  await second.store.close();
  assert.deepEqual(readdirSync(folder).toSorted(), ['answers-1.db', 'claim.db']);
  assert.deepEqual([first.faults, second.faults], [[undefined], [undefined]]);
  const third = await openStore(t, { folder, isShared: true, run: 'two' });
  assert.equal(await third.find(key), 'small');
});

test('an answer of another epoch, of an unknown ledger, or from a node below the checkpoint is not used', async (t) => {
  const folder = temporaryFolder(t);
  const confirmed = { version: 0n, root: '' };
  const placeOf = (id: string, before: CurrentEpoch['epoch']['before'] = []): CurrentEpoch => {
    return { ledger: '4.test', epoch: { id, bornMs: 1, before, checkpoint: confirmed } };
  };
  let place: CurrentEpoch | undefined = placeOf('11111111');
  const { write, find, findNow } = await openStore(t, { folder, place: () => place });
  await write(key, answerOf('a'));

  place = placeOf('22222222');
  assert.equal(await find(key), 'absent');
  place = placeOf('22222222', [{ id: '11111111', upTo: 6n }]);
  assert.equal(await find(key), 'absent');
  place = placeOf('22222222', [{ id: '11111111', upTo: 7n }]);
  assert.equal(await find(key), 'a');
  place = { ...place, ledger: '5.test' };
  assert.equal(await find(key), 'absent');
  place = undefined;
  assert.deepEqual([await findNow(key), await write(key, answerOf('b'))], ['unavailable', false]);
  place = { ...placeOf('11111111'), epoch: { ...placeOf('11111111').epoch, checkpoint: { version: 2n, root: '' } } };
  assert.deepEqual([await write(key, answerOf('b')), await find(key)], [false, 'a']);
});

test('a purge of each scope holds for every process, and after a restart', async (t) => {
  const folder = temporaryFolder(t);
  const [first, second] = await twoStores(t, folder);
  const keys = [key, keyAt(9_000n), keyAt(7n, '0x2/0x1::coin::CoinStore'), keyAt(7n, '0x3/0x1::coin::CoinStore')];
  for (const one of keys) await first.write(one, answerOf('a'));
  const found = (store: typeof first) => Promise.all(keys.map((one) => store.find(one)));

  assert.equal(await second.store.clear({ kind: 'read', key }), true);
  assert.deepEqual(await found(first), ['absent', 'a', 'a', 'a']);
  assert.equal(await second.store.clear({ kind: 'versions', read: '4|resource|0x1/0x1::coin::CoinStore|json|' }), true);
  assert.deepEqual(await found(first), ['absent', 'absent', 'a', 'a']);
  assert.equal(await second.store.clear({ kind: 'account', chainId: 4, address: Address.parse('0x2') }), true);
  assert.deepEqual(await found(first), ['absent', 'absent', 'absent', 'a']);
  await Promise.all([first.store.close(), second.store.close()]);
  const third = await openStore(t, { folder, isShared: true, run: 'two' });
  assert.deepEqual(await found(third), ['absent', 'absent', 'absent', 'a']);
  assert.equal(await third.store.clear({ kind: 'everything' }), true);
  assert.deepEqual(await found(third), ['absent', 'absent', 'absent', 'absent']);
});

test('a store that is closed drops what comes, finds nothing, and confirms no purge', async (t) => {
  const { store, write, findNow } = await openStore(t, { folder: temporaryFolder(t) });
  const closed = store.close();

  assert.equal(await write(key, answerOf('a')), false);
  await closed;

  assert.deepEqual([await findNow(key), await write(key, answerOf('a'))], ['unavailable', false]);
  assert.equal(await store.clear({ kind: 'everything' }), false);
  await store.close();
});

test('a record whose type is damaged is a miss, and is overwritten', async (t) => {
  const folder = temporaryFolder(t);
  const path = join(folder, 'answers-1.db');
  const before = await openStore(t, { folder });
  const answer = answerOf('b'.repeat(300));
  await before.write(key, answer);
  await before.store.close();
  // The lowest bit of a type tells bytes from a text of the same length; the digest follows it.
  const bytes = readFileSync(path);
  const at = bytes.indexOf(`${answer.digest}LG`) - 1;
  assert.ok(at > 0);
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(path, bytes);

  const { write, find } = await openStore(t, { folder });

  assert.equal(await find(key), 'damaged');
  assert.equal(await write(key, answer, true), true);
  assert.equal(await find(key), answer.body.toString());
});

test('a mutable answer is found while its lifetime lasts, and not once a clock set back has made that longer', async (t) => {
  const { write, find } = await openStore(t, { folder: temporaryFolder(t) });
  await write(key, answerOf('mutable', { lifetimeMs: mutableTtlMs }));
  await write(keyAt(8n), answerOf('final'));
  const now = Date.now();
  const foundAfter = async (ms: number): Promise<readonly string[]> => {
    t.mock.timers.enable({ apis: ['Date'], now: now + ms });
    const found = [await find(key), await find(keyAt(8n))];
    t.mock.timers.reset();
    return found;
  };

  assert.deepEqual(await foundAfter(mutableTtlMs / 2), ['mutable', 'final']);
  assert.deepEqual(await foundAfter(0), ['mutable', 'final']);
  assert.deepEqual(await foundAfter(mutableTtlMs + 60_000), ['absent', 'final']);
  assert.deepEqual(await foundAfter(-mutableTtlMs), ['absent', 'final']);
});

test('a file that is damaged while it is used is replaced by the next one, and a purge of it holds', async (t) => {
  const folder = temporaryFolder(t);
  const [first, second] = await twoStores(t, folder);
  await first.write(key, answerOf('a'));
  const file = new DatabaseSync(join(folder, 'answers-1.db'));
  file.exec('drop table answers');
  file.close();

  assert.equal(await second.store.clear({ kind: 'everything' }), true);
  assert.equal(await second.find(key), 'absent');
  assert.equal(await first.find(key), 'damaged');
  await until(() => first.store.fault === undefined && existsSync(join(folder, 'answers-2.db')));
  assert.equal(await first.write(key, answerOf('b')), true);
  // Its thread may be on the way to the next file.
  await until(async () => (await second.find(key)) === 'b');
  assert.equal(existsSync(join(folder, 'answers-1.db')), false);
});

test('a purge reaches the file that another process has begun since', async (t) => {
  const folder = temporaryFolder(t);
  const [first, second] = await twoStores(t, folder);
  first.store.link.reportDamage(1);
  await until(() => first.faults.length === 3);
  await first.write(key, answerOf('a'));

  assert.equal(await second.store.clear({ kind: 'everything' }), true);

  assert.equal(await first.find(key), 'absent');
});

test('without its log of writes a file is given up: a confirmed purge may have been in it', async (t) => {
  const folder = temporaryFolder(t);
  const { store, write, find } = await openStore(t, { folder });
  await write(key, answerOf('a'));
  rmSync(join(folder, 'answers-1.db-wal'));

  assert.equal(await store.clear({ kind: 'versions', read: 'any' }), true);

  assert.deepEqual([await find(key), existsSync(join(folder, 'answers-2.db'))], ['absent', true]);
});

test('a folder above the one of the store is not created', async (t) => {
  const { store, faults } = startStore(t, { folder: join(temporaryFolder(t), 'deeper', 'store') });
  await until(() => faults.length > 0);
  assert.match(store.fault ?? '', /^its folder cannot be used/);
});

test('a second gateway waits for the folder, takes it over, and makes up for its purge', async (t) => {
  const folder = temporaryFolder(t);
  const first = await openStore(t, { folder, run: 'one' });
  await first.write(key, answerOf('a'));
  const second = startStore(t, { folder, run: 'two' });
  await until(() => second.faults.length > 0);

  assert.equal(second.store.fault, 'another gateway uses its folder');
  assert.deepEqual([await second.findNow(key), await second.write(key, answerOf('b'))], ['unavailable', false]);
  assert.equal(await second.store.clear({ kind: 'everything' }), false);
  await first.store.close();
  await until(() => second.store.fault === undefined);
  assert.equal(await second.find(key), 'absent');
  assert.deepEqual([await second.write(key, answerOf('b')), await second.find(key)], [true, 'b']);
});

test('a bound below the size of the file replaces it', async (t) => {
  const folder = temporaryFolder(t);
  const before = await openStore(t, { folder, maxBytes: 2 * leastBytes });
  await before.store.close();
  const file = new DatabaseSync(join(folder, 'answers-1.db'));
  file.exec(`create table spare (bytes blob); insert into spare values (zeroblob(${leastBytes}))`);
  file.close();

  const { faults, write, find } = await openStore(t, { folder });

  assert.deepEqual(faults, ['its file was above maxBytes, and is replaced', undefined]);
  assert.deepEqual([await write(key, answerOf('b')), await find(key)], [true, 'b']);
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith('answers-1')),
    [],
  );
});

test('a thread that ends is started again, and its works fail meanwhile', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  // A folder that is no text.
  const { store, faults } = startStore(t, { folder: undefined as unknown as string });
  while (faults.length === 0) await new Promise(setImmediate);

  assert.deepEqual(faults, ['its thread ended, and is started again']);
  assert.equal(await store.clear({ kind: 'everything' }), false);
  t.mock.timers.tick(5_000);
  while (faults.length === 1) await new Promise(setImmediate);
  assert.equal(faults.length, 2);
});

test('of the works and reports of damage that a thread has not come to yet, a bounded number waits', async (t) => {
  const sent: unknown[] = [];
  const { store } = await openStore(t, { folder: temporaryFolder(t) });
  const post = t.mock.method(Worker.prototype, 'postMessage', (message: unknown) => void sent.push(message));
  const results: boolean[] = [];
  for (let purge = 0; purge < 70; purge += 1)
    void store.link.do({ kind: 'purge', marks: [] }).then((isDone) => results.push(isDone));
  for (let look = 0; look < 10; look += 1) store.link.reportDamage(1);
  await new Promise(setImmediate);

  assert.deepEqual([sent.length, results], [64 + 1, Array.from({ length: 6 }, () => false)]);
  post.mock.restore();
});

// The claim of one gateway on the store's folder.

function claimOf(t: TestContext, folder: string, run: string): Claim {
  const claim = new Claim(folder, run);
  t.after(() => claim.release());
  return claim;
}

test('the processes of one gateway share a folder, and keep another gateway out until the last one has left', (t) => {
  const folder = temporaryFolder(t);
  const [first, second, other] = ['one', 'one', 'two'].map((run) => claimOf(t, folder, run));

  assert.deepEqual([first?.take(), second?.take(), other?.take()], [true, true, false]);
  first?.release();
  assert.equal(other?.take(), false);
  second?.release();
  assert.equal(other?.take(), true);
  assert.equal(first?.take(), false);
});

test('a claim whose file was replaced is taken anew: another gateway may have the other file', (t) => {
  const folder = temporaryFolder(t);
  const [first, other] = [claimOf(t, folder, 'one'), claimOf(t, folder, 'two')];
  assert.equal(first.take(), true);

  rmSync(join(folder, 'claim.db'));

  assert.equal(other.take(), true);
  assert.equal(first.take(), false);
});

test('a damaged claim is replaced, and so is one without its table', (t) => {
  const folder = temporaryFolder(t);
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
  const folder = temporaryFolder(t);
  const [path, swapped] = [join(folder, 'claim.db'), join(folder, 'swapped.db')];
  const file = new DatabaseSync(swapped);
  file.exec('pragma journal_mode = wal; create table claim (run text not null)');
  file.close();
  renameSync(swapped, path);

  const [first, other] = [claimOf(t, folder, 'one'), claimOf(t, folder, 'two')];

  assert.deepEqual([first.take(), other.take()], [true, false]);
});

// A disk without room: a small file system in memory, which root alone can mount.

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

// Purges of a process with a store, beside reads that the store answers.

const origin = { upstream: 'node', tookMs: 1, version: undefined, retryAfter: undefined };
const node: AnswerLoad = () => Promise.resolve({ answer: answerOf('after'), origin, head: 7n });

test('a read that the store answers during a purge is not left in memory', async (t) => {
  const { store, write } = await openStore(t, { folder: temporaryFolder(t) });
  await write(key, answerOf('before'));
  const memory = new MemoryCache(2 ** 20);
  const reads = new ReadThrough(memory, store, undefined);

  const purged = reads.purge({ kind: 'everything' });
  const during = await loadThrough(reads, key, node);
  assert.deepEqual(during.origin, 'store');
  assert.deepEqual(await purged, { reads: 1, isStoreClear: true });

  assert.equal(memory.peek(key), undefined);
  const next = await loadThrough(reads, key, node);
  assert.equal(next.answer.body.toString(), 'after');
});
