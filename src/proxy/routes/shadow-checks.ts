/** The standing proof: after the client's answer a node encodes the same request, and the bytes are compared. */
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeSubmission, type LoadModule, NodeEncoding, type ShadowProof } from '../../encode/index.ts';
import type { EncodeMetrics } from './encode-metrics.ts';
import { type Fleet, type NodeAnswer, QueueFullError } from '../../upstream/index.ts';
import type { ModuleSource } from './module-source.ts';

/** A request that the gateway encoded and answered. */
interface LocalEncoding {
  readonly functionId: string;
  /** The function's parameters in its ABI. */
  readonly signature: string;
  /** `0x` and hex, as the client received it. */
  readonly hex: string;
  /** The fleet's head when it was encoded. */
  readonly version: bigint | undefined;
  readonly body: Buffer;
  /** Fair-queueing key of the client: its check waits in the same turn. */
  readonly client: string;
}

interface ShadowChecksParts {
  readonly fleet: Fleet;
  readonly sender: Fleet['sender'];
  readonly modules: ModuleSource;
  readonly signingDomain: string;
  readonly proof: ShadowProof;
  readonly metrics: EncodeMetrics;
  /** A node gave other bytes, and the function became distrusted. `local`: as the client received it; `node`: its body. */
  readonly onMismatch: (mismatch: Readonly<Record<'functionId' | 'local' | 'node' | 'upstream', string>>) => void;
  /** A node refused a request that was encoded here. Without the bytes: clients can cause any number of these. */
  readonly onNodeRefusal: (refusal: Readonly<Record<'functionId' | 'node' | 'upstream', string>>) => void;
}

/** Bounds of checks in flight, so that a slow node cannot make them or their bodies pile up. */
const maxChecks = 32;
const maxBytes = 32 * 1024 * 1024;
const timeoutMs = 10_000;
const maxLoggedCharacters = 1_000;

/** Sends checks to nodes within bounds, and records their results. */
export class ShadowChecks {
  readonly #parts: ShadowChecksParts;
  #inFlight = 0;
  #bytes = 0;

  constructor(parts: ShadowChecksParts) {
    this.#parts = parts;
  }

  /**
   * Begins a check if the proof calls for one. Never throws; the promise, if any, never rejects. The check holds the
   * request's body until it resolves.
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
        // Without an answer nothing is proven: a later request of the function is checked.
        (error: unknown) => {
          // The client's own queue is full: a request of another client may be checked.
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
    const encoding = new NodeEncoding({ status, isFramed, body: node, version: info?.version });
    const difference = encoding.compareWith(local);
    const comparison = difference === 'mismatch' ? await this.#explainMismatch(local, encoding) : difference;
    if (comparison === 'equal') proof.prove(functionId, signature);
    metrics.checked(comparison === 'unread' ? 'mismatch' : comparison);
    if (comparison === 'mismatch') onMismatch({ functionId, local: hex, node, upstream });
    if (comparison === 'unread') onNodeRefusal({ functionId, node: node.slice(0, maxLoggedCharacters), upstream });
  }

  /** Nodes encode the function while its mismatch is examined; for good unless an upgrade explains it. */
  async #explainMismatch(local: LocalEncoding, answer: NodeEncoding): Promise<'mismatch' | 'inconclusive'> {
    const { proof } = this.#parts;
    const { functionId } = local;
    proof.doubt(functionId);
    try {
      if (await this.#isOfUpgrade(local, answer)) return 'inconclusive';
      // Before `settle`: in between, another request would receive the doubtful bytes.
      proof.distrust(functionId);
      return 'mismatch';
    } finally {
      proof.settle(functionId);
    }
  }

  /**
   * Whether the node used an ABI of another version. The request is encoded with modules at the answer's version, and at
   * head, because a node may read its ABI a moment after its version. A failure, or `timeoutMs`, means no.
   */
  async #isOfUpgrade(local: LocalEncoding, answer: NodeEncoding): Promise<boolean> {
    const { modules, fleet, signingDomain } = this.#parts;
    const { chainId } = fleet;
    if (answer.version === undefined || chainId === undefined) return false;
    const now = modules.loaderOfRequest(local.client);
    const atHead: LoadModule = (address, name) => now(address, name, { fresh: true });
    const deadline = sleep(timeoutMs, undefined, { ref: false });
    let isLate = false;
    const late = async (): Promise<never> => {
      await deadline;
      isLate = true;
      throw new Error('the modules did not arrive in time');
    };
    for (const load of [modules.loaderAt(answer.version, local.client), atHead]) {
      // A read in flight goes on, because others may share it.
      const loadModule: LoadModule = (address, name) => (isLate ? late() : Promise.race([load(address, name), late()]));
      const encoded = await encodeSubmission(local.body.toString(), { chainId, signingDomain, loadModule }).catch(
        () => undefined,
      );
      if (encoded !== undefined && answer.isOfUpgrade(encoded)) return true;
    }
    return false;
  }
}
