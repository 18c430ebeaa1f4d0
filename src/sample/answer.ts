/** Answers of a sample node before they are written, and the form that `Accept` selects (protocol 2.3). */
import { createHash } from 'node:crypto';

/** One answer to a client. `ledgerHeaders`: whether the seven headers go with it (protocol 2.2). */
export interface SampleAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string | Uint8Array;
  readonly ledgerHeaders: boolean;
  /** Set on answers of `/view` only. */
  readonly gasUsed?: bigint;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Form of an answer that `Accept` selects. */
export type AcceptForm = 'json' | 'bcs';

const jsonType = 'application/json; charset=utf-8';
const bcsType = 'application/x-bcs';

/**
 * The first entry by falling q whose text is exactly one of the two types; anything else is JSON, never a 406
 * (protocol 2.3). An entry with parameters is sorted by its q but then not recognised.
 */
export function negotiate(accept: string | undefined): AcceptForm {
  const entries = (accept ?? '').split(',').map((text) => ({ text: text.trim().toLowerCase(), q: quality(text) }));
  for (const { text } of entries.sort((a, b) => b.q - a.q)) {
    if (text === 'application/json') return 'json';
    if (text === bcsType) return 'bcs';
  }
  return 'json';
}

function quality(entry: string): number {
  const q = /;\s*q=([0-9.]+)/i.exec(entry)?.[1];
  return q === undefined ? 1 : Number(q);
}

/** A JSON answer with ledger headers. */
export function jsonAnswer(body: string, status = 200): SampleAnswer {
  return { status, contentType: jsonType, body, ledgerHeaders: true };
}

/** The JSON text in the form asked for. `bcsVariant`: the leading variant byte of types that have one. */
export function answerIn(form: AcceptForm, body: string, bcsVariant?: number): SampleAnswer {
  if (form === 'json') return jsonAnswer(body);
  return { status: 200, contentType: bcsType, body: standInBytes(body, bcsVariant), ledgerHeaders: true };
}

/** A sample node has no BCS encoder: the bytes only depend on the state that was read, as real ones do. */
function standInBytes(body: string, variant?: number): Uint8Array {
  const digest = createHash('sha256').update(body).digest();
  return variant === undefined ? digest : Buffer.concat([Buffer.from([variant]), digest]);
}
