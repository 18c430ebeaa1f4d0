/**
 * The bus: events of one serving process to the other workers of the gateway, and to the replicas that share its Redis.
 * Like replicas, workers share no state: each publishes new state before it answers a client with it, and applies the
 * events of its peers as they arrive. One table has the reach of each event, its place in time, and its effect.
 */
import type { Access, AccessPeers, KeysChange } from '../access/index.ts';
import type { Cache, CacheKey, ReadFlights } from '../cache/index.ts';
import type { DistrustedFunctions } from '../encode/index.ts';
import type { LedgerVersion } from '../ledger/index.ts';
import type { Page, Reads } from '../proxy/reads/index.ts';
import type { Routes } from '../proxy/routes/index.ts';
import type { Fleet, FleetNews } from '../upstream/index.ts';

/** An event that one worker publishes to all others. */
export type PeerEvent =
  | FleetNews
  /** The node named `upstream` took the transaction. */
  | { readonly kind: 'submitted'; readonly hash: string; readonly upstream: string }
  /** A node encoded this function differently. */
  | { readonly kind: 'distrusted'; readonly functionId: string }
  /** A node has another history: every answer is dropped. */
  | { readonly kind: 'fork found' }
  /** Nodes disagree on this read. */
  | { readonly kind: 'dropped'; readonly key: CacheKey }
  /** Transactions that the follower read. */
  | { readonly kind: 'page'; readonly page: Page }
  /** A worker needs new transactions. */
  | { readonly kind: 'follow wanted' }
  /** Transactions from `version` on are of another history. */
  | { readonly kind: 'rolled back'; readonly version: LedgerVersion }
  /** A page differs from its node's own answers. */
  | { readonly kind: 'pages distrusted' }
  /** An operator has changed keys. */
  | { readonly kind: 'keys changed'; readonly change: KeysChange };

/** Newer state has a higher version, or the same version at a later time: a quiet ledger keeps its version. */
export interface Newness {
  readonly version: bigint;
  /** Monotonic, in ms, on the clock of the machine. */
  readonly asOfMs?: number;
}

interface EventRow<Event> {
  /** The news of it to replicas; absent: only the workers of this gateway receive it. */
  readonly toReplicas?: (event: Event) => Parameters<Cache['publish']>[0];
  /** `ledger`: a replacement of the ledger ends it. */
  readonly of?: 'ledger';
  /** Orders events about the ledger state that clients get: an older state is dropped. */
  readonly newness?: (event: Event) => Newness;
  /** The states that the event is the newest of, each ordered alone; absent: one. */
  readonly states?: (event: Event) => readonly number[];
  /** For an event without `newness`: the one that workers get which start later, the newest of its kind. */
  readonly atStart?: (event: Event) => Extract<PeerEvent, { readonly kind: 'served' }>;
  /** Its sender waits until the peers have applied it. */
  readonly isAwaited?: true;
  readonly apply: (rooms: Rooms, event: Event) => void | Promise<void>;
}

type RowOf<Kind> = EventRow<Extract<PeerEvent, { readonly kind: Kind }>>;

/** The rooms that events of other processes change. */
interface Rooms {
  readonly access: Pick<Access, 'keys'> | undefined;
  readonly cache: Pick<Cache, 'publish' | 'purgeHere'>;
  readonly fleet: Pick<Fleet, 'onNews'>;
  readonly reads: {
    readonly tail: Pick<Reads['tail'], 'rollBack' | 'distrust'>;
    readonly follower: Pick<Reads['follower'], 'takeOfPeer' | 'want'>;
  };
  readonly routes: Pick<Routes, 'recordSubmission' | 'distrust'>;
}

// Checked by the fleet like an answer of a node: news that contradict what it knows change nothing.
const toFleet = ({ fleet }: Rooms, news: FleetNews): void => fleet.onNews(news);

const rows: { readonly [Kind in PeerEvent['kind']]: RowOf<Kind> } = {
  head: { of: 'ledger', newness: ({ info }) => info, apply: toFleet },
  served: { of: 'ledger', newness: (event) => event, toReplicas: (event) => event, apply: toFleet },
  floor: {
    of: 'ledger',
    atStart: ({ version }) => ({ kind: 'served', version }),
    toReplicas: (event) => event,
    apply: toFleet,
  },
  shared: { of: 'ledger', apply: toFleet },
  snapshot: {
    of: 'ledger',
    newness: ({ snapshot }) => ({ version: snapshot.info.version, asOfMs: snapshot.asOfMs }),
    states: ({ bounds }) => bounds,
    toReplicas: ({ snapshot: { info }, bounds, floor }) =>
      floor === 'gateway' ? { kind: 'served', version: info.version } : { kind: 'shared', info, bounds },
    apply: toFleet,
  },
  refused: { of: 'ledger', toReplicas: (event) => event, apply: toFleet },
  'ledger replaced': { apply: toFleet },
  submitted: { isAwaited: true, apply: ({ routes }, { hash, upstream }) => routes.recordSubmission(hash, upstream) },
  distrusted: { apply: ({ routes }, { functionId }) => routes.distrust(functionId) },
  'fork found': { apply: ({ cache }) => void cache.purgeHere({ kind: 'everything' }) },
  dropped: { apply: ({ cache }, { key }) => void cache.purgeHere({ kind: 'read', key }) },
  page: {
    of: 'ledger',
    apply: ({ fleet, reads }, { page }) => {
      // Its head first: nothing above the believed head is answered, and a wait that its page does not end asks a node.
      fleet.onNews({ kind: 'head', upstream: page.upstream, info: page.info });
      reads.follower.takeOfPeer(page);
    },
  },
  'follow wanted': { apply: ({ reads }) => reads.follower.want() },
  'rolled back': { of: 'ledger', apply: ({ reads }, { version }) => reads.tail.rollBack(version) },
  'pages distrusted': { apply: ({ reads }) => reads.tail.distrust() },
  // Replicas have a channel of their own, in the Redis of the keys.
  'keys changed': { isAwaited: true, apply: ({ access }, { change }) => access?.keys.readChange(change) },
};

/** The row of an event. */
export function rowOf<Event extends PeerEvent>({ kind }: Event): EventRow<Event> {
  return rows[kind] as EventRow<Event>;
}

/** The other workers, as one worker addresses them through the primary. */
export interface PeerWorkers extends AccessPeers {
  /** One worker reads a cold key for all, with a store and without Redis. */
  readonly flights: ReadFlights;
  /** Functions that the peers leave to nodes. */
  readonly distrusted: DistrustedFunctions['all'];
  /** Sends the event before it returns. The promise of an awaited one resolves after its bound too, and never rejects. */
  publish(event: PeerEvent): Promise<void> | undefined;
}

/** See `createBus`. */
export type Bus = ReturnType<typeof createBus>;

/** Publishes the events of this process, and applies those of others. `workers`: the others; absent in a single process. */
export function createBus(rooms: Rooms, workers: Pick<PeerWorkers, 'publish'> | undefined) {
  return {
    publish(event: PeerEvent): Promise<void> | undefined {
      const news = rowOf(event).toReplicas?.(event);
      if (news !== undefined) rooms.cache.publish(news);
      return workers?.publish(event);
    },
    /** Returns the promise of an event that takes time. */
    apply: (event: PeerEvent): void | Promise<void> => rowOf(event).apply(rooms, event),
  };
}
