/** Faults on demand of a sample node, for all requests or for some. */
import type { LedgerInfo } from '../../src/ledger/ledger-headers.ts';
import { findU64 } from '../../src/ledger/version.ts';
import type { SampleAnswer } from '../../src/sample/answer.ts';
import { bareError, nodeError, versionPruned } from '../../src/sample/node-error.ts';
import type { ReceivedRequest } from '../../src/sample/sample-node.ts';

/** One fault of a node. */
export type SampleFault =
  /** The node is so many versions behind: head, timestamp and state. */
  | { readonly kind: 'lag'; readonly versions: bigint }
  | { readonly kind: 'latency'; readonly ms: number }
  /** The answer waits for a promise of the test; if that rejects, the answer is sent all the same. */
  | { readonly kind: 'hold'; readonly until: Promise<unknown> }
  /** The request is taken and never answered. */
  | { readonly kind: 'hang' }
  /** The connection is reset before a byte of the answer. */
  | { readonly kind: 'reset' }
  /** The body comes in pieces. */
  | { readonly kind: 'slow body'; readonly chunkBytes: number; readonly everyMs: number }
  /** Half of the announced body, then the end of the connection. */
  | { readonly kind: 'truncated body' }
  /** 410 for a version that is held. */
  | { readonly kind: 'pruned' }
  /** 500, as when the pruner passes between a node's check and its read (protocol 7). */
  | { readonly kind: 'pruned while reading' }
  /** 503 without ledger headers, as from a node that is still starting. */
  | { readonly kind: 'unavailable' }
  | { readonly kind: 'wrong chain id'; readonly chainId: number }
  | { readonly kind: 'no ledger headers' }
  /** 200 with a web page, as from a balancer or a captive portal. */
  | { readonly kind: 'html' }
  /** Any other answer, without ledger headers. */
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly body: string | Buffer;
      readonly contentType?: string;
      readonly headers?: Readonly<Record<string, string>>;
    };

/** Scope of a fault. */
export interface FaultLimits {
  /** Default: every request; for the two pruned faults, every read at a version. */
  readonly when?: (request: ReceivedRequest) => boolean;
  /** The fault is over after so many requests. Default: it stays. */
  readonly times?: number;
}

interface Active {
  readonly fault: SampleFault;
  readonly when: (request: ReceivedRequest) => boolean;
  timesLeft: number;
}

/** The faults of one node. Several may stand at once and then all apply, in the order they were added. */
export class Faults {
  #active: Active[] = [];

  add(fault: SampleFault, limits: FaultLimits = {}): void {
    const { when = usualScope(fault), times = Infinity } = limits;
    this.#active.push({ fault, when, timesLeft: times });
  }

  clear(): void {
    this.#active = [];
  }

  /** The faults for this request, which counts towards their `times`. */
  take(request: ReceivedRequest): readonly SampleFault[] {
    if (this.#active.length === 0) return [];
    const matching = this.#active.filter((active) => active.when(request));
    for (const active of matching) active.timesLeft -= 1;
    this.#active = this.#active.filter((active) => active.timesLeft > 0);
    return matching.map((active) => active.fault);
  }
}

/** The last of these faults that is of one of `kinds`: the later of two counts. */
export function findFault<Kind extends SampleFault['kind']>(
  faults: readonly SampleFault[],
  ...kinds: readonly Kind[]
): Extract<SampleFault, { kind: Kind }> | undefined {
  const isOf = (fault: SampleFault): fault is Extract<SampleFault, { kind: Kind }> =>
    kinds.some((kind) => kind === fault.kind);
  return faults.findLast(isOf);
}

const readsAtVersion: ReadonlySet<string> = new Set(
  'account resource resources module modules balance tableItem rawTableItem view byVersion'.split(' '),
);

/** No real node answers 410 to `GET /v1`. */
function usualScope(fault: SampleFault): (request: ReceivedRequest) => boolean {
  const isPruned = fault.kind === 'pruned' || fault.kind === 'pruned while reading';
  return isPruned ? (request) => readsAtVersion.has(request.route) : () => true;
}

/**
 * The answer of a fault that replaces the node's own; `undefined` without one. `pinned`: the text of the request's
 * `ledger_version`, which the message names.
 */
export function findReplacement(
  faults: readonly SampleFault[],
  ledger: LedgerInfo,
  pinned: string | null,
): SampleAnswer | undefined {
  const fault = findFault(faults, 'pruned', 'pruned while reading', 'unavailable', 'html', 'answer');
  const version = findU64(pinned ?? '') ?? ledger.version;
  switch (fault?.kind) {
    case undefined:
      return undefined;
    case 'pruned':
      return versionPruned(version).answer;
    case 'pruned while reading': {
      const bound = `min available version is ${version + 1n}.`;
      return nodeError(500, 'internal_error', `Transaction at version ${version} is pruned, ${bound}`).answer;
    }
    case 'unavailable':
      return bareError(503, 'internal_error', 'Failed to read latest ledger info').answer;
    case 'html':
      return page;
    case 'answer': {
      const { status, body, headers = {}, contentType = 'application/json' } = fault;
      return { status, body, headers, contentType, ledgerHeaders: false };
    }
  }
}

const page: SampleAnswer = {
  status: 200,
  contentType: 'text/html; charset=utf-8',
  body: '<!doctype html><title>Sign in</title><p>This is not a ledger node.',
  ledgerHeaders: false,
};
