/**
 * Requests in simulated time, as they come to one replica: a Poisson stream that is an even share of all clients'
 * requests. Subjects and paths are those that sample nodes answer, so that a trace can be played to a real gateway.
 */
import type { Operation } from '../src/cache/kinds.ts';
import { parseViewBody } from '../src/proxy/routes/canonical-body.ts';
import { Clients, type Sender } from './clients.ts';
import { exponential, zipfOf, type Random, type Zipf } from './random.ts';
import type { SimulatedLedger } from './ledger.ts';
import { blockMs, type Shape, type Traffic } from './shape.ts';
import { latestShare, submitShare, type RequestShape, type Subjects } from './shapes.ts';

/** A subject of reads, at any version. */
export interface Subject {
  readonly operation: Operation;
  readonly text: string;
  readonly bytes: number;
  /** The route that reads it, and the subject's share of that route's reads. */
  readonly shape: RequestShape;
  readonly share: number;
  /** Below the base path, or the body of a view. */
  readonly wire: string;
  /** Read below every retention edge. */
  readonly isDeep?: true;
}

export interface Arrival {
  readonly atMs: number;
  readonly shape: RequestShape;
  /** Absent for what is no keyed read. */
  readonly subject?: Subject;
  /** The block whose last version is read; absent for reads of "latest", of transactions and of history. */
  readonly block?: number;
  /** Whether the newest state is read. */
  readonly isLatest?: true;
  /** A read of "latest" after a commit was seen: of this block's state or a later one. */
  readonly minBlock?: number;
  /** The block of the transaction that its client gets. */
  readonly shows?: number;
  readonly sender?: Sender;
}

const viewBytes = 120;
/** Block height of the catalogue's links: far below every retention edge. */
const deepBlocks = 900_000_000;

export class TrafficSource {
  readonly #traffic: Traffic;
  readonly #ledger: SimulatedLedger;
  readonly #links: Zipf;
  readonly #interval: number;
  readonly #lagMs: number;
  /** Shares of all requests. */
  readonly #allShares: number;
  readonly #latest: number;
  readonly #submits: number;

  constructor({ traffic, ledger: shape, nodes }: Shape, ledger: SimulatedLedger) {
    this.#traffic = traffic;
    this.#ledger = ledger;
    this.#links = zipfOf(traffic.links, traffic.linkSkew);
    this.#interval = blockMs(shape);
    this.#lagMs = nodes.lagMs;
    this.#allShares = traffic.requests.reduce((sum, { share }) => sum + share, 0);
    this.#latest = latestShare(traffic.requests);
    this.#submits = submitShare(traffic.requests);
  }

