/** Whether two nodes said the same of one pinned read: pure. */
import { canonicalJson, parseJson } from '../../ledger/json-value.ts';
import type { JsonBody } from '../../ledger/json-body.ts';

/** A final answer: status 200, or a 404 that stays true. */
export interface FinalAnswer {
  readonly status: number;
  readonly body: Buffer;
  readonly json: JsonBody;
}

/** `other spelling`: the same JSON value, written otherwise, as nodes of another release may do. */
export type AnswerComparison = 'equal' | 'other spelling' | 'disagreement';

export function compareAnswers(one: FinalAnswer, other: FinalAnswer): AnswerComparison {
  if (one.status !== other.status) return 'disagreement';
  if (one.body.equals(other.body)) return 'equal';
  // What a node says beside the code is for people, and names the address in the node's own way.
  if (one.status !== 200) return codeOf(one) === codeOf(other) ? 'equal' : 'disagreement';
  const [text, otherText] = [canonicalText(one), canonicalText(other)];
  return text !== undefined && text === otherText ? 'other spelling' : 'disagreement';
}

/** Of two bodies that differ, the offset of the first byte that does. */
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
