/** Counts the answers that clients of a chaos run get, and the forbidden ones. */
import type { ChaosNode } from './node.ts';
import type { ChaosRequest, RequestKind } from './requests.ts';
import type { ChaosWorld } from './world.ts';

/** An answer as a client got it. */
export interface ClientAnswer {
  readonly status: number;
  readonly text: string;
  /** `Ledgergate-Served-Version`. */
  readonly served: bigint | undefined;
  /** The version in the ledger headers. */
  readonly head: bigint | undefined;
  readonly tookMs: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** Forbidden outcomes. */
export type Violation =
  | 'wrong body'
  | 'wrong version'
  | 'false refusal'
  | 'state went backward'
  | 'headers went backward'
  /** No answer, from a gateway that was not killed. */
  | 'lost'
  /** An answer that began well and did not end. */
  | 'broken off'
  | 'too late'
  | 'leak';

/** A gateway finds a node that has come back within this time, for as long as others fail. */
const foundMs = 1_000;

/** A node that was able when a request began. */
interface AbleNode {
  readonly node: ChaosNode;
  readonly timesUnable: number;
  readonly isFound: boolean;
}

/** Requests that a node could have answered from beginning to end. */
export class Answerable {
  readonly #able: readonly AbleNode[];
  readonly #version: bigint | undefined;

  constructor(nodes: readonly ChaosNode[], { version }: ChaosRequest) {
    this.#version = version;
    this.#able = nodes
      .filter(({ isAble, node }) => isAble && (version === undefined || node.ledger().version >= version))
      .map((node) => ({ node, timesUnable: node.timesUnable, isFound: node.wasAbleFor(foundMs) }));
  }

  /**
   * To be asked when the answer is there: whether one node has been able all the time, and holds the version still.
   * `just back`: it has not been able for a second ahead of the request.
   */
  get still(): 'no' | 'just back' | 'yes' {
    const version = this.#version;
    const able = this.#able.filter(
      ({ node: { node, timesUnable }, timesUnable: before }) =>
        timesUnable === before && (version === undefined || node.ledger().oldestVersion <= version),
    );
    if (able.length === 0) return 'no';
    return able.some(({ isFound }) => isFound) ? 'yes' : 'just back';
  }
}

/** Of each violation. */
const mostSamples = 5;

export class Tally {
  /** Answers 200 and right, by kind. */
  readonly right = new Map<RequestKind, number>();
  /** Times in milliseconds of all that got an answer. */
  readonly tookMs: number[] = [];
  /** Refusals although a node could have answered, by error text. */
  readonly errors = new Map<string, number>();
  /** Refusals although a node could have answered that had been able for less than a second. */
  early = 0;
  /** Refusals while none could. */
  excused = 0;
  /** Requests that were in flight at a gateway when it was killed. */
  cut = 0;
  /** Connections that were refused, and tried at the other gateway. */
  failedOver = 0;
  readonly violations = new Map<Violation, number>();
  /** The first violations and errors in full, with the faults of the nodes then. */
  readonly samples: string[] = [];
  readonly #world: ChaosWorld;
  readonly #secrets: readonly string[];
  readonly #startMs = performance.now();

  constructor(world: ChaosWorld) {
    this.#world = world;
    this.#secrets = [...world.secrets, '127.0.0.1:'];
  }

  get answered(): number {
    return [...this.right.values()].reduce((sum, count) => sum + count, 0);
  }

  get errorCount(): number {
    return [...this.errors.values()].reduce((sum, count) => sum + count, 0);
  }

  violate(violation: Violation, detail: string): void {
    const count = (this.violations.get(violation) ?? 0) + 1;
    this.violations.set(violation, count);
    if (count <= mostSamples) this.#keep(`${violation}: ${detail}`);
  }

  take(
    asked: ChaosRequest,
    reply: ClientAnswer,
    { answerable, through }: { answerable: Answerable; through: string },
  ): void {
    const { status, text, headers, tookMs } = reply;
    const answer = `${status} after ${Math.round(tookMs)} ms ${text.slice(0, 200)}`;
    const shown = `${through} ${asked.path} -> ${answer} (${JSON.stringify(headers)})`;
    this.tookMs.push(tookMs);
    if (this.#secrets.some((secret) => JSON.stringify(headers).includes(secret))) this.violate('leak', shown);
    if (status === 200) {
      this.#checkBody(asked, reply, shown);
      return;
    }
    if (this.#secrets.some((secret) => text.includes(secret))) this.violate('leak', shown);
    // All requested data exists: "not found" or "pruned" is always a false claim.
    if (status < 500) this.violate('false refusal', shown);
    else if (answerable.still === 'no') this.excused += 1;
    else if (answerable.still === 'just back') {
      this.early += 1;
      if (this.early <= mostSamples) this.#keep(`early: ${shown}`);
    } else {
      const reason = `${status} ${text.replaceAll(/\d+/g, '#').slice(0, 120)}`;
      const count = (this.errors.get(reason) ?? 0) + 1;
      this.errors.set(reason, count);
      if (count <= mostSamples) this.#keep(`error: ${shown}`);
    }
  }

  #checkBody(asked: ChaosRequest, { text, served }: ClientAnswer, shown: string): void {
    const version = asked.version ?? served;
    const isOther = asked.version !== undefined && served !== undefined && served !== asked.version;
    // Without its version an answer to a read of the latest state cannot be checked.
    if (isOther || (asked.isLatest && served === undefined)) this.violate('wrong version', shown);
    else if (!asked.right(version ?? 0n).includes(text)) this.violate('wrong body', shown);
    else this.right.set(asked.kind, (this.right.get(asked.kind) ?? 0) + 1);
  }

  #keep(sample: string): void {
    const atSeconds = ((performance.now() - this.#startMs) / 1000).toFixed(2);
    const ailing = this.#world.nodes.filter(({ fault }) => fault !== undefined);
    const faults = ailing.map(({ name, fault }) => `${name} ${fault}`).join(', ');
    this.samples.push(`${atSeconds} s: ${sample.slice(0, 1_200)} [${faults}]`);
  }
}
