/** What a client says about how new an answer must be, and what this gateway has shown it already. */
import type { Socket } from 'node:net';
import { GatewayError, quote } from '../ledger/errors.ts';
import { findU64, type LedgerVersion } from '../ledger/version.ts';
import type { Demand } from '../upstream/latest.ts';
import type { Incoming } from './message.ts';

export interface StalenessLimits {
  /** Bound for who asks for none, in milliseconds. */
  readonly maxStalenessMs: number;
  /** Clients may ask for bounds between these. */
  readonly minClientStalenessMs: number;
  readonly maxClientStalenessMs: number;
}

interface Seen {
  readonly version: LedgerVersion;
  readonly generation: number;
}

export class Consistency {
  readonly #limits: StalenessLimits;
  readonly #generation: () => number;
  /** The newest version each connection has seen committed; forgotten with the connection or the ledger. */
  readonly #seen = new WeakMap<Socket, Seen>();

  /** `generation` is the fleet's. */
  constructor(limits: StalenessLimits, generation: () => number) {
    this.#limits = limits;
    this.#generation = generation;
  }

  /** What the answer to `request` must satisfy. Throws `GatewayError` 400 for headers that cannot be read. */
  demandOf({ headers, socket }: Pick<Incoming, 'headers' | 'socket'>): Demand {
    const told = headers['ledgergate-min-version'];
    const asked = headers['ledgergate-max-staleness'];
    const seen = this.#seenOn(socket);
    return {
      maxStalenessMs: asked === undefined ? this.#limits.maxStalenessMs : this.#boundOf(String(asked)),
      min: told === undefined ? seen : newest(parseMinVersion(String(told)), seen),
    };
  }

  /** The client behind this connection has seen `version` committed: it must not be shown an older state. */
  recordSeen({ socket }: Incoming, version: LedgerVersion): void {
    this.#seen.set(socket, { version: newest(version, this.#seenOn(socket)), generation: this.#generation() });
  }

  #seenOn(socket: Socket): LedgerVersion | undefined {
    const seen = this.#seen.get(socket);
    return seen?.generation === this.#generation() ? seen.version : undefined;
  }

  #boundOf(text: string): number {
    const { minClientStalenessMs, maxClientStalenessMs } = this.#limits;
    return Math.min(Math.max(parseStaleness(text), minClientStalenessMs), maxClientStalenessMs);
  }
}

const unitMs = { ms: 1, s: 1_000, m: 60_000 } as const;

/** `0`, `200ms`, `2s`, `1m`. */
function parseStaleness(text: string): number {
  const [, number = '', unit] = /^(\d{1,9})(ms|s|m)?$/.exec(text.trim()) ?? [];
  if (number === '' || (unit === undefined && Number(number) !== 0)) {
    throw new GatewayError(
      'invalidInput',
      `Ledgergate-Max-Staleness is no duration such as 200ms or 2s: ${quote(text)}`,
    );
  }
  return Number(number) * (unit === undefined ? 1 : unitMs[unit as keyof typeof unitMs]);
}

function parseMinVersion(text: string): LedgerVersion {
  const version = findU64(text);
  if (version === undefined) {
    throw new GatewayError('invalidInput', `Ledgergate-Min-Version is not a u64: ${quote(text)}`);
  }
  return version as LedgerVersion;
}

function newest(version: LedgerVersion, other: LedgerVersion | undefined): LedgerVersion {
  return other === undefined || version > other ? version : other;
}
