// Writes to the store's file, and look-ups in it, without the thread.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { bodyOffsetOf, contentDigest, decodeRecord, writeHead } from '../../../src/cache/record.ts';
import {
  isUnusable,
  logBytesOf,
  LogInUseError,
  numberOf,
  pageBound,
  pageBytes,
  pathOf,
} from '../../../src/cache/store/file.ts';
import {
  nameBytes,
  type StoredWrite,
  StoreReader,
  StoreWriter,
  type WriteBatch,
} from '../../../src/cache/store/rows.ts';
import { answerOf } from '../../support/answers.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

/** Less than the config allows: a test fills it at once. */
const leastBytes = 16 * 1024 * 1024;

function opened(t: TestContext, maxBytes = leastBytes) {
  const path = pathOf(temporaryFolder(t), 1);
  const place = { path, isShared: true };
  const writer = new StoreWriter(place, maxBytes);
  const reader = new StoreReader(place);
  const file = new DatabaseSync(path);
  t.after(() => {
    for (const open of [reader, writer, file]) open.close();
  });
  return { place, file, writer, reader };
}

function nameOf(text: string): Buffer {
  return Buffer.from(text.padEnd(nameBytes));
}

/** A batch with an answer for each name. */
function batchOf(
  bodies: Readonly<Record<string, Buffer>>,
  changes: Partial<Pick<StoredWrite, 'read' | 'account'>> = {},
): WriteBatch {
  const parts: Buffer[] = [];
  let at = 0;
  const writes = Object.entries(bodies).map(([name, body]): StoredWrite => {
    const answer = answerOf('', { body });
    const head = Buffer.alloc(bodyOffsetOf(answer) ?? 0);
    writeHead(head, 0, answer);
    const record = Buffer.concat([head, body]);
    parts.push(nameOf(name), record);
    const digest = contentDigest(answer);
    const { read = 1, account = 2 } = changes;
    const write = { at, length: record.length, digest, term: 'term', rest: 'rest', read, account, overwrite: false };
    at += nameBytes + record.length;
    return write;
  });
  const bytes = Buffer.allocUnsafeSlow(at);
  Buffer.concat(parts).copy(bytes);
  return { bytes, writes, renewals: [] };
}

test('an answer is read back, small or compressed, and shared by reads with equal bytes', async (t) => {
  const { writer, reader, file } = opened(t);
  const bodies = { a: Buffer.from('small'), b: Buffer.alloc(60_000, 'large'), c: Buffer.from('small') };

  writer.do({ kind: 'write', batch: batchOf(bodies) });

  for (const [name, body] of Object.entries(bodies)) {
    const row = reader.find(nameOf(name));
    assert.ok(typeof row !== 'string' && row.record !== null);
    assert.deepEqual((await decodeRecord(Buffer.from(row.record), row.digest))?.body, body);
  }
  assert.equal(numberOf(file, 'page_count') < 20, true);
  assert.equal(file.prepare('select count(*) as count from answers').get()?.['count'], 2);
});

test('the file stays below its bound, whatever gaps renewals leave between its rows', (t) => {
  const {
    place: { path },
    writer,
    file,
  } = opened(t);
  const bytesOnDisk = () => statSync(path).size + logBytesOf(path);
  let most = 0;
  for (let round = 0; round < 30; round += 1) {
    const bodies = { [`a${round}`]: randomBytes(500_000), [`b${round}`]: randomBytes(500_000) };
    writer.do({ kind: 'write', batch: batchOf(bodies) });
    // A row in a thousand is left.
    file.exec('update refs set id = id + 1000 where id = (select max(id) from refs)');
    most = Math.max(most, bytesOnDisk());
  }

  assert.ok(most <= leastBytes, `${most}`);
  assert.ok(writer.fill.bytes > leastBytes / 2);
});

test('a file above its bound is refused, and the file that replaces it begins below', (t) => {
  const { place, writer, file } = opened(t, 2 * leastBytes);
  for (let round = 0; round < 24; round += 1) {
    writer.do({ kind: 'write', batch: batchOf({ [`a${round}`]: randomBytes(900_000) }) });
  }
  assert.ok(numberOf(file, 'page_count') > pageBound(leastBytes));

  assert.throws(() => new StoreWriter(place, leastBytes), isUnusable);
});

