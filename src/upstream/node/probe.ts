/** Looks at the ledger info of quiet nodes, so that their reports stay fresh without traffic (protocol 9). */
import { setTimeout as sleep } from 'node:timers/promises';
import { ByteBudget } from '../byte-budget.ts';
import type { ExchangeContext, NodeAnswer } from '../dispatch/exchange.ts';
import { fetchWhole, wasLostIdle } from '../dispatch/fetch-whole.ts';
import type { FleetState } from '../fleet-state.ts';
import { faultOfError, faultOfLook, type NodeFault, NodeFaultError } from './node-fault.ts';
import type { NodeClient, Purpose } from './node-client.ts';
import { findShedding } from '../dispatch/classify.ts';
import { type LedgerInfo, settlesWithin } from '../../ledger/index.ts';
import { Deadline } from '../deadline.ts';
import type { UpstreamLog } from '../dispatch/fleet-request.ts';
import { sharedAddressMessage } from './shared-address.ts';
import { silentMs } from './circuits.ts';
import type { Upstream } from './upstream.ts';

/** Read at each use; after a change of the interval see `reschedule`. */
export interface ProberOptions {
  /** A node without a report for this long is probed. */
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

/** The ledger info of a probe, and the time it took. */
export interface ProbeResult {
  readonly info: LedgerInfo;
  readonly elapsedMs: number;
}

type LedgerAnswer = NodeAnswer & { readonly info: LedgerInfo };

/** While a request waits for a version, a node without a report for this long is probed. */
const awaitedMs = 50;
/** Pause between two checks for nodes that hang, in ms. A process that was late checks once, not once for each pause. */
const checkMs = 125;
/** A client's request that is unanswered for this share of the interval, or longer, is reason for an early look. */
const earlyLook = { share: 1 / 20, leastMs: 250 };

/** The ledger info has a few hundred bytes, a transaction at a head mostly little more, but it may be any. */
const bodies = { largest: 1024 * 1024, all: 16 * 1024 * 1024 };
/** A comparison of heads holds for this long: nodes keep their order, and each comparison costs every node a look. */
const comparedMs = 250;
/** A node that takes longer to report its head is no good choice, and must not delay every read. */
const longestComparisonMs = 100;

/** Probes the nodes of a fleet: single flight per node. */
export class Prober {
  readonly #fleet: FleetState;
  readonly #options: ProberOptions;
  readonly #log: UpstreamLog;
  readonly #stop = new AbortController();
  readonly #timers = new Map<Upstream, NodeJS.Timeout>();
  readonly #budget = new ByteBudget(bodies);
  #awaited: NodeJS.Timeout | undefined;
  #checks: NodeJS.Timeout | undefined;
  readonly #looks = new Map<Upstream, Promise<void>>();
  #comparedAtMs = -Infinity;
  #comparison: Promise<void> | undefined;
  /** The comparison has not begun its looks: the one before has just ended, and still holds. */
  #isDue = false;

  constructor(fleet: FleetState, options: ProberOptions, log: UpstreamLog) {
    this.#fleet = fleet;
    this.#options = options;
    this.#log = log;
  }

