/** The use of quotas on the disk, for a gateway without Redis: lines with the totals of an account. */
import { join } from 'node:path';
import type { Journal } from '../../metrics/index.ts';
import { KeptRecords } from '../kept-records.ts';
import { type KeptUse, Quotas, type QuotaUse } from './quotas.ts';

const fileName = 'quotas.jsonl';

interface KeptQuotasOptions {
  /** Absent: troubles are not recorded. */
  readonly journal: Journal | undefined;
  readonly now: (() => number) | undefined;
  readonly onDropped: () => void;
}

/** The quotas of a process that counts for all, kept in a folder; without one they last as long as the process. */
export function createQuotas(folder: string | undefined, { journal, now, onDropped }: KeptQuotasOptions) {
  if (folder === undefined) return { quotas: new Quotas({ now, onDropped }), close: () => undefined };
  const records = new KeptRecords<QuotaUse>({
    path: join(folder, fileName),
    lineOf: ({ kept, day, month }) => `${kept}"${day.name}",${day.used},"${month.name}",${month.used}]`,
    all: () => quotas.all(),
    onTrouble: (reason) => {
      if (reason === undefined) journal?.record('quotas kept', {}, 'quotas are kept on the disk again');
      else journal?.record('quotas unkept', { reason }, 'quotas are not kept on the disk, and a restart forgets them');
    },
  });
  const quotas: Quotas = new Quotas({
    now,
    onDropped,
    load: () => lastOfEach(records.read()),
    onCounted: (use) => records.note(use),
  });
  // At the start: a long file takes a while.
  quotas.today();
  return { quotas, close: () => records.close() };
}

function lastOfEach(lines: readonly string[]): Iterable<KeptUse> {
  const last = new Map<string, KeptUse>();
  for (const line of lines) {
    const row = parseRow(line);
    if (row !== undefined) last.set(`${row.unit}:${row.subject}`, row);
  }
  return last.values();
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
