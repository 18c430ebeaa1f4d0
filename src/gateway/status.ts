/** What this process tells the status page: counted while it serves, put together when somebody looks. */
import { performance } from 'node:perf_hooks';
import type { AccessMetrics } from '../metrics/access-metrics.ts';
import type { EncodeMetrics } from '../metrics/encode-metrics.ts';
import type { SenderMetrics } from '../metrics/sender-metrics.ts';
import type { UpstreamMetrics } from '../metrics/upstream-metrics.ts';
import { EdgeWatch } from '../status/edges.ts';
import { Journal, type JournalLog } from '../status/events.ts';
import type { CacheFacts, LoadFacts, NodeTold, Told } from '../status/facts.ts';
import { mergeCounts } from '../status/latency.ts';
import { encodings, refusals, repairs, Tally, type TallyTold } from '../status/tally.ts';
import { Traffic } from '../status/traffic.ts';
import type { Fleet } from '../upstream/fleet.ts';
import { readClasses } from '../upstream/need.ts';
import type { Upstream } from '../upstream/upstream.ts';
import { statusOf } from './fleet.ts';
import { SteadyLog } from './steady-log.ts';

/** What is asked of other parts when somebody looks. */
export interface StatusParts {
  readonly fleet: Fleet;
  cache(): CacheFacts;
  redis(): Told['redis'];
  load(): LoadFacts;
  encode(): Pick<Told, 'isEncoding' | 'distrusted'>;
  disagreements(): Told['disagreements'];
  certificateExpiresMs(): number | undefined;
}

const attempts = ['answered', 'failed'] as const;
type AttemptTally = Tally<(typeof attempts)[number]>;

export class StatusSource {
  /** Lines of what may happen again and again. */
  readonly lines: SteadyLog;
  readonly journal: Journal;
  readonly traffic = new Traffic(performance.now());
  readonly refusals = new Tally(refusals, performance.now());
  readonly encodings = new Tally(encodings, performance.now());
  readonly repairs = new Tally(repairs, performance.now());
  readonly #edges = new EdgeWatch();
  /** By name, of the nodes of the fleet and of those that still do what they were sent. */
  readonly #nodes = new Map<string, AttemptTally>();
  readonly #startedAtMs = Date.now();
  #timer: NodeJS.Timeout | undefined;

  constructor(log: JournalLog) {
    this.lines = new SteadyLog(log);
    this.journal = new Journal(this.lines);
  }

