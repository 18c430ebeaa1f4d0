/** The standing proof's questions to nodes: asked behind the client's back, bounded, and judged. */
import { compareWithNode, type ShadowProof } from '../encode/shadow.ts';
import type { EncodeMetrics } from '../metrics/encode-metrics.ts';
import type { NodeAnswer } from '../upstream/exchange.ts';
import type { Sender } from '../upstream/sender.ts';

/** One request that was answered here. */
export interface LocalEncoding {
  readonly functionId: string;
  /** Of the function's ABI. */
  readonly signature: string;
  readonly hex: string;
  /** The fleet's head when it was encoded. */
  readonly version: bigint | undefined;
  readonly body: Buffer;
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
export interface Unread {
  readonly functionId: string;
  /** The node's refusal, cut. */
  readonly node: string;
  readonly upstream: string;
}

export interface ShadowChecksParts {
  readonly sender: Sender;
  readonly proof: ShadowProof;
  readonly metrics: EncodeMetrics;
  /** The function is distrusted now. */
  readonly onMismatch: (mismatch: Mismatch) => void;
  readonly onUnread: (unread: Unread) => void;
}

/** Bounds of what is under way at once: a slow node must not make checks or their bodies pile up. */
const maxChecks = 32;
const maxBytes = 32 * 1024 * 1024;
const timeoutMs = 10_000;
const maxLoggedCharacters = 1_000;

export class ShadowChecks {
  readonly #parts: ShadowChecksParts;
  #underWay = 0;
  #bytes = 0;

  constructor(parts: ShadowChecksParts) {
    this.#parts = parts;
  }

  /** Asks a node for the same bytes, if it is this request's turn. Returns at once and never throws. */
  consider(local: LocalEncoding): void {
    const { proof, metrics } = this.#parts;
    if (!proof.shouldCheck(local.functionId, local.signature)) return;
    const size = local.body.length + local.hex.length;
    if (this.#underWay >= maxChecks || this.#bytes + size > maxBytes) {
      metrics.checked('skipped');
      return;
    }
    this.#underWay += 1;
    this.#bytes += size;
    this.#askNode(local.body)
      .then((answer) => this.#judge(local, answer))
      // No node answered: nothing is proven, and a later request of this function asks again.
      .catch(() => metrics.checked('inconclusive'))
      .finally(() => {
        this.#underWay -= 1;
        this.#bytes -= size;
      });
  }

  #askNode(body: Buffer): Promise<NodeAnswer> {
    const wire = {
      method: 'POST',
      path: '/transactions/encode_submission',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body,
    } as const;
    const request = { wire, need: { kind: 'head' }, promised: 'json', isIdempotent: true } as const;
    return this.#parts.sender.whole(request, AbortSignal.timeout(timeoutMs));
  }

  #judge(local: LocalEncoding, answer: NodeAnswer): void {
    const { proof, metrics, onMismatch, onUnread } = this.#parts;
    const { functionId, signature, hex } = local;
    const node = answer.body.toString();
    const upstream = answer.upstream.name;
    const { status, isFramed, info } = answer;
    const comparison = compareWithNode(local, { status, isFramed, body: node, version: info?.version });
    if (comparison === 'equal') proof.prove(functionId, signature);
    if (comparison === 'mismatch') proof.distrust(functionId);
    metrics.checked(comparison === 'unread' ? 'mismatch' : comparison);
    if (comparison === 'mismatch') onMismatch({ functionId, local: hex, node, upstream });
    if (comparison === 'unread') onUnread({ functionId, node: node.slice(0, maxLoggedCharacters), upstream });
  }
}
