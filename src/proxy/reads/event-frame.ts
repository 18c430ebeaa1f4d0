/** Frames of Server-Sent Events (HTML, section 9.2.6). */
import type { LedgerVersion } from '../../ledger/index.ts';

const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** One event. `id`: the version that a client resumes from; absent: its last one stays. `data`: JSON. */
export function eventFrame(event: string, id: LedgerVersion | undefined, data: Buffer): Buffer {
  return Buffer.concat([eventHead(event, id), isOneLine(data) ? data : inLines(data), frameEnd]);
}

/** The part of a frame ahead of its data: see `eventFrame`. */
export function eventHead(event: string, id: LedgerVersion | undefined): Buffer {
  return Buffer.from(id === undefined ? `event: ${event}\ndata: ` : `id: ${id}\nevent: ${event}\ndata: `);
}

/** The event of a ledger that went back, or was replaced, ahead of the state at its version: nothing above that holds. */
export function rollbackFrame(version: LedgerVersion): Buffer {
  return eventFrame('rollback', version, Buffer.from(`{"version":"${version}"}`));
}

/** The end of each frame. */
export const frameEnd = Buffer.from('\n\n');

/** Whether the bytes are data of an event as they are. */
export function isOneLine(bytes: Buffer): boolean {
  return !bytes.includes(lineFeed) && !bytes.includes(carriageReturn);
}

/**
 * As the lines of one event, joined by line feeds at the reader. No string of JSON holds a raw line break, so that a blank
 * is as good as a carriage return, which no event can carry.
 */
export function inLines(bytes: Buffer): Buffer {
  const text = bytes.toString('latin1').replaceAll('\r', ' ').replaceAll('\n', '\ndata: ');
  return Buffer.from(text, 'latin1');
}
