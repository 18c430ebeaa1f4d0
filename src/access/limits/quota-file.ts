/**
 * The use of quotas on the disk, for a gateway without Redis: lines with the totals of an account, the last line of each
 * counts. Lines are appended at the end of each turn of the event loop, so that a killed process loses no more than the
 * requests of one turn; nothing waits for the disk, so that a power cut may cost the last seconds.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Journal } from '../../metrics/index.ts';
import { type KeptUse, Quotas, type QuotaUse } from './quotas.ts';

const fileName = 'quotas.jsonl';
/** Bytes of lines after which the file is written anew. */
const mostAppended = 16 * 1024 * 1024;
/** Pause after a failed write. */
const pauseMs = 1_000;

interface QuotaFileOptions {
  /** All accounts of the month. */
  readonly all: () => Iterable<QuotaUse>;
  /** Called at the begin (with the reason, an error code of the system) and at the end of a trouble. */
  readonly onTrouble: (reason: string | undefined) => void;
}

interface KeptQuotasOptions {
  /** Absent: troubles are not recorded. */
  readonly journal: Journal | undefined;
  readonly now: (() => number) | undefined;
  readonly onDropped: () => void;
}

/** The quotas of a process that counts for all, kept in a folder; without one they last as long as the process. */
export function createQuotas(folder: string | undefined, { journal, now, onDropped }: KeptQuotasOptions) {
  if (folder === undefined) return { quotas: new Quotas({ now, onDropped }), close: () => undefined };
  const onTrouble = (reason: string | undefined): void => {
    if (reason === undefined) journal?.record('quotas kept', {}, 'quotas are kept on the disk again');
    else journal?.record('quotas unkept', { reason }, 'quotas are not kept on the disk, and a restart forgets them');
  };
  const file = new QuotaFile(folder, { all: () => quotas.all(), onTrouble });
  const quotas: Quotas = new Quotas({
    now,
    onDropped,
    load: () => file.read(),
    onCounted: (use) => file.note(use),
  });
  return { quotas, close: () => file.close() };
}

/** Appends totals to the file of a folder. No method throws: while the disk refuses them, quotas are counted in memory. */
class QuotaFile {
  readonly #folder: string;
  readonly #all: QuotaFileOptions['all'];
  readonly #onTrouble: QuotaFileOptions['onTrouble'];
  readonly #changed = new Set<QuotaUse>();
  #descriptor: number | undefined;
  #appended = 0;
  #isPlanned = false;
  #pausedUntilMs = -Infinity;
  #reason: string | undefined;

  constructor(folder: string, { all, onTrouble }: QuotaFileOptions) {
    this.#folder = folder;
    this.#all = all;
    this.#onTrouble = onTrouble;
  }

  /** The last row of each account. Empty where there is no file, or it cannot be read. */
  read(): Iterable<KeptUse> {
    const rows = new Map<string, KeptUse>();
    try {
      for (const line of fs.readFileSync(join(this.#folder, fileName), 'utf8').split('\n')) {
        const row = parseRow(line);
        if (row !== undefined) rows.set(`${row.unit}:${row.subject}`, row);
      }
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') this.#report(codeOf(error));
    }
    return rows.values();
  }

  /** Writes the account at the end of the turn. */
  note(use: QuotaUse): void {
    this.#changed.add(use);
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(() => {
      this.#isPlanned = false;
      this.#flush();
    });
  }

  close(): void {
    this.#pausedUntilMs = -Infinity;
    this.#flush();
    if (this.#descriptor !== undefined) fs.closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  #flush(): void {
    if (this.#changed.size === 0 || performance.now() < this.#pausedUntilMs) return;
    try {
      if (this.#descriptor === undefined || this.#appended > mostAppended) this.#rewrite();
      else this.#appended += writeWhole(this.#descriptor, linesOf(this.#changed));
      this.#changed.clear();
      this.#report(undefined);
    } catch (error) {
      // A part of a line may be written: the next write replaces the file. The accounts are in memory.
      if (this.#descriptor !== undefined) fs.closeSync(this.#descriptor);
      this.#descriptor = undefined;
      this.#pausedUntilMs = performance.now() + pauseMs;
      this.#report(codeOf(error));
    }
  }

  /** Replaces the file by the accounts of the month. Throws as the system does. */
  #rewrite(): void {
    // No folder above it: below a volume that is gone, it would be on another disk.
    if (!fs.existsSync(this.#folder)) fs.mkdirSync(this.#folder);
    const path = join(this.#folder, fileName);
    const descriptor = fs.openSync(`${path}.new`, 'w', 0o600);
    try {
      writeWhole(descriptor, linesOf(this.#all()));
      fs.renameSync(`${path}.new`, path);
    } catch (error) {
      fs.closeSync(descriptor);
      throw error;
    }
    if (this.#descriptor !== undefined) fs.closeSync(this.#descriptor);
    this.#descriptor = descriptor;
    this.#appended = 0;
  }

  #report(reason: string | undefined): void {
    if (reason === this.#reason) return;
    this.#reason = reason;
    this.#onTrouble(reason);
  }
}

function linesOf(uses: Iterable<QuotaUse>): string {
  let lines = '';
  for (const { kept, day, month } of uses) {
    lines += `${kept}"${day.name}",${day.used},"${month.name}",${month.used}]\n`;
  }
  return lines;
}

/** The number of bytes: names of plans and tenants, and addresses, are ASCII. */
function writeWhole(descriptor: number, text: string): number {
  const written = fs.writeSync(descriptor, text);
  if (written < text.length) throw Object.assign(new Error('a part was written'), { code: 'ENOSPC' });
  return written;
}

/** `undefined` for a torn line, or one of another form. */
function parseRow(line: string): KeptUse | undefined {
  try {
    const parts: unknown = JSON.parse(line);
    if (!Array.isArray(parts) || parts.length !== 7) return undefined;
    const [subject, hasKey, unit, day, ofDay, month, ofMonth] = parts as unknown[];
    if (typeof subject !== 'string' || typeof hasKey !== 'boolean' || (unit !== 'requests' && unit !== 'cost')) return;
    if (typeof day !== 'string' || typeof month !== 'string' || !isAmount(ofDay) || !isAmount(ofMonth)) return;
    return { subject, hasKey, unit, day, ofDay, month, ofMonth };
  } catch {
    return undefined;
  }
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

/** A closed set: the system's. */
function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown';
}
