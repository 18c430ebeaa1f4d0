/**
 * What one node's answer means for the request: is it the fleet's answer, or news about that node only?
 * Decided by status and `error_code`; message text only where the node has nothing better (protocol 10).
 */
import { JsonBody } from '../ledger/json-body.ts';
import type { Need } from './need.ts';

export type Verdict =
  /** The fleet's answer. */
  | 'final'
  /** The node no longer holds the version: another may. */
  | 'pruned'
  /** The node has not got to the version yet: another may. */
  | 'behind'
  /** The node does not know the transaction: a deeper one may, or one with another mempool (protocol 7 and 8). */
  | 'absent'
  /** The node will not do this by its configuration: another may. */
  | 'refused'
  /** The node is broken, overloaded, or not what it should be: another may be better. */
  | 'failed';

export interface Judged {
  readonly status: number;
  readonly body: Buffer;
  /** The body's, where it is at hand. */
  readonly json?: JsonBody;
}

/** Answers a question about the node itself (protocol 9); to every other request the node has failed. */
export const healthCheckFailed = 'health_check_failed';

/**
 * Judges an answer that was read whole. A success is final unless something is wrong with it (`answer-fault.ts`).
 * `isHealthCheck`: the request asks for the health of a node.
 */
export function judge(answer: Judged, need: Need, isHealthCheck = false): Verdict {
  if (answer.status < 300) return 'final';
  const error = errorOf(answer);
  switch (answer.status) {
    case 410:
      return 'pruned';
    case 404:
      if (need.kind === 'version' && aboveHead.has(error?.code ?? '')) return 'behind';
      if (error?.code === 'block_not_found' && need.kind === 'block') return 'behind';
      // A code that cannot be read, of a compressed body, may be that one.
      return need.kind === 'transaction' && (error === undefined || error.code === 'transaction_not_found')
        ? 'absent'
        : 'final';
    case 403:
      return error?.code === 'api_disabled' ? 'refused' : 'final';
    case 500:
      return need.kind !== 'head' && error !== undefined && saysPruned(error.message) ? 'pruned' : 'failed';
    case 408:
    case 429:
      return 'failed';
    default:
      // The client chose the age of the ledger that counts as unhealthy, so another node would not answer better.
      if (isHealthCheck && error?.code === healthCheckFailed) return 'final';
      return answer.status > 500 && answer.status !== 507 ? 'failed' : 'final';
  }
}

/** What nodes say of a version above their head: of the state there, the block of it, and its transaction (protocol 3). */
const aboveHead = new Set(['version_not_found', 'block_not_found', 'transaction_not_found']);

/** The `error_code` of a node's error body, or `undefined` when it is not the specified body. */
export function errorCodeOf(answer: Judged): string | undefined {
  return errorOf(answer)?.code;
}

function errorOf({ body, json = new JsonBody(body) }: Judged) {
  // Error bodies are small; one that is not is not the specified body.
  if (body.length > 64 * 1024) return undefined;
  const { error_code: code, message } = json.members;
  return typeof code === 'string' ? { code, message: typeof message === 'string' ? message : '' } : undefined;
}

/**
 * How nodes say it, newer and older ones ("Ledger version(5) has been pruned", "... at version 5 is pruned, min
 * available version is 100.", protocol 3.1 and 7). The word alone proves nothing: messages repeat what clients chose,
 * such as the name of a function.
 */
const prunedPhrase = /\b(?:version|block) ?\(?\d{1,20}\)? (?:has been pruned|is pruned\b)/i;

function saysPruned(message: string): boolean {
  return prunedPhrase.test(message);
}
