/**
 * The store's file: an SQLite database in a folder of its own. A reference connects a read to the digest of its answer,
 * as in Redis; `id` is the order of use, and the lowest are dropped first. A purge is a row: it hides every reference up
 * to its `upto`, at once and for every process. A damaged file is never repaired: the next one, `answers-2.db` after
 * `answers-1.db`, takes its place, because SQLite's processes know their files by name.
 */
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync, DatabaseSyncOptions } from 'node:sqlite';
import { pathToFileURL } from 'node:url';

/** Opens a database. SQLite is loaded with the first one: a Node may lack it, or warn about it. */
export function openDatabase(location: string | URL, options: DatabaseSyncOptions): DatabaseSync {
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
  return new DatabaseSync(location, options);
}

/** Format of the rows: a file of another format is replaced. */
const storeFormat = 1;
/** `LGST`: marks the file as a store in its header. */
const applicationId = 0x4c475354;

/** Bytes of a page: the least that SQLite reads and writes. */
export const pageBytes = 4096;
/** Bytes of pages that one connection keeps; the system's cache has the others. */
const cachedKiB = 2_000;

/** The part of `maxBytes` for SQLite's log of writes, and its most bytes. */
const logShare = 1 / 8;
const mostLogBytes = 64 * 1024 * 1024;
/** Bytes for the index of the log, and for the claim. */
const spareBytes = 128 * 1024;

const schema = `
  create table refs (
    id integer primary key, name blob not null unique, digest text not null, term text not null, rest text not null,
    read integer not null, account integer not null
  ) strict;
  create table answers (id integer primary key, digest text not null unique, record blob not null) strict;
  create table purges (
    kind integer not null, mark integer not null, upto integer not null, primary key (kind, mark)
  ) strict, without rowid;
  create table terms (
    ledger text not null, field text not null, value text not null, primary key (ledger, field)
  ) strict, without rowid;
  create table beats (
    ledger text not null, term text not null, run text not null, pid integer not null, at_ms integer not null,
    primary key (ledger, term, run, pid)
  ) strict, without rowid;
  pragma application_id = ${applicationId};
  pragma user_version = ${storeFormat};
`;

/** Bytes of the log of writes at most. */
export function logBound(maxBytes: number): number {
  return Math.min(mostLogBytes, maxBytes * logShare);
}

/** Pages at most, so that the file and its log stay below `maxBytes`. */
export function pageBound(maxBytes: number): number {
  return Math.floor((maxBytes - logBound(maxBytes) - spareBytes) / pageBytes);
}

const form = /^answers-(\d{1,9})\.db$/;

/**
 * The number of the newest file in the folder; 0 without one. Creates the folder, and no folder above it: below a volume
 * that is gone, the store would fill another disk. Throws where the folder cannot be used.
 */
export function newestFile(folder: string): number {
  if (!existsSync(folder)) mkdirSync(folder);
  return Math.max(0, ...readdirSync(folder).map((name) => Number(form.exec(name)?.[1] ?? 0)));
}

/** The path of a file by its number. */
export function pathOf(folder: string, number: number): string {
  return join(folder, `answers-${number}.db`);
}

/**
 * Identifies the files at a path: an open database with the log of another one is damaged. `undefined`: no database is
 * there.
 */
export function identityOf(path: string): string | undefined {
  const found = ['', '-wal', '-shm'].map((end) => statSync(path + end, { throwIfNoEntry: false }));
  return found[0] && found.map((file) => file && `${file.dev}.${file.ino}`).join();
}

/** Bytes of the log of writes beside the file at a path. */
export function logBytesOf(path: string): number {
  return statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
}

/** One of the store's files. */
export interface FilePlace {
  readonly path: string;
  /** Several processes use it. */
  readonly isShared: boolean;
}

/**
 * The file as SQLite opens it. Processes share the index of the log as a mapped file, `-shm`, and one that is truncated
 * kills them (SIGBUS). All connections of a single process share it in memory instead: it locks the file for itself.
 */
function locationOf({ path, isShared }: FilePlace): string | URL {
  if (isShared) return path;
  const url = pathToFileURL(path);
  url.searchParams.set('vfs', 'unix-excl');
  return url;
}

/**
 * Opens the file for writing, creates it where it is missing, and closes it again where `prepare` throws. `busyMs`:
 * longest wait for the write of another process. Throws where the file is damaged or of another format (`isUnusable`).
 */
