/** What all workers have shown of the ledger, as values: how news is joined to it, and what it covers. */
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { News, Snapshot } from '../upstream/shown.ts';

/** What headers tell, and the name of the node that told it. */
export interface Head {
  readonly info: LedgerInfo;
  readonly upstream: string;
}

/** Times are of the clock that all processes read. */
export interface AgreedNews extends News {
  readonly head?: Head | undefined;
}

export interface AgreedState extends AgreedNews {
  /** Goes up when the ledger went back, or turned out to be another one: nothing of before counts. */
  readonly ledger: number;
}

/** `state` with what is news of `news`; nothing in it goes back. */
export function join<S extends AgreedNews>(state: S, { head, served, snapshot }: AgreedNews): S {
  const newest = isNewer(snapshot, state.snapshot) ? snapshot : state.snapshot;
  const told = [head, newest === undefined ? undefined : { info: newest.info, upstream: newest.upstream }];
  return {
    ...state,
    ...definedOnly({
      head: told.reduce(laterHead, state.head),
      served: [served, newest?.info.version].reduce(laterVersion, state.served),
      snapshot: newest,
    }),
  };
}

/** Whether nothing of `news` is new. */
export function covers(state: AgreedNews, { head, served, snapshot }: AgreedNews): boolean {
  return (
    (head === undefined || head.info.version <= (state.head?.info.version ?? -1n)) &&
    (served === undefined || served <= (state.served ?? -1n)) &&
    !isNewer(snapshot, state.snapshot)
  );
}

function isNewer(snapshot: Snapshot | undefined, known: Snapshot | undefined): boolean {
  if (snapshot === undefined || known === undefined) return snapshot !== undefined;
  const isSame = snapshot.info.version === known.info.version;
  return isSame ? snapshot.asOfMs > known.asOfMs : snapshot.info.version > known.info.version;
}

/** A node's clock may be behind that of the node before: time does not go back with it. */
function laterHead(known: Head | undefined, head: Head | undefined): Head | undefined {
  if (head === undefined || (known !== undefined && head.info.version <= known.info.version)) return known;
  if (known === undefined || head.info.timestampUsec >= known.info.timestampUsec) return head;
  return { ...head, info: { ...head.info, timestampUsec: known.info.timestampUsec } };
}

function laterVersion(known: LedgerVersion | undefined, version: LedgerVersion | undefined): LedgerVersion | undefined {
  return known === undefined || (version !== undefined && version > known) ? version : known;
}

function definedOnly({
  head,
  served,
  snapshot,
}: { [Key in keyof AgreedNews]: AgreedNews[Key] | undefined }): AgreedNews {
  return {
    ...(head === undefined ? {} : { head }),
    ...(served === undefined ? {} : { served }),
    ...(snapshot === undefined ? {} : { snapshot }),
  };
}
