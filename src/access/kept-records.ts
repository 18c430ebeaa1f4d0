/**
 * Records of a process on its disk, as lines of a file: the last line of each record counts. Changed records are appended
 * at the end of a turn of the event loop, so a killed process loses those of one turn; nothing waits for the disk, so a
 * power cut may cost the last seconds. A file that has grown is written anew, a piece each turn.
 */
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Journal } from '../metrics/index.ts';
import { onceATurn, piecesOf } from './rounds.ts';

/** Bytes of lines from which on a file is written anew, unless half of them are needed. */
const smallestGrown = 16 * 1024 * 1024;
/** Records that are written at a time. */
const atOnce = 1_000;
/** Records without a line from which on dropped ones are left out. */
const mostUnwritten = 2_000;
/** Pause after a failed write. */
const pauseMs = 1_000;

/** The messages at the end and at the begin of a trouble. */
const messages = {
  quotas: ['quotas are kept on the disk again', 'quotas are not kept on the disk, and a restart forgets them'],
  usage: ['usage is kept on the disk again', 'usage is not kept on the disk, and a restart forgets it'],
} as const;

/** The place and the clock of counts that are kept over restarts. */
export interface KeptCounts {
  /** Absent: they last as long as the process. */
  readonly folder?: string | undefined;
  /** Records troubles of the folder. */
  readonly journal?: Journal | undefined;
  /** Unix time in ms. Default: the system's. */
  readonly now?: (() => number) | undefined;
}

interface Source<Kept> {
  /** JSON, without a line break. */
  readonly lineOf: (record: Kept) => string;
  readonly all: () => Iterable<Kept>;
}

/** The file. No method throws: while the disk refuses them, records are in memory alone. */
export class KeptRecords<Kept> {
  readonly #path: string;
  readonly #what: keyof typeof messages;
  readonly #journal: Journal | undefined;
  readonly #source: Source<Kept>;
  readonly #plan = onceATurn(() => this.#flush());
  /** Not in the file yet. */
  readonly #changed = new Set<Kept>();
  /** Changed since the new file was begun. */
  #sinceBegun: Set<Kept> | undefined;
  #descriptor: number | undefined;
  #mostUnwritten = mostUnwritten;
  #bytes = 0;
  #grownBytes = smallestGrown;
  #isClosed = false;
  #pausedUntilMs = -Infinity;
  /** Why the disk refuses records: an error code of the system. */
  #trouble: string | undefined;

  /** `journal`: records the begin and the end of a trouble. */
  constructor(folder: string, what: keyof typeof messages, journal: Journal | undefined, source: Source<Kept>) {
    this.#path = join(folder, `${what}.jsonl`);
    this.#what = what;
    this.#journal = journal;
    this.#source = source;
  }

  /** The values of the lines, oldest first; none where the file cannot be read. `undefined` for a torn line. */
  *read(): Iterable<unknown> {
    let text = '';
    try {
      text = fs.readFileSync(this.#path, 'utf8');
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') this.#report(codeOf(error));
    }
    for (const line of text.split('\n')) yield valueOf(line);
  }

  /** Writes the record at the end of the turn. */
  note(record: Kept): void {
    this.#changed.add(record);
    this.#sinceBegun?.add(record);
    if (this.#changed.size > this.#mostUnwritten) this.#leaveOutDropped();
    this.#plan();
  }

  close(): void {
    this.#pausedUntilMs = -Infinity;
    this.#flush();
    this.#isClosed = true;
    this.#drop();
  }

  #flush(): void {
    if (this.#isClosed || this.#changed.size === 0 || performance.now() < this.#pausedUntilMs) return;
    try {
      const descriptor = (this.#descriptor ??= this.#open());
      // By pieces: on a full disk, each attempt costs one of them.
      for (const records of piecesOf([...this.#changed], atOnce)) {
        this.#bytes += writeWhole(descriptor, this.#linesOf(records));
        for (const record of records) this.#changed.delete(record);
      }
      this.#report(undefined);
      if (this.#bytes > this.#grownBytes && this.#sinceBegun === undefined) void this.#renew();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** While the disk refuses writes, records come and are dropped: only those that are kept need a line. */
  #leaveOutDropped(): void {
    const kept = new Set(this.#source.all());
    for (const record of this.#changed) if (!kept.has(record)) this.#changed.delete(record);
    this.#mostUnwritten = Math.max(mostUnwritten, 2 * this.#changed.size);
  }

  #open(): number {
    const folder = dirname(this.#path);
    // No folder above it: below a volume that is gone, it would be on another disk.
    if (!fs.existsSync(folder)) fs.mkdirSync(folder);
    const descriptor = fs.openSync(this.#path, 'a', 0o600);
    this.#bytes = fs.fstatSync(descriptor).size;
    if (this.#bytes > 0) this.#bytes += writeWhole(descriptor, '\n');
    return descriptor;
  }

  /** Replaces the file by its last lines. Never rejects. Until it is there, changes also go to the old one. */
  async #renew(): Promise<void> {
    const beside = `${this.#path}.new`;
    const since = (this.#sinceBegun = new Set());
    let descriptor: number | undefined;
    try {
      descriptor = fs.openSync(beside, 'w', 0o600);
      let bytes = 0;
      for (const records of piecesOf([...this.#source.all()], atOnce)) {
        bytes += writeWhole(descriptor, this.#linesOf(records));
        await nextTurn();
        if (this.#isClosed) throw new Error('closed');
      }
      bytes += writeWhole(descriptor, this.#linesOf(since));
      fs.renameSync(beside, this.#path);
      this.#drop();
      this.#descriptor = descriptor;
      this.#bytes = bytes;
      this.#grownBytes = Math.max(smallestGrown, 2 * bytes);
    } catch (error) {
      if (descriptor !== undefined) fs.closeSync(descriptor);
      if (!this.#isClosed) this.#fail(error);
      this.#grownBytes = this.#bytes + smallestGrown;
    } finally {
      this.#sinceBegun = undefined;
    }
  }

  /** A part of a line may be written: the next write opens the file anew. */
  #fail(error: unknown): void {
    this.#drop();
    this.#pausedUntilMs = performance.now() + pauseMs;
    this.#report(codeOf(error));
  }

  #drop(): void {
    if (this.#descriptor !== undefined) fs.closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  #linesOf(records: Iterable<Kept>): string {
    let lines = '';
    for (const record of records) lines += `${this.#source.lineOf(record)}\n`;
    return lines;
  }

  #report(reason: string | undefined): void {
    if (reason === this.#trouble) return;
    this.#trouble = reason;
    const [kept, unkept] = messages[this.#what];
    if (reason === undefined) this.#journal?.record(`${this.#what} kept`, {}, kept);
    else this.#journal?.record(`${this.#what} unkept`, { reason }, unkept);
  }
}

function valueOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function writeWhole(descriptor: number, text: string): number {
  const bytes = Buffer.from(text);
  fs.writeFileSync(descriptor, bytes);
  return bytes.length;
}

/** A closed set: the system's. */
function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown';
}
