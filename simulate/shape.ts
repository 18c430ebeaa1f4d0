/** What is simulated: the traffic of all clients together, and the deployment that it meets. */

/** What clients ask for, in shares of all requests; the rest of 1 is `passed`. */
export interface Mix {
  /** GET of a resource without a version. */
  readonly latest: number;
  /** The same as a view: POST, which no CDN keeps. */
  readonly latestView: number;
  /** Pinned to a version that was the head a moment ago: the rest of a page, or a second client of the same state. */
  readonly head: number;
  readonly headView: number;
  /** Pinned within the retention window, ages evenly spread on a logarithmic scale: indexers, charts, explorers. */
  readonly recent: number;
  /** Pinned below the retention edge, of a catalogue of links with a few favourites: only archival nodes hold them. */
  readonly deep: number;
  /** A committed transaction by hash, shortly after its commit. */
  readonly hash: number;
  /** The same while it is pending: no answer to be kept. */
  readonly pending: number;
  /** Each is followed by a read of "latest" that has to show its effect (docs/consistency.md). */
  readonly submit: number;
  /** Requests for a signing message, encoded in the gateway. */
  readonly encode: number;
}

/** A type of resource: its answer's size and its share of reads. */
export interface ResourceType {
  readonly bytes: number;
  readonly share: number;
}

export interface Traffic {
  /** Requests a second, of all clients in all regions. */
  readonly rate: number;
  readonly mix: Mix;
  readonly accounts: number;
  readonly accountSkew: number;
  readonly types: readonly ResourceType[];
  /** Mean age of a `head` version, in milliseconds. */
  readonly headAgeMs: number;
  /** Links in the catalogue of deep reads, and how unevenly they are followed. */
  readonly links: number;
  readonly linkSkew: number;
  /** Mean time from a commit to a read of the transaction. */
  readonly hashAgeMs: number;
  /** Mean time from a commit until its client has seen it, and reads on. */
  readonly commitSeenMs: number;
  /** Modules whose functions are called by what is encoded. */
  readonly modules: number;
}

export interface LedgerShape {
  readonly blocksPerSecond: number;
  readonly versionsPerBlock: number;
  /** Writes of resources a second, spread as reads are; how often answers change. Infinity: with every version. */
  readonly writesPerSecond: number;
  readonly retentionMs: number;
}

export interface RedisShape {
  /** 1: a single server; more: a Cluster. */
  readonly shards: number;
  /** One for each region, or one for all: then replicas elsewhere reach it with `farMs`. */
  readonly scope: 'region' | 'global';
  /** From here to there and back, in milliseconds. */
  readonly nearMs: number;
  readonly farMs: number;
  /** `cache.redis.timeout`. */
  readonly timeoutMs: number;
  /** For how long answers have been gathered when the run begins, at most. */
  readonly historyMs: number;
}

export interface CdnShape {
  /** Caches that do not share what they hold, in all regions together. */
  readonly places: number;
  /** For how long they have been gathering when the run begins. */
  readonly historyMs: number;
}

export interface NodesShape {
  /** In each region. */
  readonly full: number;
  readonly archival: number;
  /** What a read takes, request and answer on the wire included; exponential beyond half of it. */
  readonly readMs: number;
  readonly lookMs: number;
  /** `upstream.probeInterval`: each is looked at so often whatever else it answers. */
  readonly probeMs: number;
  /** The first full node is behind the ledger by this, each further one by a third more. */
  readonly lagMs: number;
}

export interface Shape {
  readonly name: string;
  readonly traffic: Traffic;
  readonly ledger: LedgerShape;
  readonly nodes: NodesShape;
  /** Processes that serve, in all regions together; a worker counts as one. */
  readonly replicas: number;
  readonly regions: number;
  readonly redis?: RedisShape | undefined;
  readonly cdn?: CdnShape | undefined;
  /** Of each process, `cache.memory.maxBytes`. */
  readonly memoryBytes: number;
  /** `latest.maxStaleness`. */
  readonly maxStalenessMs: number;
  /**
   * Whether replicas tell each other what none has told before, as they do; everything they show; or nothing, which
   * leaves monotonic reads across replicas to tokens (docs/scaling.md).
   */
  readonly news: 'first tells' | 'each tells' | 'none';
}

/** Replicas that share a Redis. */
export function groupSize({ replicas, regions, redis }: Shape): number {
  return redis?.scope === 'global' ? replicas : replicas / regions;
}

/** Milliseconds between two blocks. */
export function blockMs({ blocksPerSecond }: LedgerShape): number {
  return 1000 / blocksPerSecond;
}
