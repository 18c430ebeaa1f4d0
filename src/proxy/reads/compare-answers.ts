/** Compares two nodes' answers to one pinned read. Pure. */
import { parseJson } from '../../ledger/json-parser.ts';
import { canonicalJson } from '../../ledger/json-value.ts';
import type { JsonBody } from '../../ledger/answer-body.ts';

/** A final answer: status 200, or a 404 that stays true. */
export interface FinalAnswer {
  readonly status: number;
  readonly body: Buffer;
  readonly json: JsonBody;
}

/** `other spelling`: the same JSON value in another text, as nodes of another release may write it. */
export type AnswerComparison = 'equal' | 'other spelling' | 'disagreement';

/** Compares status, then bytes, then JSON values; of two 404s only the `error_code`. */
export function compareAnswers(one: FinalAnswer, other: FinalAnswer): AnswerComparison {
  if (one.status !== other.status) return 'disagreement';
  if (one.body.equals(other.body)) return 'equal';
  // Messages are free text, and spell addresses in each node's own way.
  if (one.status !== 200) return codeOf(one) === codeOf(other) ? 'equal' : 'disagreement';
  const [text, otherText] = [canonicalText(one), canonicalText(other)];
  return text !== undefined && text === otherText ? 'other spelling' : 'disagreement';
}

/** Offset of the first different byte, or the length of the shorter body. */
export function firstDifference(one: Buffer, other: Buffer): number {
  const shorter = Math.min(one.length, other.length);
  for (let offset = 0; offset < shorter; offset += 1) if (one[offset] !== other[offset]) return offset;
  return shorter;
}

function codeOf({ json }: FinalAnswer): unknown {
  return json.members['error_code'];
}

function canonicalText({ body }: FinalAnswer): string | undefined {
  try {
    return canonicalJson(parseJson(body.toString()));
  } catch {
    return undefined;
  }
}
