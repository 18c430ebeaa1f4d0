/**
 * Requests in simulated time, as they come to one replica: a Poisson stream that is an even share of all clients'
 * requests. Subjects and paths are those that sample nodes answer, so that a trace can be played to a real gateway.
 */
import type { Operation } from '../src/cache/key.ts';
import { parseViewBody } from '../src/cache/view-body.ts';
import { exponential, zipfOf, type Random, type Zipf } from './random.ts';
import type { SimulatedLedger } from './ledger.ts';
import { blockMs, type Mix, type Shape, type Traffic } from './shape.ts';

export type Kind = keyof Mix | 'passed';

/** A subject of reads, at any version. */
export interface Subject {
  readonly operation: Operation;
  readonly text: string;
  readonly bytes: number;
  /** Share of all reads of its kind. */
  readonly share: number;
  /** Below the base path, or the body of a view. */
  readonly wire: string;
  /** Read below every retention edge. */
  readonly isDeep?: true;
}

export interface Arrival {
  readonly atMs: number;
  readonly kind: Kind;
  /** Absent for what is no keyed read. */
  readonly subject?: Subject;
  /** The block whose last version is read; absent for reads of "latest" and of transactions. */
  readonly block?: number;
  /** A read of "latest" after a commit was seen: of this block's state or a later one. */
  readonly minBlock?: number;
}

const viewBytes = 120;
const transactionBytes = 1_500;
/** Block height of the catalogue's links: far below every retention edge. */
const deepBlocks = 900_000_000;

export class TrafficSource {
  readonly #traffic: Traffic;
  readonly #ledger: SimulatedLedger;
  readonly #accounts: Zipf;
  readonly #links: Zipf;
  readonly #interval: number;
  readonly #lagMs: number;

  constructor({ traffic, ledger: shape, nodes }: Shape, ledger: SimulatedLedger) {
    this.#traffic = traffic;
    this.#ledger = ledger;
    this.#accounts = zipfOf(traffic.accounts, traffic.accountSkew);
    this.#links = zipfOf(traffic.links, traffic.linkSkew);
    this.#interval = blockMs(shape);
    this.#lagMs = nodes.lagMs;
  }

  /** The stream of one of `replicas` replicas; endless. */
  *stream(replicas: number, random: Random): Generator<Arrival, never> {
    const gapMs = (1000 * replicas) / this.#traffic.rate;
    for (let atMs = 0; ;) {
      atMs += exponential(random()) * gapMs;
      yield this.arrival(atMs, random);
    }
  }

  arrival(atMs: number, random: Random): Arrival {
    const kind = this.#kind(random());
    switch (kind) {
      case 'latest':
      case 'latestView':
        return this.#latest(atMs, kind, random);
      case 'head':
      case 'headView':
        return { atMs, kind, subject: this.#state(kind, random), block: this.#headBlock(atMs, random) };
      case 'deep':
        return { atMs, kind, ...this.#link(random) };
      case 'hash':
        return { atMs, kind, subject: this.#transaction(atMs, random) };
      case 'info':
      case 'submit':
      case 'passed':
        return { atMs, kind };
    }
  }

  /** How often others read a subject at a block until `atMs`, for each read of its kinds a second that there is. */
  headExposure(block: number, atMs: number): number {
    const ageMs = atMs - this.#ledger.committedMs(block);
    return ageMs <= 0 ? 0 : (this.#interval / 1000) * (1 - Math.exp(-ageMs / this.#traffic.headAgeMs));
  }

  /** The same for a transaction, all of which are read alike. */
  hashExposure(committedMs: number, atMs: number): number {
    const ageMs = atMs - committedMs;
    return ageMs <= 0 ? 0 : (this.#interval / 1000) * (1 - Math.exp(-ageMs / this.#traffic.hashAgeMs));
  }

  /** When the transaction of a `hash` read was committed. */
  committedMs(subject: Subject): number {
    return this.#ledger.committedMs(Number.parseInt(subject.text.slice(2), 16));
  }

  #kind(uniform: number): Kind {
    let left = uniform;
    for (const [kind, share] of Object.entries(this.#traffic.mix) as [keyof Mix, number][]) {
      left -= share;
      if (left < 0) return kind;
    }
    return 'passed';
  }

  #latest(atMs: number, kind: 'latest' | 'latestView', random: Random): Arrival {
    const { latest, latestView, submit } = this.#traffic.mix;
    const subject = this.#state(kind, random);
    if (random() * (latest + latestView) >= submit) return { atMs, kind, subject };
    // The block of its transaction, which the freshest node had by then.
    const seenMs = exponential(random()) * this.#traffic.commitSeenMs;
    return { atMs, kind, subject, minBlock: this.#ledger.blockAt(atMs - this.#lagMs - seenMs) };
  }

  #state(kind: Kind, random: Random): Subject {
    const account = this.#accounts.draw(random);
    if (kind === 'latestView' || kind === 'headView') return viewOf(account, this.#accounts.shareOf(account));
    let left = random();
    const type = this.#traffic.types.find(({ share }) => (left -= share) < 0) ?? this.#traffic.types[0];
    const { bytes = 400, share = 1 } = type ?? {};
    return resourceOf(account, bytes, this.#accounts.shareOf(account) * share);
  }

  /** A version that was shown a moment ago, by whichever replica. */
  #headBlock(atMs: number, random: Random): number {
    return this.#ledger.blockAt(atMs - this.#lagMs - exponential(random()) * this.#traffic.headAgeMs);
  }

  #link(random: Random): { readonly subject: Subject; readonly block: number } {
    const rank = this.#links.draw(random);
    const account = (rank * 7_919) % this.#traffic.accounts;
    const subject = resourceOf(account, this.#traffic.types[0]?.bytes ?? 400, this.#links.shareOf(rank));
    return { subject: { ...subject, isDeep: true }, block: deepBlocks + rank };
  }

  /** One is read of each block: the rest are nobody's concern, or read by nobody twice. */
  #transaction(atMs: number, random: Random): Subject {
    const block = this.#ledger.blockAt(atMs - exponential(random()) * this.#traffic.hashAgeMs);
    const text = `0x${block.toString(16).padStart(64, '0')}`;
    return { operation: 'transaction', text, bytes: transactionBytes, share: 1, wire: `/transactions/by_hash/${text}` };
  }
}

/** `0x5a000000` to `0x5affffff` are accounts of sample nodes. */
function addressOf(account: number): string {
  return `0x5a${account.toString(16).padStart(6, '0')}`;
}

export function resourceOf(account: number, bytes: number, share: number): Subject {
  const tag = `0x1::ledgergate_sample::Padded${bytes}`;
  const text = `${addressOf(account)}/${tag}`;
  return { operation: 'resource', text, bytes, share, wire: `/accounts/${addressOf(account)}/resource/${tag}` };
}

function viewOf(account: number, share: number): Subject {
  const argument = addressOf(account).padEnd(viewBytes - 4, '.');
  const wire = `{"function":"0x1::ledgergate_sample::echo","type_arguments":[],"arguments":["${argument}"]}`;
  const { subject } = parseViewBody('application/json', Buffer.from(wire));
  return { operation: 'view', text: subject, bytes: viewBytes, share, wire };
}
