/** Answers of a sample node before they are written, and the form that `Accept` selects (protocol 2.3). */
import { standInBytes } from './bcs.ts';

/** One answer to a client. `ledgerHeaders`: whether the seven headers go with it (protocol 2.2). */
export interface SampleAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string | Uint8Array;
  readonly ledgerHeaders: boolean;
  /** Set on answers of `/view` only. */
  readonly gasUsed?: bigint;
  /** Set on pages of resources and modules after which more remains. */
  readonly cursor?: string;
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

/** The JSON text in the form asked for. `bcs`: the bytes of types whose frame a client can read. */
export function answerIn(form: AcceptForm, body: string, bcs?: () => Uint8Array): SampleAnswer {
  return form === 'json' ? jsonAnswer(body) : bcsAnswer(bcs?.() ?? standInBytes(body));
}

/** A BCS answer with ledger headers. */
export function bcsAnswer(body: Uint8Array): SampleAnswer {
  return { status: 200, contentType: bcsType, body, ledgerHeaders: true };
}
