/**
 * Reads that name no version. The gateway chooses one: new enough for the client, and shared by all clients that ask
 * within the bound. From then on the read is pinned like any other (docs/consistency.md).
 */
import type { Socket } from 'node:net';
import { GatewayError, quote } from '../../ledger/errors.ts';
import type { LedgerInfo } from '../../ledger/ledger-headers.ts';
import type { CancelSignal } from '../../ledger/stop.ts';
import { findU64, type LedgerVersion } from '../../ledger/version.ts';
import type { LatestMetrics } from '../../metrics/http-metrics.ts';
import { within } from '../../trace/span.ts';
import type { Fleet } from '../../upstream/fleet.ts';
import type { Demand, Latest, PublishedState } from '../../upstream/latest.ts';
import { errorCodeOf } from '../../upstream/dispatch/classify.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Incoming, Outgoing } from '../http/message.ts';
import { withVersion } from '../routes/parse-read.ts';
import type { Read, ReadResult } from './read-result.ts';
import type { Reader } from './reader.ts';

/** Bounds of the config, in milliseconds; read at each use. */
export interface StalenessLimits {
  /** For clients that ask for none. */
  readonly maxStalenessMs: number;
  /** Clients may ask for bounds between these. */
  readonly minClientStalenessMs: number;
  readonly maxClientStalenessMs: number;
}

export interface FreshnessParts {
  readonly fleet: Pick<Fleet, 'generation' | 'head' | 'oldest'>;
  readonly reader: Reader;
  readonly latest: Latest;
  readonly limits: StalenessLimits;
  readonly metrics: LatestMetrics;
}

type Asking = Pick<Incoming, 'headers' | 'socket'>;

export class Freshness {
  readonly #parts: FreshnessParts;
  /** The newest version that each connection has seen committed; dropped with the connection or the generation. */
  readonly #seen = new WeakMap<Socket, { readonly version: LedgerVersion; readonly generation: number }>();
  /** Reads of targets that were parsed before, at the version that they were last pinned to. */
  readonly #pins = new WeakMap<Read, Read>();
  #head: LedgerInfo | undefined;
  #version: LedgerVersion | undefined;
  #lag = 0;

  constructor(parts: FreshnessParts) {
    this.#parts = parts;
  }

  /** The demand of the client. Throws `GatewayError` 400 for headers that cannot be read. */
  demandOf({ headers, socket }: Asking): Demand {
    return parseDemand(headers, this.#parts.limits, this.#seenOn(socket));
  }

  /** The client of this connection has seen `version` committed: it is not given an older state afterwards. */
  recordSeen({ socket }: Incoming, version: LedgerVersion): void {
    const { generation } = this.#parts.fleet;
    this.#seen.set(socket, { version: newest(version, this.#seenOn(socket)), generation });
  }

  /** The shared state, when it satisfies the client. Costs no promise. */
  find(request: Asking): PublishedState | undefined {
    return this.#parts.latest.find(this.demandOf(request));
  }

  /** The answer of memory at the shared version, when that satisfies the client. Costs no promise. */
  findRead(read: Read, request: Asking): ReadResult | undefined {
    const state = this.find(request);
    const hit = state === undefined ? undefined : this.#parts.reader.find(this.pinned(read, state));
    if (state === undefined || hit === undefined) return undefined;
    this.noteServed(state);
    return { ...hit, isLatest: true, ageSeconds: ageOf(state, performance.now()) };
  }

  /** Reads at the shared version, or at a newer one when the client needs it. */
  async load(read: Read, exchange: Exchange<Outgoing>): Promise<ReadResult> {
    const { reader, latest } = this.#parts;
    const demand = this.demandOf(exchange.request);
    if (demand.maxStalenessMs === 0) return this.#askNow(read, demand, exchange);
    const state = await within(exchange.span, 'snapshot', () => latest.reach(demand, exchange.signal));
    const pinned = this.pinned(read, state);
    const served = reader.find(pinned) ?? (await reader.load(pinned, exchange));
    // The client named no version, so an error must not name one that is not there.
    if (served.entry.status === 404 && errorCodeOf(served.entry) === 'version_not_found') throw lost(state);
    this.noteServed(state, performance.now());
    return { ...served, isLatest: true, ageSeconds: ageOf(state, performance.now()) };
  }

  /**
   * The body of `GET {base}`, and its version: the node's answer as it came, except for the members on its own pruning,
   * because the fleet may reach further back (protocol 9). Unknown members stay as they are.
   */
  async ledgerInfo(
    request: Asking,
    signal: CancelSignal,
  ): Promise<{ readonly body: Buffer; readonly version: LedgerVersion }> {
    const state = await this.#parts.latest.reach(this.demandOf(request), signal);
    this.noteServed(state, performance.now());
    const { oldest } = this.#parts.fleet;
    if (oldest === undefined) throw new GatewayError('unavailable', 'no usable node is known');
    const text = state.body
      .toString()
      .replace(/("oldest_ledger_version"\s*:\s*)"\d+"/, `$1"${oldest.oldestVersion}"`)
      .replace(/("oldest_block_height"\s*:\s*)"\d+"/, `$1"${oldest.oldestBlockHeight}"`);
    return { body: Buffer.from(text), version: state.info.version };
  }

  /** The read at the state's version. */
  pinned(read: Read, { info: { version } }: PublishedState): Read {
    const known = this.#pins.get(read);
    if (known?.version === version) return known;
    const pinned = pinTo(read, version);
    this.#pins.set(read, pinned);
    return pinned;
  }

  /** Counts an answer from this state. `nowMs`: `performance.now()`; default: when `find` chose the state. */
  noteServed({ info, asOfMs }: PublishedState, nowMs = this.#parts.latest.askedAtMs): void {
    this.#parts.metrics.observeStaleness((nowMs - asOfMs) / 1000);
    this.#noteLag(info.version);
  }

  /** A client is about to be given the state at a node's head. */
  recordServed(version: LedgerVersion): void {
    this.#parts.latest.recordServed(version);
    this.#noteLag(version);
  }

  /** No staleness at all: the read goes to a node that has reached every version that a client was given. */
  async #askNow(read: Read, { min }: Demand, exchange: Exchange<Outgoing>): Promise<ReadResult> {
    const { reader, latest } = this.#parts;
    const served = await latest.aboveFloor(min, exchange.signal, (floor) =>
      reader.ask({ ...read, need: { kind: 'head', min: floor, isExact: true } }, exchange),
    );
    if (served.version !== undefined) this.recordServed(served.version);
    return served;
  }

