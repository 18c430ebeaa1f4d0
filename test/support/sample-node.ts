/** Sample nodes that record their requests, and have faults on demand. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { LedgerInfo } from '../../src/ledger/ledger-headers.ts';
import type { LedgerClock } from '../../src/sample/ledger-clock.ts';
import type { SampleRouteName } from '../../src/sample/routes.ts';
import {
  SampleNode as HealthyNode,
  type AnswerChange,
  type ReceivedRequest,
  type SampleNodeOptions as HealthyNodeOptions,
} from '../../src/sample/sample-node.ts';
import { RequestLog } from './request-log.ts';
import { Faults, findFault, findReplacement, type FaultLimits, type SampleFault } from './sample-faults.ts';

export interface SampleNodeOptions<Clock extends LedgerClock = LedgerClock> extends HealthyNodeOptions<Clock> {
  /** How many received requests are kept for inspection. Default 100. */
  readonly keepRequests?: number;
  /** Answers with gzip where the client takes it, as real nodes do. Default true. */
  readonly compression?: boolean;
  /** Further headers of each answer that has ledger headers, as newer nodes send them. Default none. */
  readonly headers?: (request: ReceivedRequest, ledger: LedgerInfo) => Readonly<Record<string, string>>;
}

/** Starts a node; resolves when it listens. */
export async function createSampleNode<Clock extends LedgerClock>(
  options: SampleNodeOptions<Clock>,
): Promise<SampleNode<Clock>> {
  const node = new SampleNode(options);
  await node.accept();
  return node;
}

/** A running node. Clock, faults and mempool may change while it runs. */
export class SampleNode<Clock extends LedgerClock = LedgerClock> extends HealthyNode<Clock> {
  readonly faults = new Faults();
  readonly log: RequestLog;
  readonly #options: SampleNodeOptions<Clock>;

  constructor(options: SampleNodeOptions<Clock>) {
    super(options);
    this.#options = options;
    this.log = new RequestLog(options.keepRequests ?? 100);
  }

  /** All requests, probes included. */
  get requests(): number {
    return this.log.count;
  }

  /** Requests besides those for health and ledger information. */
  get reads(): number {
    return this.log.readCount;
  }

  /** The last request besides those for ledger information, which come at any time. */
  get lastRead(): ReceivedRequest | undefined {
    return this.log.received.findLast(({ route }) => route !== 'ledgerInfo');
  }

  requestsTo(route: SampleRouteName | 'none'): number {
    return this.log.countOf(route);
  }

  /** The one fault of this node, in place of all others; `undefined` heals it. `faults.add` takes limits. */
  set fault(fault: SampleFault | undefined) {
    this.faults.clear();
    if (fault !== undefined) this.faults.add(fault);
  }

  /** Withholds the answers to some requests, by default to all, until the function is called. */
  hold(limits?: FaultLimits): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.faults.add({ kind: 'hold', until: promise }, limits);
    return resolve;
  }

  protected override async change(
    received: ReceivedRequest,
    request: IncomingMessage,
  ): Promise<AnswerChange | undefined> {
    const faults = this.faults.take(received);
    this.log.add(received);
    if (!(await this.#wait(faults))) return undefined;
    const end = findFault(faults, 'hang', 'reset')?.kind;
    if (end === 'reset') request.socket.resetAndDestroy();
    if (end !== undefined) return undefined;
    const own = this.ledger(findFault(faults, 'lag')?.versions);
    const ledger = { ...own, chainId: findFault(faults, 'wrong chain id')?.chainId ?? own.chainId };
    const { compression = true, headers } = this.#options;
    const pinned = new URLSearchParams(received.url.split('?').slice(1).join('?')).get('ledger_version');
    const body = findFault(faults, 'slow body', 'truncated body');
    return {
      ledger,
      answer: findReplacement(faults, ledger, pinned),
      headers: findFault(faults, 'no ledger headers') === undefined ? (headers?.(received, ledger) ?? {}) : undefined,
      isCompressed: compression,
      ...(body?.kind === 'slow body'
        ? { writeBody: (response, bytes) => writeSlowly(response, bytes, body, this.closing) }
        : body && { writeBody: writeHalf }),
    };
  }

  /** False if the node was closed meanwhile. */
  async #wait(faults: readonly SampleFault[]): Promise<boolean> {
    await Promise.allSettled(faults.flatMap((fault) => (fault.kind === 'hold' ? [fault.until] : [])));
    const { ms = 0 } = findFault(faults, 'latency') ?? {};
    if (ms > 0) await delay(ms, undefined, { signal: this.closing });
    return !this.closing.aborted;
  }
}

async function writeSlowly(
  response: ServerResponse,
  body: Uint8Array,
  pace: { readonly chunkBytes: number; readonly everyMs: number },
  signal: AbortSignal,
): Promise<void> {
  for (let at = 0; at < body.length && !response.destroyed; at += pace.chunkBytes) {
    response.write(body.subarray(at, at + pace.chunkBytes));
    await delay(pace.everyMs, undefined, { signal });
  }
  response.end();
}

/** The end comes after the half was flushed, so that the client sees headers, a part of the body, and a lost peer. */
function writeHalf(response: ServerResponse, body: Uint8Array): void {
  response.write(body.subarray(0, Math.floor(body.length / 2)), () => response.socket?.destroy());
}
