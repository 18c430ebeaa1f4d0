/** The newest ledger state that workers published, by kind: what a new worker starts with, and what is no news. */
import type { LedgerEvent, PeerEvent } from '../gateway/peer-workers.ts';

export class NewestState {
  readonly #newest = new Map<LedgerEvent['kind'], LedgerEvent>();

  /** One event of each kind at most. */
  get events(): readonly LedgerEvent[] {
    return [...this.#newest.values()];
  }

  /** Records the event. False: an event of its kind that was recorded before is as new. */
  record(event: LedgerEvent): boolean {
    const before = this.#newest.get(event.kind);
    if (before !== undefined && !isNewer(event, before)) return false;
    this.#newest.set(event.kind, event);
    return true;
  }

  /** The ledger was replaced. */
  clear(): void {
    this.#newest.clear();
  }
}

/** Whether the event is state of one ledger: false for events that outlive the ledger. */
export function isLedgerEvent(event: PeerEvent): event is LedgerEvent {
  return event.kind === 'head' || event.kind === 'served' || event.kind === 'snapshot';
}

function isNewer(event: LedgerEvent, before: LedgerEvent): boolean {
  const [version, known] = [versionOf(event), versionOf(before)];
  if (version !== known || event.kind !== 'snapshot' || before.kind !== 'snapshot') return version > known;
  // A quiet ledger keeps its version; the later question renews the snapshot.
  return event.snapshot.asOfMs > before.snapshot.asOfMs;
}

function versionOf(event: LedgerEvent): bigint {
  if (event.kind === 'served') return event.version;
  return (event.kind === 'head' ? event : event.snapshot).info.version;
}