  /** The stream of one of `replicas` replicas; endless. */
  *stream(replicas: number, random: Random): Generator<Arrival, never> {
    const rate = this.#traffic.rate / replicas;
    const clients = new Clients(this.#traffic, rate);
    for (let atMs = 0; ;) {
      atMs += (exponential(random()) * 1000) / rate;
      yield { ...this.arrival(atMs, random), sender: clients.draw(random) };
    }
  }

  arrival(atMs: number, random: Random): Arrival {
    const shape = this.#shape(random());
    const { subjects } = shape;
    switch (subjects.kind) {
      case 'state':
        return this.#stateRead(atMs, { shape, subjects }, random);
      case 'history':
        return { atMs, shape, subject: this.#part(atMs, { shape, perBlock: subjects.perBlock }, random) };
      case 'hash':
        // The answer is of a pending transaction, or a wait of this client alone, which ends with the commit.
        if (random() < subjects.own) {
          return shape.route === 'waitByHash'
            ? { atMs, shape, shows: this.#ledger.blockAt(atMs - this.#lagMs) }
            : { atMs, shape };
        }
        return this.#transactionRead(atMs, shape, random);
      case 'shared':
      case 'local':
      case 'submit':
      case 'passed':
        return { atMs, shape };
    }
  }

  /** How often others read a subject at a block until `atMs`, for each such read a second that there is. */
  headExposure(block: number, atMs: number): number {
    const ageMs = atMs - this.#ledger.committedMs(block);
    return ageMs <= 0 ? 0 : (this.#interval / 1000) * (1 - Math.exp(-ageMs / this.#traffic.headAgeMs));
  }

  /** The same for a transaction, or a part of a block: all are read alike. */
  hashExposure(committedMs: number, atMs: number): number {
    const ageMs = atMs - committedMs;
    return ageMs <= 0 ? 0 : (this.#interval / 1000) * (1 - Math.exp(-ageMs / this.#traffic.hashAgeMs));
  }

  /** When the transaction, or the block of the part, was committed. */
  committedMs(subject: Subject): number {
    return this.#ledger.committedMs(blockOf(subject));
  }

  #shape(uniform: number): RequestShape {
    let left = uniform * this.#allShares;
    const { requests } = this.#traffic;
    return requests.find(({ share }) => (left -= share) < 0) ?? (requests[0] as RequestShape);
  }

  #stateRead(
    atMs: number,
    { shape, subjects }: { readonly shape: RequestShape; readonly subjects: Extract<Subjects, { kind: 'state' }> },
    random: Random,
  ): Arrival {
    const age = random();
    if (age < subjects.deep) return { atMs, shape, ...this.#link(shape, random) };
    const subject = this.#state(shape, subjects.of, random);
    if (age < subjects.pinned) return { atMs, shape, subject, block: this.#headBlock(atMs, random) };
    if (random() * this.#latest >= this.#submits) return { atMs, shape, subject, isLatest: true };
    // The block of its transaction, which the freshest node had by then.
    const seenMs = exponential(random()) * this.#traffic.commitSeenMs;
    const minBlock = this.#ledger.blockAt(atMs - this.#lagMs - seenMs);
    return { atMs, shape, subject, isLatest: true, minBlock };
  }

  #state(shape: RequestShape, of: number, random: Random): Subject {
    const zipf = zipfOf(Math.min(of, this.#traffic.accounts), this.#traffic.accountSkew);
    const account = zipf.draw(random);
    const share = zipf.shareOf(account);
    if (shape.route === 'view') return viewOf(account, shape, share);
    if (shape.route !== 'resource') return itemOf(account, shape, share);
    let left = random();
    const type = this.#traffic.types.find((candidate) => (left -= candidate.share) < 0) ?? this.#traffic.types[0];
    const { bytes = 400, share: ofType = 1 } = type ?? {};
    return { ...resourceOf(account, bytes, share * ofType), shape };
  }

  /** A version that was shown a moment ago, by whichever replica. */
  #headBlock(atMs: number, random: Random): number {
    return this.#ledger.blockAt(atMs - this.#lagMs - exponential(random()) * this.#traffic.headAgeMs);
  }

  #link(shape: RequestShape, random: Random): { readonly subject: Subject; readonly block: number } {
    const rank = this.#links.draw(random);
    const account = (rank * 7_919) % this.#traffic.accounts;
    const subject = resourceOf(account, this.#traffic.types[0]?.bytes ?? 400, this.#links.shareOf(rank));
    return { subject: { ...subject, shape, isDeep: true }, block: deepBlocks + rank };
  }

  /** One is read of each block: the rest are nobody's concern, or read by nobody twice. */
  #transactionRead(atMs: number, shape: RequestShape, random: Random): Arrival {
    const text = this.#committedText(atMs, random);
    const wire = `/transactions/by_hash/${text}`;
    const subject = { operation: 'transaction', text, bytes: shape.bytes, shape, share: 1, wire } as const;
    return { atMs, shape, subject, shows: blockOf(subject) };
  }

  /** A block, or one of its parts. It is final, as a transaction is. */
  #part(
    atMs: number,
    { shape, perBlock }: { readonly shape: RequestShape; readonly perBlock: number },
    random: Random,
  ): Subject {
    const part = Math.floor(random() * perBlock);
    const text = `${this.#committedText(atMs, random)} ${shape.route} ${part}`;
    return { operation: 'transaction', text, bytes: shape.bytes, shape, share: 1 / perBlock, wire: '' };
  }

  /** The height of a block that was committed a moment ago, as 32 bytes. */
  #committedText(atMs: number, random: Random): string {
    const block = this.#ledger.blockAt(atMs - this.#lagMs - exponential(random()) * this.#traffic.hashAgeMs);
    return `0x${block.toString(16).padStart(64, '0')}`;
  }
}

/** The block of a transaction, or of a part. */
export function blockOf({ text }: Subject): number {
  return Number.parseInt(text.slice(2, 66), 16);
}

/** `0x5a000000` to `0x5affffff` are accounts of sample nodes. */
function addressOf(account: number): string {
  return `0x5a${account.toString(16).padStart(6, '0')}`;
}

function resourceOf(account: number, bytes: number, share: number): Omit<Subject, 'shape'> {
  const tag = `0x1::ledgergate_sample::Padded${bytes}`;
  const text = `${addressOf(account)}/${tag}`;
  return { operation: 'resource', text, bytes, share, wire: `/accounts/${addressOf(account)}/resource/${tag}` };
}

/** An item that is one for each account: its balance, its list of resources, an item of its table. */
function itemOf(account: number, shape: RequestShape, share: number): Subject {
  const text = `${addressOf(account)}/${shape.route}`;
  return { operation: 'resource', text, bytes: shape.bytes, shape, share, wire: '' };
}

function viewOf(account: number, shape: RequestShape, share: number): Subject {
  const argument = addressOf(account).padEnd(viewBytes - 4, '.');
  const wire = `{"function":"0x1::ledgergate_sample::echo","type_arguments":[],"arguments":["${argument}"]}`;
  const { subject } = parseViewBody('application/json', Buffer.from(wire));
  return { operation: 'view', text: subject, bytes: viewBytes, shape, share, wire };
}
