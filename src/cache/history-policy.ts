/**
 * Finality of reads of history: transactions by version, lists, blocks, events. An answer is final once all that was
 * asked for lies within the ledger of the node that answered and within the ledger that the fleet believes in; before,
 * the same request will have a longer answer.
 */
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import { findU64 } from '../ledger/version.ts';
import type { AnswerFacts, ReadFacts } from './read-facts.ts';

type Bodies = Pick<AnswerFacts, 'body' | 'json'>;

/** The decision on a 200 in the form that was asked for. `head`: the fleet's. Pure. */
export function decideHistory(
  { extent, form, version }: ReadFacts,
  answer: Bodies,
  info: LedgerInfo,
  head: LedgerInfo | undefined,
): 'stored' | 'not complete' | 'not committed' {
  if (extent === undefined || head === undefined) return 'not complete';
  switch (extent.kind) {
    case 'versions':
      if (extent.last > info.version || extent.last > head.version) return 'not complete';
      return version !== undefined && isOfOther(version, form, answer) ? 'not committed' : 'stored';
    case 'block':
    case 'bare block': {
      const height = extent.height ?? heightIn(form, answer);
      // The block of the head may still grow.
      const isComplete = height !== undefined && height < info.blockHeight && height < head.blockHeight;
      return isComplete ? 'stored' : 'not complete';
    }
    case 'page':
      // A node whose head is not believed may be of another history.
      if (info.version > head.version) return 'not complete';
      return lengthOf(form, answer) === extent.items ? 'stored' : 'not complete';
  }
}

/** Whether the JSON contradicts the version that was asked for: a pending transaction, or one of another version. */
function isOfOther(version: bigint, form: ReadFacts['form'], { json }: Pick<AnswerFacts, 'json'>): boolean {
  if (form === 'bcs') return false;
  const { type, version: text } = json.members;
  return type === 'pending_transaction' || (typeof text === 'string' && findU64(text) !== version);
}

/** Height in a block: a text in JSON; in BCS the first member, a u64 (protocol 1, row 14). */
function heightIn(form: ReadFacts['form'], { body, json }: Bodies): bigint | undefined {
  if (form === 'bcs') return body.length < 8 ? undefined : body.readBigUInt64LE();
  const { block_height: height } = json.members;
  return typeof height === 'string' ? findU64(height) : undefined;
}

/** Items of a list: of a JSON array, or by the ULEB128 length that opens a BCS sequence. */
function lengthOf(form: ReadFacts['form'], { body, json }: Bodies): number | undefined {
  if (form === 'json') return json.items;
  const [first = 0, second = 0] = body;
  if (body.length === 0 || (first > 0x7f && second > 0x7f)) return undefined;
  return first > 0x7f ? (first & 0x7f) | (second << 7) : first;
}
