import assert from 'node:assert/strict';
import { mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { WatchedFiles } from '../../../src/config/source/watched-files.ts';
import { eventually } from '../../support/eventually.ts';
import { configFile } from '../config-file.ts';

function watched(t: TestContext, file: string, everyMs = 50) {
  const seen = { changes: 0, missing: 0 };
  const files = new WatchedFiles([file]);
  files.watch({
    everyMs,
    onChange: () => (seen.changes += 1),
    onMissing: () => (seen.missing += 1),
  });
  t.after(() => files.close());
  const untilChanges = (count: number) =>
    eventually(
      () => Promise.resolve(seen.changes),
      (changes) => changes >= count,
    );
  return { seen, files, untilChanges };
}

test('a change is reported once, however it is made, and a touch is none', async (t) => {
  const file = configFile(t, 'one');
  const { seen, untilChanges } = watched(t, file);

  writeFileSync(file, 'two');
  await untilChanges(1);
  writeFileSync(`${file}~`, 'three');
  renameSync(`${file}~`, file);
  await untilChanges(2);
  utimesSync(file, new Date(), new Date());
  await sleep(300);

  assert.equal(seen.changes, 2);
});

test('without notifications the interval finds a change', async (t) => {
  const target = configFile(t, 'one');
  const link = configFile(t, '');
  rmSync(link);
  symlinkSync(target, link);
  const { untilChanges } = watched(t, link);

  writeFileSync(target, 'two');

  await untilChanges(1);
});

test('a file is read once its writer has finished', async (t) => {
  const file = configFile(t, 'one');
  const { seen, untilChanges } = watched(t, file, 10_000);

  let longestMs = 0;
  for (let length = 0; length < 15; length += 1) {
    const wroteMs = performance.now();
    writeFileSync(file, 'x'.repeat(length));
    await sleep(20);
    longestMs = Math.max(longestMs, performance.now() - wroteMs);
    if (longestMs < 50) assert.equal(seen.changes, 0);
  }

  await untilChanges(1);
  await sleep(200);
  // A longer pause between two steps makes the first step complete.
  if (longestMs < 50) assert.equal(seen.changes, 1);
  else t.diagnostic(`a busy machine: ${Math.round(longestMs)} ms between two steps`);
});

test('a missing file is reported once, and its return unchanged is a change', async (t) => {
  const file = configFile(t, 'one');
  const { seen, untilChanges } = watched(t, file);

  rmSync(file);
  await eventually(
    () => Promise.resolve(seen.missing),
    (missing) => missing > 0,
  );
  await sleep(200);
  assert.deepEqual(seen, { changes: 0, missing: 1 });
  writeFileSync(file, 'one');
  await untilChanges(1);

  assert.deepEqual(seen, { changes: 1, missing: 1 });
});

test('a change of one of two files in two folders is a change', async (t) => {
  const names = [configFile(t, 'certificate'), configFile(t, 'key')];
  const { promise, resolve } = Promise.withResolvers<void>();
  const files = new WatchedFiles(names);
  files.watch({ everyMs: 10_000, onChange: resolve, onMissing: () => undefined });
  t.after(() => files.close());

  writeFileSync(names[1]!, 'another key');

  await promise;
});

test('contents that the caller notes are not reported', async (t) => {
  const file = configFile(t, 'one');
  const { seen, files } = watched(t, file);

  writeFileSync(file, 'two');
  files.note();
  await sleep(300);

  assert.equal(seen.changes, 0);
});

test('a file that is missing when the caller reads it is a change once it is back', async (t) => {
  const file = configFile(t, 'one');
  const { files, untilChanges } = watched(t, file);

  renameSync(file, `${file}.away`);
  files.note();
  renameSync(`${file}.away`, file);

  await untilChanges(1);
});

test('a secret behind a link that is swapped is read, as Kubernetes mounts one', async (t) => {
  const file = configFile(t, 'config');
  const folder = dirname(configFile(t, ''));
  for (const [name, text] of [
    ['first', 'one'],
    ['second', 'two'],
  ] as const) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'key'), text);
  }
  symlinkSync('first', join(folder, '..data'));
  symlinkSync('..data/key', join(folder, 'key'));
  const { files, untilChanges } = watched(t, file);
  assert.equal(files.readSecret(join(folder, 'key')), 'one');

  symlinkSync('second', join(folder, '..new'));
  renameSync(join(folder, '..new'), join(folder, '..data'));
  await untilChanges(1);

  assert.equal(files.readSecret(join(folder, 'key')), 'two');
});

test('secrets are watched as they were read: a change, one that disappears, and one that comes back', async (t) => {
  const file = configFile(t, 'config');
  const secret = configFile(t, 'one\n');
  const { seen, files, untilChanges } = watched(t, file);

  // Between the reading of the secret and the next look.
  assert.equal(files.readSecret(secret), 'one');
  writeFileSync(secret, 'two\n');
  await untilChanges(1);
  assert.equal(files.readSecret(secret), 'two');
  rmSync(secret);
  await untilChanges(2);
  files.forgetSecrets();
  assert.throws(() => files.readSecret(secret), /there is no such file$/);
  writeFileSync(secret, 'three');
  await untilChanges(3);
  assert.equal(files.readSecret(secret), 'three');
  // A secret that the config does not name any more is no concern of its watch.
  files.forgetSecrets();
  writeFileSync(secret, 'four');
  await sleep(300);

  assert.deepEqual(seen, { changes: 3, missing: 0 });
});
