import type { LedgerEvent, PeerEvent } from '../gateway/peer-workers.ts';

/** The newest published ledger state of each kind: the start of a new worker, and the filter of older events. */
export class NewestState {
  readonly #newest = new Map<LedgerEvent['kind'], LedgerEvent>();

  get events(): readonly LedgerEvent[] {
    return [...this.#newest.values()];
  }

  /** Records the event; false for one that is not newer than the last of its kind. */
  record(event: LedgerEvent): boolean {
    const before = this.#newest.get(event.kind);
    if (before !== undefined && !isNewer(event, before)) return false;
    this.#newest.set(event.kind, event);
    return true;
  }

  clear(): void {
    this.#newest.clear();
  }
}

/** Whether the event is state of one ledger; other events outlive a replacement of the ledger. */
export function isLedgerEvent(event: PeerEvent): event is LedgerEvent {
  return event.kind === 'head' || event.kind === 'served' || event.kind === 'snapshot';
}

function isNewer(event: LedgerEvent, before: LedgerEvent): boolean {
  const [version, known] = [versionOf(event), versionOf(before)];
  if (version !== known || event.kind !== 'snapshot' || before.kind !== 'snapshot') return version > known;
  // A quiet ledger keeps its version: a later request renews the snapshot.
  return event.snapshot.asOfMs > before.snapshot.asOfMs;
}

function versionOf(event: LedgerEvent): bigint {
  if (event.kind === 'served') return event.version;
  return (event.kind === 'head' ? event : event.snapshot).info.version;
}
