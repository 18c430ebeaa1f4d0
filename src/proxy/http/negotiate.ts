/** Content negotiation: form by `Accept`, coding by `Accept-Encoding`, and `If-None-Match` with entity tags. */
import type { IncomingHttpHeaders } from 'node:http';
import type { CachedResponse, ContentCoding } from '../../cache/index.ts';
import type { AnswerForm } from '../../ledger/index.ts';
import { ownCopy } from './target-cache.ts';

/**
 * The form in which a node would answer (protocol 2.3): the first entry that equals one of the two media types, without
 * parameters. JSON without such an entry, and for a header above `longestAccept`. Never 406.
 */
export function answerForm(accept: string | undefined): AnswerForm {
  return precedes(accept, 'application/x-bcs', json) ? 'bcs' : 'json';
}

/** Whether `text/event-stream` is the first entry that equals it or a media type of `answerForm`. */
export function wantsEvents(accept: string | undefined): boolean {
  return precedes(accept, 'text/event-stream', forms);
}

const json = ['application/json'];
const forms = ['application/json', 'application/x-bcs'];

/** Whether `type` is the first entry that equals it or one of `others`. */
function precedes(accept: string | undefined, type: string, others: readonly string[]): boolean {
  if (accept === undefined || accept.length > longestAccept || !accept.toLowerCase().includes(type)) return false;
  const entries = accept.split(',').map((entry) => entry.trim().toLowerCase());
  return entries.find((entry) => entry === type || others.includes(entry)) === type;
}

/** Forms and codings that a client accepts: its `Accept`, if that is read, and its codings, best first. */
export function readAccept({ accept = '', 'accept-encoding': encodings }: IncomingHttpHeaders) {
  return {
    accept: accept.length > longestAccept ? undefined : accept,
    codings: acceptedCodings(encodings?.toString()),
  };
}

/** In characters; browsers send about 150. */
const longestAccept = 1024;

/** Preferred first, if the client has no preference: best ratio for its cost. */
const codings: readonly ContentCoding[] = ['zstd', 'br', 'gzip'];

/** The coding to answer in (RFC 9110 12.5.3), or `undefined` for the plain body. */
export function chooseCoding(acceptEncoding: string | undefined): ContentCoding | undefined {
  return acceptedCodings(acceptEncoding)[0];
}

/**
 * Codings that a client prefers to the plain body, best first. A header above `longestEncodings` means the plain body.
 */
export function acceptedCodings(acceptEncoding: string | undefined): readonly ContentCoding[] {
  if (acceptEncoding === undefined || acceptEncoding === '' || acceptEncoding.length > longestEncodings) return none;
  const known = chosen.get(acceptEncoding);
  if (known !== undefined) return known;
  const accepted = negotiate(acceptEncoding);
  // Clients repeat a handful of values; hostile ones must neither fill the memory nor block others.
  if (chosen.size >= 256) chosen.clear();
  chosen.set(ownCopy(acceptEncoding), accepted);
  return accepted;
}

/** In characters; browsers send about 30. */
const longestEncodings = 256;
const none: readonly ContentCoding[] = [];
const chosen = new Map<string, readonly ContentCoding[]>();

function negotiate(acceptEncoding: string): readonly ContentCoding[] {
  const weights = new Map<string, number>();
  for (const entry of acceptEncoding.toLowerCase().split(',')) {
    const [name = '', ...parameters] = entry.split(';').map((part) => part.trim());
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    weights.set(name, weight === undefined ? 1 : Number(weight.slice(2)) || 0);
  }
  const weightOf = (name: string): number => weights.get(name) ?? weights.get('*') ?? 0;
  const identity = weights.get('identity') ?? 0;
  return codings
    .filter((coding) => weightOf(coding) > 0 && weightOf(coding) >= identity)
    .toSorted((one, other) => weightOf(other) - weightOf(one));
}

/** Strong tag: equal tags mean equal bytes, so each coding has its own (RFC 9110 8.8.3.3). */
export function entityTag({ digest }: CachedResponse, coding: ContentCoding | undefined): string {
  return coding === undefined ? `"${digest}"` : `"${digest}-${coding}"`;
}

/** The tag that `If-None-Match` is compared with; `undefined`: conditions do not apply to the answer. */
export function conditionalTag(entry: CachedResponse, coding: ContentCoding | undefined): string | undefined {
  return entry.digest === '' || entry.status !== 200 ? undefined : entityTag(entry, coding);
}

/**
 * Whether `If-None-Match` names this entity tag (RFC 9110 13.1.2: weak comparison). Searches for the tag, so that a
 * header of thousands of tags takes linear time.
 */
export function matchesTag(ifNoneMatch: string | undefined, tag: string | undefined): boolean {
  if (ifNoneMatch === undefined || tag === undefined) return false;
  if (ifNoneMatch === tag || ifNoneMatch.trim() === '*') return true;
  for (let at = ifNoneMatch.indexOf(tag); at !== -1; at = ifNoneMatch.indexOf(tag, at + tag.length)) {
    if (isMember(ifNoneMatch, at, at + tag.length)) return true;
  }
  return false;
}

/** Whether `from` to `to` is a whole member of the list, weak or strong. */
function isMember(list: string, from: number, to: number): boolean {
  const isWeak = list.startsWith('W/', from - 2);
  const before = skipBlanks(list, isWeak ? from - 3 : from - 1, -1);
  const after = skipBlanks(list, to, 1);
  return (before < 0 || list[before] === ',') && (after === list.length || list[after] === ',');
}

function skipBlanks(text: string, from: number, step: 1 | -1): number {
  let at = from;
  while (text[at] === ' ' || text[at] === '\t') at += step;
  return at;
}

/** Smaller bodies fit one packet either way. */
export const smallestCompressed = 1024;