  /** Thousands of answers come between two heads: the difference is made once for all of them. */
  #noteLag(version: LedgerVersion): void {
    const { head } = this.#parts.fleet;
    if (head !== this.#head || version !== this.#version) {
      this.#head = head;
      this.#version = version;
      this.#lag = head === undefined ? 0 : Math.max(0, Number(head.version - version));
    }
    this.#parts.metrics.observeLag(this.#lag);
  }

  #seenOn(socket: Socket): LedgerVersion | undefined {
    const seen = this.#seen.get(socket);
    return seen?.generation === this.#parts.fleet.generation ? seen.version : undefined;
  }
}

/** Whether the request demands anything of how new its answer is. */
export function statesDemand({ headers }: Pick<Incoming, 'headers'>): boolean {
  return headers['ledgergate-min-version'] !== undefined || headers['ledgergate-max-staleness'] !== undefined;
}

/** Whole seconds since the state was asked for; small, so that the number lies in the object itself. */
export function ageOf({ asOfMs }: PublishedState, nowMs: number): number {
  return Math.max(0, (nowMs - asOfMs) / 1000) | 0;
}

/** The read at one version: the same as of a client that names it. */
export function pinTo(read: Read, version: LedgerVersion): Read {
  const wire = { ...read.wire, path: withVersion(read.wire.path, version) };
  return { ...read, version, wire, need: { kind: 'version', version } };
}

/** The only node that had reached the shared version is gone, and the others are behind it. */
function lost({ info: { version } }: PublishedState): GatewayError {
  return new GatewayError('unavailable', `no node that can be reached holds ledger version ${version} yet; try again`);
}

/** Parses the demand of a client that has seen `seen`. Throws `GatewayError` 400 for headers that cannot be read. */
export function parseDemand(
  headers: Incoming['headers'],
  limits: StalenessLimits,
  seen: LedgerVersion | undefined,
): Demand {
  const version = headers['ledgergate-min-version'];
  const staleness = headers['ledgergate-max-staleness'];
  return {
    maxStalenessMs: staleness === undefined ? limits.maxStalenessMs : boundOf(String(staleness), limits),
    min: version === undefined ? seen : newest(parseMinVersion(String(version)), seen),
  };
}

const unitMs = { ms: 1, s: 1_000, m: 60_000 } as const;

/** Parses `0`, `200ms`, `2s`, `1m`; within the bounds that clients may ask for. */
function boundOf(text: string, { minClientStalenessMs, maxClientStalenessMs }: StalenessLimits): number {
  const [, number = '', unit] = /^(\d{1,9})(ms|s|m)?$/.exec(text.trim()) ?? [];
  if (number === '' || (unit === undefined && Number(number) !== 0)) {
    const fault = `Ledgergate-Max-Staleness is no duration such as 200ms or 2s: ${quote(text)}`;
    throw new GatewayError('invalidInput', fault);
  }
  const boundMs = Number(number) * (unit === undefined ? 1 : unitMs[unit as keyof typeof unitMs]);
  return Math.min(Math.max(boundMs, minClientStalenessMs), maxClientStalenessMs);
}

function parseMinVersion(text: string): LedgerVersion {
  const version = findU64(text);
  if (version !== undefined) return version as LedgerVersion;
  throw new GatewayError('invalidInput', `Ledgergate-Min-Version is not a u64: ${quote(text)}`);
}

function newest(version: LedgerVersion, other: LedgerVersion | undefined): LedgerVersion {
  return other === undefined || version > other ? version : other;
}
