/** The standing proof's questions to nodes: asked behind the client's back, bounded, and judged. */
import { encodeSubmission } from '../../encode/encode-submission.ts';
import type { LoadModule } from '../../encode/load-layout.ts';
import { compareWithNode, isOfUpgrade, type NodeEncoding, type ShadowProof } from '../../encode/shadow.ts';
import type { EncodeMetrics } from '../../metrics/encode-metrics.ts';
import type { NodeAnswer } from '../../upstream/dispatch/exchange.ts';
import { QueueFullError } from '../../upstream/dispatch/queue.ts';
import type { Fleet } from '../../upstream/fleet.ts';
import type { Sender } from '../../upstream/dispatch/sender.ts';
import type { ModuleSource } from './module-source.ts';

/** One request that was answered here. */
export interface LocalEncoding {
  readonly functionId: string;
  /** Of the function's ABI. */
  readonly signature: string;
  readonly hex: string;
  /** The fleet's head when it was encoded. */
  readonly version: bigint | undefined;
  readonly body: Buffer;
  /** The client that sent the request: the check waits for a node in the turn of that client. */
  readonly client: string;
}

export interface Mismatch {
  readonly functionId: string;
  /** `0x` and hex, as the client got it. */
  readonly local: string;
  /** The node's answer as text: its bytes, or its refusal. */
  readonly node: string;
  readonly upstream: string;
}

/** A request whose text a node refused. The bytes are left out: a client can have as many such lines as it likes. */
export interface NodeRefusal {
  readonly functionId: string;
  /** The node's refusal, cut. */
  readonly node: string;
  readonly upstream: string;
}

export interface ShadowChecksParts {
  readonly fleet: Fleet;
  readonly sender: Sender;
  readonly modules: ModuleSource;
  readonly signingDomain: string;
  readonly proof: ShadowProof;
  readonly metrics: EncodeMetrics;
  /** The function is distrusted now. */
  readonly onMismatch: (mismatch: Mismatch) => void;
  readonly onNodeRefusal: (unread: NodeRefusal) => void;
}

/** Bounds of what is under way at once: a slow node must not make checks or their bodies pile up. */
const maxChecks = 32;
const maxBytes = 32 * 1024 * 1024;
const timeoutMs = 10_000;
const maxLoggedCharacters = 1_000;

export class ShadowChecks {
  readonly #parts: ShadowChecksParts;
  #inFlight = 0;
  #bytes = 0;

  constructor(parts: ShadowChecksParts) {
    this.#parts = parts;
  }

  /**
   * Asks a node for the same bytes, if it is this request's turn. Returns at once and never throws. The promise, if any,
   * never rejects: the request's body is held until it resolves.
   */
  consider(local: LocalEncoding): Promise<void> | undefined {
    const { proof, metrics } = this.#parts;
    if (!proof.shouldCheck(local.functionId, local.signature)) return undefined;
    const size = local.body.length + local.hex.length;
    if (this.#inFlight >= maxChecks || this.#bytes + size > maxBytes) {
      metrics.checked('skipped');
      return undefined;
    }
    this.#inFlight += 1;
    this.#bytes += size;
    return this.#askNode(local)
      .then(
        (answer) => this.#record(local, answer),
        // No node answered: nothing is proven, and a later request of this function asks again.
        (error: unknown) => {
          // A client whose own requests crowd the nodes would keep the check from all others.
          if (error instanceof QueueFullError) proof.giveBack(local.functionId, local.signature);
          metrics.checked('inconclusive');
        },
      )
      .finally(() => {
        this.#inFlight -= 1;
        this.#bytes -= size;
      });
  }

  #askNode({ body, client }: LocalEncoding): Promise<NodeAnswer> {
    const wire = {
      method: 'POST',
      path: '/transactions/encode_submission',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body,
    } as const;
    const request = { wire, need: { kind: 'head' }, promised: 'json', isIdempotent: true, client } as const;
    return this.#parts.sender.whole(request, AbortSignal.timeout(timeoutMs));
  }

  async #record(local: LocalEncoding, answer: NodeAnswer): Promise<void> {
    const { proof, metrics, onMismatch, onNodeRefusal } = this.#parts;
    const { functionId, signature, hex } = local;
    const node = answer.body.toString();
    const upstream = answer.upstream.name;
    const { status, isFramed, info } = answer;
    const encoding = { status, isFramed, body: node, version: info?.version };
    const difference = compareWithNode(local, encoding);
    const comparison = difference === 'mismatch' ? await this.#explainMismatch(local, encoding) : difference;
    if (comparison === 'equal') proof.prove(functionId, signature);
    metrics.checked(comparison === 'unread' ? 'mismatch' : comparison);
    if (comparison === 'mismatch') onMismatch({ functionId, local: hex, node, upstream });
    if (comparison === 'unread') onNodeRefusal({ functionId, node: node.slice(0, maxLoggedCharacters), upstream });
  }

  /** Leaves the function to nodes for as long as it takes to explain the mismatch, and from then on unless it is explained. */
  async #explainMismatch(local: LocalEncoding, answer: NodeEncoding): Promise<'mismatch' | 'inconclusive'> {
    const { proof } = this.#parts;
    const { functionId } = local;
    proof.doubt(functionId);
    try {
      if (await this.#isOfUpgrade(local, answer)) return 'inconclusive';
      // Ahead of the end of the doubt: between the two, another request would be given the doubtful bytes.
      proof.distrust(functionId);
      return 'mismatch';
    } finally {
      proof.settle(functionId);
    }
  }

  /**
   * Whether the node encoded by another ABI than the one that was at hand here: the request is encoded anew by modules at
   * the version of the node's answer, and at head, because a node may look its ABI up a moment after its version. A
   * difference that cannot be explained so within `timeoutMs`, for whatever reason, counts: other processes are informed
   * before.
   */
  async #isOfUpgrade(local: LocalEncoding, answer: NodeEncoding): Promise<boolean> {
    const { modules, fleet, signingDomain } = this.#parts;
    const { chainId } = fleet;
    if (answer.version === undefined || chainId === undefined) return false;
    const now = modules.loaderOfRequest(local.client);
    const atHead: LoadModule = (address, name) => now(address, name, { fresh: true });
    const signal = AbortSignal.timeout(timeoutMs);
    for (const load of [modules.loaderAt(answer.version, local.client), atHead]) {
      const loadModule = loadUntil(signal, load);
      const encoded = await encodeSubmission(local.body.toString(), { chainId, signingDomain, loadModule }).catch(
        () => undefined,
      );
      if (encoded !== undefined && isOfUpgrade(encoded, answer)) return true;
    }
    return false;
  }
}

/** As `load`, and rejects once `signal` aborts; a read that is under way then goes on for whoever shares it. */
function loadUntil(signal: AbortSignal, load: LoadModule): LoadModule {
  return async (address, name) => {
    signal.throwIfAborted();
    const late = Promise.withResolvers<never>();
    const stop = (): void => late.reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    try {
      return await Promise.race([load(address, name), late.promise]);
    } finally {
      signal.removeEventListener('abort', stop);
    }
  };
}
