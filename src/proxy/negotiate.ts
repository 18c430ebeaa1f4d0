/** What the client can take: the answer's form by `Accept`, its coding by `Accept-Encoding`, what it has already. */
import type { ContentCoding } from '../cache/entry.ts';
import type { AnswerForm } from '../ledger/answer-form.ts';
import { ownCopy } from './aliases.ts';

/**
 * The form a node would answer in (protocol 2.3): the first entry that is exactly one of the two media types, without
 * parameters; JSON when there is none. Never 406.
 */
export function answerForm(accept: string | undefined): AnswerForm {
  if (accept === undefined || !accept.toLowerCase().includes('application/x-bcs')) return 'json';
  for (const entry of accept.split(',')) {
    const type = entry.trim().toLowerCase();
    if (type === 'application/json') return 'json';
    if (type === 'application/x-bcs') return 'bcs';
  }
  return 'json';
}

/** In order of preference where the client has none: best ratio for its cost first. */
const codings: readonly ContentCoding[] = ['zstd', 'br', 'gzip'];

/** The coding to answer in (RFC 9110 12.5.3), or `undefined` for the plain body. */
export function chooseCoding(acceptEncoding: string | undefined): ContentCoding | undefined {
  if (acceptEncoding === undefined || acceptEncoding === '') return undefined;
  const known = chosen.get(acceptEncoding);
  if (known !== undefined) return known === false ? undefined : known;
  const coding = negotiate(acceptEncoding);
  // Clients repeat a handful of values; hostile ones are kept from filling the memory, and from keeping others out.
  if (chosen.size >= 256) chosen.clear();
  if (acceptEncoding.length <= 256) chosen.set(ownCopy(acceptEncoding), coding ?? false);
  return coding;
}

const chosen = new Map<string, ContentCoding | false>();

function negotiate(acceptEncoding: string): ContentCoding | undefined {
  const weights = new Map<string, number>();
  for (const entry of acceptEncoding.toLowerCase().split(',')) {
    const [name = '', ...parameters] = entry.split(';').map((part) => part.trim());
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    weights.set(name, weight === undefined ? 1 : Number(weight.slice(2)) || 0);
  }
  const weightOf = (name: string): number => weights.get(name) ?? weights.get('*') ?? 0;
  const identity = weights.get('identity') ?? 0;
  let best: ContentCoding | undefined;
  for (const coding of codings) {
    if (weightOf(coding) > (best === undefined ? 0 : weightOf(best))) best = coding;
  }
  return best !== undefined && weightOf(best) >= identity ? best : undefined;
}

/** Whether `If-None-Match` names this entity tag (RFC 9110 13.1.2: weak comparison). */
export function matchesTag(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch === tag || ifNoneMatch.trim() === '*') return true;
  return ifNoneMatch.split(',').some((entry) => entry.trim().replace(/^W\//, '') === tag);
}
