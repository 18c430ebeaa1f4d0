/** Faults on demand of a sample node, for all requests or for some. */
import type { ReceivedRequest } from './request-log.ts';

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

/** The faults of one request, sorted by the step of an answer on which they act. */
export interface FaultPlan {
  readonly delayMs: number;
  readonly holds: readonly Promise<unknown>[];
  readonly end: 'answer' | 'hang' | 'reset';
  readonly lag: bigint;
  readonly chainId: number | undefined;
  readonly ledgerHeaders: boolean;
  /** The fault whose answer replaces the node's own. */
  readonly replacement: Replacement | undefined;
  readonly body: Extract<SampleFault, { kind: 'slow body' | 'truncated body' }> | undefined;
}

/** A fault that replaces the answer as a whole. */
export type Replacement = Extract<
  SampleFault,
  { kind: 'pruned' | 'pruned while reading' | 'unavailable' | 'html' | 'answer' }
>;

const noFault: FaultPlan = {
  delayMs: 0,
  holds: [],
  end: 'answer',
  lag: 0n,
  chainId: undefined,
  ledgerHeaders: true,
  replacement: undefined,
  body: undefined,
};

/** The later of two faults of a kind counts; holds add up. */
export function planFaults(faults: readonly SampleFault[]): FaultPlan {
  return faults.reduce(withFault, noFault);
}

function withFault(plan: FaultPlan, fault: SampleFault): FaultPlan {
  switch (fault.kind) {
    case 'lag':
      return { ...plan, lag: fault.versions };
    case 'latency':
      return { ...plan, delayMs: fault.ms };
    case 'hold':
      return { ...plan, holds: [...plan.holds, fault.until] };
    case 'hang':
    case 'reset':
      return { ...plan, end: fault.kind };
    case 'wrong chain id':
      return { ...plan, chainId: fault.chainId };
    case 'no ledger headers':
      return { ...plan, ledgerHeaders: false };
    case 'slow body':
    case 'truncated body':
      return { ...plan, body: fault };
    case 'pruned':
    case 'pruned while reading':
    case 'unavailable':
    case 'html':
    case 'answer':
      return { ...plan, replacement: fault };
  }
}

const readsAtVersion = new Set([
  'account',
  'resource',
  'resources',
  'module',
  'modules',
  'balance',
  'tableItem',
  'rawTableItem',
  'view',
  'byVersion',
]);

/** No real node answers 410 to `GET /v1`. */
function usualScope(fault: SampleFault): (request: ReceivedRequest) => boolean {
  const isPruned = fault.kind === 'pruned' || fault.kind === 'pruned while reading';
  return isPruned ? (request) => readsAtVersion.has(request.route) : () => true;
}
