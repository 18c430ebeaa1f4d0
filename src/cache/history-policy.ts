/**
 * Finality of reads of history: transactions by version, lists, blocks, events. An answer is final once all that was
 * asked for lies within the ledger of the node that answered and within the ledger that the fleet believes in; before,
 * the same request will have a longer answer.
 */
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import { findU64 } from '../ledger/version.ts';
import type { AnswerFacts, Extent, ReadFacts } from './read-facts.ts';

type Bodies = Pick<AnswerFacts, 'body' | 'json'>;

/** The decision on a 200 in the form that was asked for. `head`: the fleet's. Pure. */
export function decideHistory(
  { extent, form }: ReadFacts,
  answer: Bodies,
  info: LedgerInfo,
  head: LedgerInfo | undefined,
): 'stored' | 'not complete' | 'not committed' {
  // A node whose head is not believed may be of another history, and its head proves no answer complete.
  if (extent === undefined || head === undefined || info.version > head.version) return 'not complete';
  switch (extent.kind) {
    case 'transaction':
      if (extent.version > info.version) return 'not complete';
      return isCommittedAt(extent.version, form, answer) ? 'stored' : 'not committed';
    case 'list':
      return extent.last <= info.version && isFullList(extent, form, answer) ? 'stored' : 'not complete';
    case 'block':
    case 'bare block': {
      // The height asked for stands in for the one in a list that is too large to parse.
      const height = heightIn(form, answer) ?? (answer.json.isOpaque ? extent.height : undefined);
      if (height === undefined || height !== (extent.height ?? height)) return 'not complete';
      // The block of the head may still grow.
      return height < info.blockHeight && height < head.blockHeight ? 'stored' : 'not complete';
    }
    case 'page':
      return lengthOf(form, answer) === extent.items ? 'stored' : 'not complete';
  }
}

/** Whether the answer is the transaction committed at `version`, by the members or bytes that nodes must send (1.1). */
function isCommittedAt(version: bigint, form: ReadFacts['form'], { body, json }: Bodies): boolean {
  if (form === 'bcs') return body.length > 8 && body[0] === 0 && body.readBigUInt64LE(1) === version;
  const { type, version: text, success } = json.members;
  if (typeof type !== 'string' || type === 'pending_transaction' || typeof success !== 'boolean') return false;
  return typeof text === 'string' && findU64(text) === version;
}

/** Whether the list has all its items: a node that is behind the head that it reports answers a shorter one. */
function isFullList(
  { last, items }: Extract<Extent, { readonly kind: 'list' }>,
  form: ReadFacts['form'],
  answer: Bodies,
): boolean {
  // Too large to parse: its last version is searched for instead.
  if (form === 'json' && answer.json.isOpaque) return answer.body.includes(`"version":"${last}"`);
  return lengthOf(form, answer) === items;
}

/** Height in a block: a text in JSON; in BCS the first member, a u64 (protocol 1, row 14). */
function heightIn(form: ReadFacts['form'], { body, json }: Bodies): bigint | undefined {
  if (form === 'bcs') return body.length < 8 ? undefined : body.readBigUInt64LE();
  const { block_height: height } = json.members;
  return typeof height === 'string' ? findU64(height) : undefined;
}

/** Items of a list: of a JSON array, or by the length that opens a BCS sequence, one byte up to 127 (ULEB128). */
function lengthOf(form: ReadFacts['form'], { body, json }: Bodies): number | undefined {
  return form === 'json' ? json.items : body[0];
}