test('the log of writes stays within its bound beside a look-up that does not end, and after it', (t) => {
  const {
    place: { path },
    writer,
    file: stuck,
  } = opened(t);
  stuck.exec('begin; select count(*) from refs');
  const write = (number: number) =>
    writer.do({ kind: 'write', batch: batchOf({ [`a${number}`]: randomBytes(200_000) }) });

  assert.throws(() => {
    for (let number = 0; number < 100; number += 1) write(number);
  }, LogInUseError);
  assert.ok(logBytesOf(path) < leastBytes / 8, `${logBytesOf(path)}`);
  writer.do({ kind: 'purge', marks: [{ kind: 0, mark: 0 }] });
  stuck.exec('commit');
  write(100);
  assert.ok(logBytesOf(path) < leastBytes / 16);
});

test('a purge hides what was written before, also from a renewal, and nothing that is written later', (t) => {
  const { writer, reader } = opened(t);
  const read = (name: string) => typeof reader.find(nameOf(name)) !== 'string';
  writer.do({ kind: 'write', batch: batchOf({ a: Buffer.from('1') }) });
  writer.do({ kind: 'write', batch: batchOf({ b: Buffer.from('2') }, { read: 7, account: 8 }) });
  const before = reader.find(nameOf('a'));
  assert.ok(typeof before !== 'string');

  writer.do({ kind: 'purge', marks: [{ kind: 1, mark: 1 }] });
  const renewal = { name: nameOf('a'), id: before.id };
  writer.do({ kind: 'write', batch: { bytes: Buffer.allocUnsafeSlow(0), writes: [], renewals: [renewal] } });

  assert.deepEqual([read('a'), read('b')], [false, true]);
  writer.do({ kind: 'purge', marks: [{ kind: 2, mark: 8 }] });
  assert.deepEqual([read('a'), read('b')], [false, false]);
  writer.do({ kind: 'write', batch: batchOf({ a: Buffer.from('3') }) });
  assert.deepEqual([read('a'), read('b')], [true, false]);
  writer.do({ kind: 'forget', name: nameOf('a') });
  assert.equal(read('a'), false);
});

test('more purges than the file keeps hide everything of before', (t) => {
  const { writer, reader, file } = opened(t);
  writer.do({ kind: 'write', batch: batchOf({ a: Buffer.from('1') }) });

  for (let mark = 100; mark < 200; mark += 1) writer.do({ kind: 'purge', marks: [{ kind: 1, mark }] });

  assert.equal(reader.find(nameOf('a')), 'absent');
  assert.ok(Number(file.prepare('select count(*) as count from purges').get()?.['count']) <= 65);
});

test('a renewed answer outlives older ones that nobody used', (t) => {
  const { writer, reader } = opened(t);
  writer.do({ kind: 'write', batch: batchOf({ first: randomBytes(900_000) }) });
  for (let round = 0; round < 40; round += 1) {
    const row = reader.find(nameOf('first'));
    assert.ok(typeof row !== 'string' && row.record !== null, `${round}`);
    const renewals = row.id < writer.fill.middle ? [{ name: nameOf('first'), id: row.id }] : [];
    writer.do({ kind: 'write', batch: { ...batchOf({ [`a${round}`]: randomBytes(900_000) }), renewals } });
  }
  assert.equal(reader.find(nameOf('a0')), 'absent');
});

test('a row with a number that no process has written is damage of the file', (t) => {
  const { writer, reader, file } = opened(t);
  writer.do({ kind: 'write', batch: batchOf({ a: Buffer.from('1') }) });

  file.exec('update refs set id = 9223372036854775806');

  assert.equal(reader.find(nameOf('a')), 'damaged');
  assert.throws(() => writer.do({ kind: 'write', batch: batchOf({ b: Buffer.from('2') }) }), isUnusable);
});

test('a file without its tables is damage of the file', (t) => {
  const { writer, reader, file } = opened(t);
  writer.do({ kind: 'write', batch: batchOf({ a: Buffer.from('1') }) });

  file.exec('drop table answers');

  assert.equal(reader.find(nameOf('a')), 'damaged');
  assert.throws(() => writer.do({ kind: 'write', batch: batchOf({ b: Buffer.from('2') }) }), isUnusable);
  assert.equal(pageBytes, numberOf(file, 'page_size'));
});
