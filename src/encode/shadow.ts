/**
 * The standing proof: which locally encoded requests are also sent to a node, and what a difference leads to. A
 * function whose bytes once differed is left to nodes until the process restarts: whoever signs must not be the one
 * who finds out which side was wrong.
 */

export interface ShadowOptions {
  /** Share of requests that are checked, 0 to 1. */
  readonly share: number;
  readonly random?: () => number;
}

/** Functions remembered as checked; a forgotten one is only checked once more. */
const maxChecked = 20_000;

export class ShadowProof {
  readonly #options: ShadowOptions;
  /** Signature of the ABI that was last proven, by function. */
  readonly #proven = new Map<string, string>();
  readonly #distrusted = new Set<string>();

  constructor(options: ShadowOptions) {
    this.#options = options;
  }

  /** Functions whose bytes differed from a node's. */
  get distrusted(): ReadonlySet<string> {
    return this.#distrusted;
  }

  isTrusted(functionId: string): boolean {
    return !this.#distrusted.has(functionId);
  }

  /** Always for a function that is not proven under this ABI, otherwise by chance. A share of 0 turns proof off. */
  shouldCheck(functionId: string, signature: string): boolean {
    const { share, random = Math.random } = this.#options;
    return share > 0 && (this.#proven.get(functionId) !== signature || random() < share);
  }

  /** A node gave the same bytes. */
  prove(functionId: string, signature: string): void {
    this.#proven.delete(functionId);
    this.#proven.set(functionId, signature);
    const [eldest] = this.#proven.keys();
    if (this.#proven.size > maxChecked && eldest !== undefined) this.#proven.delete(eldest);
  }

  /** A node gave other bytes, or refused what was encoded here. */
  distrust(functionId: string): void {
    this.#proven.delete(functionId);
    this.#distrusted.add(functionId);
  }
}

/** What a node's answer to the same request says of the local bytes. */
export type Comparison = 'equal' | 'mismatch' | 'inconclusive';

/** Compares `hex`, the local bytes, with a node's answer. Only a 200 or a refusal of the request itself says anything. */
export function compareWithNode(hex: string, status: number, body: string): Comparison {
  if (status === 200) return body.trim() === `"${hex}"` ? 'equal' : 'mismatch';
  return status === 400 ? 'mismatch' : 'inconclusive';
}