  /** Probes every node once, then at intervals. Resolves when each has answered or failed. */
  async start(): Promise<void> {
    this.#checks = setInterval(() => this.#findHung(), checkMs).unref();
    await this.#fleet.voteOnDialect((upstream) => this.ask(upstream, ''));
    await Promise.all(this.#fleet.upstreams.map((upstream) => this.add(upstream)));
  }

  async add(upstream: Upstream): Promise<void> {
    upstream.address.attach({
      ask: async (withinMs) => {
        const found = await this.peek(upstream, withinMs, 'submission');
        return typeof found === 'object' ? found.info : undefined;
      },
      mayAsk: () => upstream.health === 'usable' && !upstream.isRemoved && upstream.mayBeAskedMore(performance.now()),
      onShared: () => this.#log.record('address shared', { upstream: upstream.name }, sharedAddressMessage),
    });
    await this.look(upstream);
    this.#schedule(upstream);
  }

  /** Looks at a node without a record of its answer: its ledger, or the fault by which it cannot be used. Never rejects. */
  async peek(upstream: Upstream, withinMs: number, purpose: Purpose = 'probe'): Promise<ProbeResult | NodeFault> {
    const startedMs = performance.now();
    try {
      const { status, headers, info } = await this.ask(upstream, '', withinMs, upstream.client, purpose);
      if (status === 200 && info !== undefined) return { info, elapsedMs: performance.now() - startedMs };
      return faultOfLook(status, headers, this.#fleet.dialect.name).reason;
    } catch (error) {
      return faultOfError(error);
    }
  }

  /** Looks at what an answer shows that a look has to decide: another chain, or a ledger that went back. */
  confirm(upstream: Upstream): Promise<void> {
    const { address, chain, window } = upstream;
    const isAllBack = (): boolean => window.maySeemRestored(performance.now());
    if (!address.isShared || chain.doubted !== undefined || !isAllBack()) return this.look(upstream);
    return address.settle(isAllBack, (info, sentAtMs) => {
      this.#fleet.observe(upstream, info, performance.now(), sentAtMs);
    });
  }

  remove(upstream: Upstream): void {
    clearTimeout(this.#timers.get(upstream));
    this.#timers.delete(upstream);
  }

  reschedule(): void {
    for (const [upstream, timer] of this.#timers) {
      clearTimeout(timer);
      this.#schedule(upstream);
    }
  }

  close(): void {
    this.#stop.abort(new Error('closing'));
    for (const timer of this.#timers.values()) clearTimeout(timer);
    clearTimeout(this.#awaited);
    clearInterval(this.#checks);
  }

  /** Probes the nodes often while requests wait for a version: without traffic the next probe may be far. */
  hurry(): void {
    if (this.#awaited !== undefined || this.#stop.signal.aborted) return;
    this.#awaited = setTimeout(() => {
      this.#awaited = undefined;
      if (!this.#fleet.isAwaited) return;
      for (const upstream of this.#fleet.upstreams) this.#lookIfQuiet(upstream);
      this.hurry();
    }, awaitedMs).unref();
  }

  /** Other processes wait until the node with the second newest head has come farther. */
  lookAtSecond(): void {
    const { second } = this.#fleet.ledger;
    if (second !== undefined) this.#lookIfQuiet(second);
  }

  #lookIfQuiet(upstream: Upstream): void {
    const nowMs = performance.now();
    const isQuiet = nowMs - upstream.window.observedAtMs >= awaitedMs / 2 && upstream.mayBeAskedMore(nowMs);
    if (isQuiet && upstream.health === 'usable') void this.look(upstream);
  }

  /** Concurrent callers share one look. Never rejects. */
  look(upstream: Upstream): Promise<void> {
    const running = this.#looks.get(upstream);
    if (running !== undefined || upstream.isRemoved || this.#stop.signal.aborted) return running ?? Promise.resolve();
    const look = this.#probe(upstream).finally(() => this.#looks.delete(upstream));
    this.#looks.set(upstream, look);
    return look;
  }

  /**
   * Looks at all heads at one moment: among heads of different moments, that of a node that is behind and was asked
   * later seems ahead. Resolves after 100 ms at most. `undefined`: the last comparison still holds, or there is one
   * node only.
   */
  compareHeads(): Promise<void> | undefined {
    if (this.#isDue) return undefined;
    if (this.#comparison !== undefined || performance.now() - this.#comparedAtMs < comparedMs) return this.#comparison;
    return this.#comparable().length < 2 ? undefined : this.#compare();
  }

  /**
   * Looks at all heads, by looks that begin after the call: a node has failed, and others may have reached its version.
   * Resolves after 250 ms at most. Callers share looks, so that nodes get at most 20 a second.
   */
  async compareAnew(): Promise<void> {
    if (!this.#isDue) await this.#comparison;
    await (this.#comparison ?? this.#compare(this.#comparedAtMs + awaitedMs - performance.now()));
  }

  #comparable(): readonly Upstream[] {
    const nowMs = performance.now();
    return this.#fleet.upstreams.filter((upstream) => upstream.isTrusted && upstream.mayBeAskedMore(nowMs));
  }

  #compare(inMs = 0): Promise<void> {
    const compare = async (): Promise<void> => {
      if (inMs > 0) {
        this.#isDue = true;
        await sleep(inMs, undefined, { ref: false });
        this.#isDue = false;
      }
      // A look in flight may have been answered before.
      const looks = this.#comparable().map((upstream) => {
        return this.#looks.get(upstream)?.then(() => this.look(upstream)) ?? this.look(upstream);
      });
      await settlesWithin(Promise.all(looks), longestComparisonMs);
    };
    this.#comparison = compare().finally(() => {
      this.#comparedAtMs = performance.now();
      this.#comparison = undefined;
    });
    return this.#comparison;
  }

  /** Looks at nodes that leave requests unanswered; those that leave the look unanswered, too, are down. */
  #findHung(): void {
    const nowMs = performance.now();
    const { upstreams } = this.#fleet;
    const earlyMs = Math.max(earlyLook.leastMs, this.#options.intervalMs * earlyLook.share);
    for (const upstream of upstreams) {
      if (upstream.health !== 'usable' || upstream.isDrained) continue;
      const { silence } = upstream;
      const isQuiet = silence.quietForMs(nowMs) >= earlyMs;
      if (!this.#looks.has(upstream)) {
        if ((isQuiet || silence.isOn(nowMs)) && upstream.mayBeAskedMore(nowMs)) void this.look(upstream);
      } else if (silence.isOn(nowMs)) {
        silence.found();
        if (!silence.isTotal) continue;
        this.#fleet.noteHealth(upstream, { cause: 'it answers nothing' });
        // Nodes hang together, behind one network or one release.
        for (const other of upstreams) if (other.health === 'usable' && isStale(other, nowMs)) void this.look(other);
      }
    }
  }

  admit(upstream: Upstream, { info, elapsedMs }: ProbeResult): void {
    const nowMs = performance.now();
    upstream.recordAnswer(elapsedMs, nowMs);
    this.#fleet.observe(upstream, info, nowMs);
    this.#fleet.noteHealth(upstream);
  }

  async #round(upstream: Upstream): Promise<void> {
    const { info, observedAtMs } = upstream.window;
    const isQuiet = info === undefined || performance.now() - observedAtMs >= this.#options.intervalMs * 0.9;
    if (isQuiet || upstream.health !== 'usable') await this.look(upstream);
    await upstream.address.round();
    this.#schedule(upstream);
  }

  #schedule(upstream: Upstream): void {
    if (this.#stop.signal.aborted || upstream.isRemoved) return;
    // A round in flight at a change of the interval schedules the next one, too.
    clearTimeout(this.#timers.get(upstream));
    const timer = setTimeout(() => void this.#round(upstream), this.#options.intervalMs).unref();
    this.#timers.set(upstream, timer);
  }

  async #probe(upstream: Upstream): Promise<void> {
    let startedMs = performance.now();
    let cause: object | undefined;
    try {
      for (let looks = 0; looks < 2 && (looks === 0 || upstream.chain.doubted !== undefined); looks += 1) {
        // The second look confirms another chain: it is sent after the answer that reported it.
        startedMs = performance.now();
        const answer = await this.#askInfo(upstream, startedMs);
        if (answer === undefined) break;
        const nowMs = performance.now();
        upstream.recordAnswer(nowMs - startedMs, nowMs);
        // A node that came back provides the newest state at once: where it alone has a version, its clients wait for none.
        if (nowMs - startedMs < silentMs) upstream.newest.succeed(startedMs, nowMs);
        upstream.address.observe(answer.info, startedMs, nowMs, answer.info.chainId === upstream.chain.id);
        const isOurs = this.#fleet.observe(upstream, answer.info, nowMs, startedMs);
        if (isOurs) this.#fleet.recordLook(answer);
      }
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      const fault = faultOfError(error);
      upstream.explain(fault);
      upstream.recordFailure(performance.now() - startedMs, performance.now(), fault);
      cause = { cause: String(error) };
      this.#log.debug({ upstream: upstream.name, ...cause }, 'probe failed');
    }
    this.#fleet.noteHealth(upstream, cause);
  }

  /**
   * `undefined`: the node limits or sheds requests, so it is alive, and stays down if it was. Throws for any other
   * answer without a ledger.
   */
  async #askInfo(upstream: Upstream, startedMs: number): Promise<LedgerAnswer | undefined> {
    const { timeoutMs } = this.#options;
    const asked = overLiveClient(upstream, timeoutMs, (client) => this.ask(upstream, '', timeoutMs, client));
    upstream.silence.looked(startedMs);
    // Reads of the newest state that wait for a silent node go on at another one.
    if (!(await settlesWithin(asked, silentMs)) && this.#fleet.isReplaceable(upstream)) upstream.expireNewestReads();
    const answer = await asked;
    upstream.silence.end();
    const { status } = answer;
    const info = answer.info ?? this.#fleet.takeDialectOf(answer);
    if (status === 200 && info !== undefined) return { ...answer, info };
    const shedding = findShedding(answer, Date.now());
    if (shedding?.isOfNode === true) {
      upstream.deferral.refused(startedMs, shedding, performance.now());
      upstream.explain('sheds requests');
      this.#log.debug({ upstream: upstream.name, status }, 'probe refused');
      return undefined;
    }
    throw new NodeFaultError(faultOfLook(status, answer.headers, this.#fleet.dialect.name));
  }

  /**
   * Reads `path` of one node, over a connection for probes. Rejects when no answer comes within `withinMs`. `client`:
   * connections other than the node's own. `purpose`: 'submission' opens a new connection.
   */
  async ask(
    upstream: Upstream,
    path: string,
    withinMs = this.#options.timeoutMs,
    client?: NodeClient,
    purpose: Purpose = 'probe',
  ): Promise<NodeAnswer> {
    const signal = new Deadline(this.#stop.signal, withinMs);
    const bounds = { dialect: this.#fleet.dialect, signal, budget: this.#budget };
    const context: ExchangeContext = { ...bounds, sentAtMs: undefined, isAnswered: false };
    const wire = { method: 'GET', path, headers: { accept: 'application/json' } } as const;
    const exchange = (): Promise<NodeAnswer> => {
      upstream.allowance.spend(performance.now());
      return fetchWhole(upstream, wire, context, purpose, client);
    };
    try {
      return await exchange();
    } catch (error) {
      if (!(await wasLostIdle(error, context))) throw error;
      return await exchange();
    } finally {
      signal.end();
    }
  }
}

/** Whether its last report is older than a node takes to answer. */
function isStale({ window }: Upstream, nowMs: number): boolean {
  return nowMs - window.observedAtMs >= silentMs;
}

/** After this time, or a quarter of its time-out, a probe without an answer goes out over a new connection as well. */
const freshClientMs = 250;

/**
 * Runs `ask` over the node's open connections and, without an answer, over new ones beside them, which alone look its name
 * up again: it may have moved to another address, or a middlebox may have dropped connections silently. Resolves with the
 * first answer. New connections that report a ledger first replace the open ones. Rejects as the first `ask` does.
 */
async function overLiveClient(
  upstream: Upstream,
  timeoutMs: number,
  ask: (client: NodeClient) => Promise<NodeAnswer>,
): Promise<NodeAnswer> {
  const { client } = upstream;
  const first = ask(client);
  if (await settlesWithin(first, Math.min(freshClientMs, timeoutMs / 4))) return first;
  const fresh = upstream.openClient();
  let isPending = true;
  let isInUse = false;
  const second = ask(fresh).then((answer) => {
    if (answer.status !== 200 || answer.info === undefined) throw new Error('no ledger info over a new connection');
    // Another probe, or another process, may have replaced the open connections meanwhile.
    isInUse = isPending && upstream.client === client && !upstream.isRemoved;
    if (isInUse) upstream.replaceClient(fresh);
    return answer;
  });
  try {
    return await Promise.any([first, second]);
  } catch {
    return await first;
  } finally {
    isPending = false;
    if (!isInUse) void fresh.destroy();
  }
}
