/**
 * Reads that name no version. The gateway chooses one, new enough for the client and shared by all who ask within the
 * bound, and from then on it is a pinned read like any other (docs/consistency.md).
 */
import { GatewayError } from '../ledger/errors.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { StopSignal } from '../ledger/stop.ts';
import { within } from '../trace/span.ts';
import type { Fleet } from '../upstream/fleet.ts';
import type { Floor } from '../upstream/floor.ts';
import type { Demand, Latest } from '../upstream/latest.ts';
import type { Snapshot } from '../upstream/shown.ts';
import { errorCodeOf } from '../upstream/verdict.ts';
import type { Consistency } from './consistency.ts';
import type { Caller, Exchange } from './exchange.ts';
import type { Incoming, Outgoing } from './message.ts';
import { withVersion } from './parse-read.ts';
import type { Read, ReadResult } from './read-result.ts';
import type { Reader } from './read.ts';
import type { ServedState } from './served-state.ts';

/** Parts of reads of the latest version. */
export interface LatestReadParts {
  readonly fleet: Fleet;
  readonly reader: Reader;
  readonly latest: Latest;
  readonly floor: Floor;
  readonly consistency: Consistency;
  readonly served: ServedState;
}

/** Answers reads that name no version. */
export class LatestReads {
  readonly #parts: LatestReadParts;
  /** Reads of targets that were parsed before, at the version that they were last pinned to. */
  readonly #pins = new WeakMap<Read, Read>();

  constructor(parts: LatestReadParts) {
    this.#parts = parts;
  }

  /** What memory holds of the read at the shared version, when that satisfies the client. Costs no promise. */
  find(read: Read, request: Incoming): ReadResult | undefined {
    const snapshot = this.snapshotFor(request);
    const hit = snapshot === undefined ? undefined : this.#parts.reader.find(this.pinned(read, snapshot));
    if (snapshot === undefined || hit === undefined) return undefined;
    this.noteServed(snapshot);
    return { ...hit, isLatest: true, ageSeconds: ageOf(snapshot, performance.now()) };
  }

  /** The shared state, when it satisfies the client. */
  snapshotFor(request: Pick<Incoming, 'headers' | 'socket'>): Snapshot | undefined {
    return this.#parts.latest.find(this.#parts.consistency.demandOf(request));
  }

  /** A client is given what the state says that it was found by just now. */
  noteServed(snapshot: Snapshot): void {
    this.#parts.served.note(snapshot, this.#parts.latest.askedAtMs);
  }

  /** Reads at the shared version, or at a newer one when the client needs it. */
  async load(read: Read, exchange: Exchange<Outgoing>): Promise<ReadResult> {
    const { reader } = this.#parts;
    const demand = this.#parts.consistency.demandOf(exchange.request);
    if (demand.maxStalenessMs === 0) return this.#ask(read, demand, exchange);
    const snapshot = await within(exchange.span, 'snapshot', () => this.#reach(exchange.request, exchange.signal));
    const { info } = snapshot;
    const pinned = this.pinned(read, snapshot);
    const served = reader.find(pinned) ?? (await reader.load(pinned, exchange));
    // The client named no version, so none that is not there.
    if (served.entry.status === 404 && errorCodeOf(served.entry) === 'version_not_found') throw lost(info.version);
    this.#parts.served.note(snapshot, performance.now());
    return { ...served, isLatest: true, ageSeconds: ageOf(snapshot, performance.now()) };
  }

  /** The body of `GET {base}`, and the version that it is of. */
  async ledgerInfo(
    request: Incoming,
    signal: StopSignal,
  ): Promise<{ readonly body: Buffer; readonly version: LedgerVersion }> {
    const snapshot = await this.#reach(request, signal);
    this.#parts.served.note(snapshot, performance.now());
    return { body: ledgerInfoBody(snapshot, this.#parts.fleet), version: snapshot.info.version };
  }

  /** A state that satisfies the client. Throws `GatewayError` 503 when the fleet has none in time. */
  #reach(request: Incoming, signal: StopSignal): Promise<Snapshot> {
    return this.#parts.latest.reach(this.#parts.consistency.demandOf(request), signal);
  }

  /** No staleness at all: each read goes to a node that has got at least as far as anybody has been shown. */
  async #ask(read: Read, { min }: Demand, caller: Caller): Promise<ReadResult> {
    const { reader, floor } = this.#parts;
    const served = await floor.keep(min, caller.signal, (atLeast) =>
      reader.ask({ ...read, need: { kind: 'head', min: atLeast, isExact: true } }, caller),
    );
    if (served.version !== undefined) {
      await floor.recordServed(served.version);
      this.#parts.served.noteLag(served.version);
    }
    return served;
  }

  /** The read at the state's version. */
  pinned(read: Read, { info: { version } }: Snapshot): Read {
    const known = this.#pins.get(read);
    if (known?.version === version) return known;
    const pinned = pinTo(read, version);
    this.#pins.set(read, pinned);
    return pinned;
  }
}

/** The only node that had got to the shared version is gone, and the others are not there yet. */
function lost(version: LedgerVersion): GatewayError {
  return new GatewayError('unavailable', `no node that can be reached holds ledger version ${version} yet; try again`);
}

/** Whole seconds since the state was asked for; small, so that it lies in the object itself. */
export function ageOf({ asOfMs }: Snapshot, nowMs: number): number {
  return Math.max(0, (nowMs - asOfMs) / 1000) | 0;
}

/** The read at one version: what a client that named it would have asked. */
export function pinTo(read: Read, version: LedgerVersion): Read {
  const wire = { ...read.wire, path: withVersion(read.wire.path, version) };
  return { ...read, version, wire, need: { kind: 'version', version } };
}

/**
 * The body of `GET {base}`: the node's answer as it came, but for the oldest version, which is the fleet's (protocol 9).
 * Unknown members stay as they are.
 */
function ledgerInfoBody({ body }: Snapshot, { oldest }: Fleet): Buffer {
  if (oldest === undefined) throw new GatewayError('unavailable', 'no usable node is known');
  const text = body
    .toString()
    .replace(/("oldest_ledger_version"\s*:\s*)"\d+"/, `$1"${oldest.oldestVersion}"`)
    .replace(/("oldest_block_height"\s*:\s*)"\d+"/, `$1"${oldest.oldestBlockHeight}"`);
  return Buffer.from(text);
}