export function openForWrites<T>(place: FilePlace, busyMs: number, prepare: (file: DatabaseSync) => T): T {
  // One that several processes have left is not used, and `identityOf` would watch it.
  if (!place.isShared) rmSync(`${place.path}-shm`, { force: true });
  return opened(place, { timeout: busyMs }, (file) => {
    file.exec(`pragma page_size = ${pageBytes}; pragma journal_mode = wal; pragma cache_size = -${cachedKiB}`);
    // Checkpoints alone wait for the disk: a power cut costs the last writes, and damages nothing.
    file.exec('pragma synchronous = normal; pragma journal_size_limit = 8388608');
    file.exec('begin immediate');
    if (numberOf(file, 'application_id') === 0 && numberOf(file, 'schema_version') === 0) file.exec(schema);
    file.exec('commit');
    checkFormat(file);
    return prepare(file);
  });
}

/** Opens the file for look-ups, which wait for nothing. Throws as `openForWrites`. */
export function openForReads<T>(place: FilePlace, prepare: (file: DatabaseSync) => T): T {
  return opened(place, { readOnly: true, timeout: 0 }, (file) => {
    file.exec(`pragma cache_size = -${cachedKiB}`);
    checkFormat(file);
    return prepare(file);
  });
}

function opened<T>(place: FilePlace, options: DatabaseSyncOptions, prepare: (file: DatabaseSync) => T): T {
  const file = openDatabase(locationOf(place), options);
  try {
    return prepare(file);
  } catch (error) {
    file.close();
    throw error;
  }
}

/**
 * Deletes the files before `number`, and leaves to the next call those that cannot be deleted. A process that has one
 * open uses it until it looks for a newer one.
 */
export function deleteOlder(folder: string, number: number): void {
  try {
    for (const name of readdirSync(folder)) {
      const [, digits] = /^answers-(\d{1,9})\.db(?:-wal|-shm)?$/.exec(name) ?? [];
      if (digits !== undefined && Number(digits) < number) rmSync(join(folder, name), { force: true });
    }
  } catch {
    // The folder is reported with the file in it.
  }
}

/** The file is of another format. */
class ForeignFileError extends Error {}

/** The file has more pages than its bound, which was higher when it was written. */
export class OversizedFileError extends Error {}

/** Another process prevents that the log of writes is emptied. */
export class LogInUseError extends Error {}

function checkFormat(file: DatabaseSync): void {
  if (numberOf(file, 'application_id') === applicationId && numberOf(file, 'user_version') === storeFormat) return;
  throw new ForeignFileError('the file is of another format');
}

/** The value of a pragma that is a number. */
export function numberOf(file: DatabaseSync, pragma: string): number {
  return Number(file.prepare(`pragma ${pragma}`).get()?.[pragma]);
}

/** SQLite's result codes (sqlite.org/rescode.html). */
const codes = { busy: 5, readOnly: 8, ioError: 10, full: 13, cannotOpen: 14 } as const;
/** Codes of a damaged file: a table is missing, pages contradict each other, rows break a rule of the schema, no database. */
const damageCodes: ReadonlySet<number | undefined> = new Set([1, 11, 19, 20, 26]);

/** The primary result code of an error of SQLite; `undefined` for any other one. */
function codeOf(error: unknown): number | undefined {
  const { errcode } = error as { readonly errcode?: number };
  return errcode === undefined ? undefined : errcode & 0xff;
}

/** Whether no process can use the file: it is damaged, too large, or of another format. */
export function isUnusable(error: unknown): boolean {
  if (error instanceof ForeignFileError || error instanceof OversizedFileError) return true;
  // A number that no process has written.
  const isOutOfRange = (error as NodeJS.ErrnoException).code === 'ERR_OUT_OF_RANGE';
  return isOutOfRange || damageCodes.has(codeOf(error));
}

/** Whether the disk has no room for a write. */
export function isFull(error: unknown): boolean {
  return codeOf(error) === codes.full || (error as NodeJS.ErrnoException).code === 'ENOSPC';
}

/** Whether another process holds the lock. */
export function isBusy(error: unknown): boolean {
  return codeOf(error) === codes.busy;
}

/** The fault in words for an operator, without paths. */
export function faultOf(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  if (isFull(error)) return 'the disk is full';
  if (error instanceof ForeignFileError) return 'its file was of another format, and is replaced';
  if (error instanceof OversizedFileError) return 'its file was above maxBytes, and is replaced';
  if (error instanceof LogInUseError) return 'its log of writes is in use, and cannot be emptied';
  if (isUnusable(error)) return 'its file is damaged, and is replaced';
  const sqlite = codeOf(error);
  if (sqlite === codes.readOnly || code === 'EROFS') return 'its folder is read-only';
  if (sqlite === codes.cannotOpen || code === 'EACCES' || code === 'ENOENT' || code === 'ENOTDIR')
    return 'its folder cannot be used: it is missing, or closed to this user';
  return sqlite === codes.ioError ? 'the disk fails' : `its file fails (${sqlite ?? code ?? 'unknown'})`;
}