  /** Looks at the fleet each second, which is also what lets counts leave their windows. */
  start(fleet: Fleet): void {
    this.#look(fleet);
    this.#timer = setInterval(() => this.#look(fleet), 1_000);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  told(parts: StatusParts): Told {
    const { fleet } = parts;
    const nowMs = performance.now();
    this.#look(fleet);
    return {
      startedAtMs: this.#startedAtMs,
      isReady: fleet.isReady,
      outageSince: fleet.outageSinceMs === undefined ? undefined : new Date(fleet.outageSinceMs).toISOString(),
      chainId: fleet.chainId,
      head: fleet.head?.version.toString(),
      oldest: fleet.oldest?.oldestVersion.toString(),
      headSpeed: (fleet.headSource?.window.headSpeed ?? 0) * 1_000,
      nodes: this.#nodesTold(fleet, nowMs),
      traffic: this.traffic.windows.told(nowMs),
      refusals: this.refusals.told(nowMs),
      encodings: this.encodings.told(nowMs),
      repairs: this.repairs.told(nowMs),
      cache: parts.cache(),
      redis: parts.redis(),
      ...parts.encode(),
      disagreements: parts.disagreements(),
      load: parts.load(),
      certificateExpiresMs: parts.certificateExpiresMs(),
      events: [...this.journal.events, ...this.#edges.events],
    };
  }

  /** Counts attempts, and what comes after failed ones, beside what `metrics` counts. */
  watchSender(metrics: UpstreamMetrics & SenderMetrics): UpstreamMetrics & SenderMetrics {
    return {
      ...metrics,
      observeAnswer: (upstream, status, seconds) => {
        this.#tallyOf(upstream).count('answered');
        metrics.observeAnswer(upstream, status, seconds);
      },
      observeFailure: (upstream, kind, seconds) => {
        this.#tallyOf(upstream).count('failed');
        metrics.observeFailure(upstream, kind, seconds);
      },
      forgetUpstream: (upstream) => {
        this.#nodes.delete(upstream);
        metrics.forgetUpstream(upstream);
      },
      prunedRepaired: {
        inc: () => {
          this.repairs.count('pruned repaired');
          metrics.prunedRepaired.inc();
        },
      },
      hedge: (outcome) => {
        if (outcome !== 'refused') this.repairs.count('hedged');
        if (outcome === 'won') this.repairs.count('hedge won');
        metrics.hedge(outcome);
      },
      retry: (outcome) => {
        if (outcome === 'sent') this.repairs.count('retried');
        metrics.retry(outcome);
      },
      refused: (reason) => {
        this.refusals.count(`queue ${reason}`);
        metrics.refused(reason);
      },
    };
  }

  watchAccess(metrics: AccessMetrics): AccessMetrics {
    return {
      ...metrics,
      refused: (reason, plan) => {
        this.refusals.count(reason);
        metrics.refused(reason, plan);
      },
    };
  }

  watchEncoder(metrics: EncodeMetrics): EncodeMetrics {
    return {
      local: () => {
        this.encodings.count('local');
        metrics.local();
      },
      forwarded: (reason) => {
        this.encodings.count('forwarded');
        metrics.forwarded(reason);
      },
      refused: () => {
        this.encodings.count('refused');
        metrics.refused();
      },
      checked: (result) => {
        this.encodings.count(result);
        metrics.checked(result);
      },
    };
  }

  #look(fleet: Fleet): void {
    const nowMs = performance.now();
    this.traffic.head = fleet.head?.version;
    for (const { name } of fleet.upstreams) this.#tallyOf(name);
    const windows = [this.traffic, this.refusals, this.encodings, this.repairs, ...this.#nodes.values()];
    for (const { windows: counted } of windows) counted.roll(nowMs);
    const edges = fleet.upstreams.map(({ name, window }) => ({ name, oldest: window.info?.oldestVersion }));
    this.#edges.look(edges, Date.now());
  }

  #nodesTold(fleet: Fleet, nowMs: number): readonly NodeTold[] {
    const views = statusOf(fleet);
    return fleet.upstreams.map((upstream, index) => {
      const { name, tier, window, ejections, isSuspect, inFlight, places } = upstream;
      const { state = 'unproven', chainId, oldest, head, lag } = views[index] ?? {};
      return {
        name,
        tier,
        state,
        isSuspect,
        chainId,
        oldest,
        head,
        lag,
        edgeSpeed: window.edgeSpeed * 1_000,
        edgeMargin: marginOf(upstream, nowMs),
        inFlight,
        limit: places.limit,
        ejected: readClasses.flatMap((readClass) => {
          const { reason } = ejections[readClass];
          return reason === undefined ? [] : [{ readClass, reason }];
        }),
        latency: mergeCounts(readClasses.map((readClass) => upstream.latencies[readClass].counts(nowMs))),
        tally: this.#tallyOf(name).told(nowMs) satisfies TallyTold,
      };
    });
  }

  #tallyOf(upstream: string): AttemptTally {
    let tally = this.#nodes.get(upstream);
    if (tally === undefined) this.#nodes.set(upstream, (tally = new Tally(attempts, performance.now())));
    return tally;
  }
}

/** How far above its told edge a read must be to be sent there now. */
function marginOf({ window }: Upstream, nowMs: number): string | undefined {
  const view = window.at(nowMs);
  return view === undefined ? undefined : (view.safeOldest - view.oldest).toString();
}
