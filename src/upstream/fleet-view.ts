/** Views of the fleet at one moment: the facts that answers carry, and the nodes among which a read chooses. */
import type { Dialect, LedgerInfo } from '../ledger/index.ts';
import type { Unit, WindowView } from './node/retention-window.ts';
import type { PlaceKind } from './node/limits.ts';
import type { Upstream } from './node/upstream.ts';
import {
  type Candidate,
  headToleranceMs,
  type Health,
  isAskable,
  type Need,
  type ReadClass,
  type Tier,
  unitOf,
} from './select/ranking.ts';

/** The facts behind a view. */
export interface FleetFacts {
  /** Increases when data read before must be dropped: the same version may have another state. */
  readonly generation: number;
  /** The chain of the fleet; `undefined` before the first answer of a node. */
  readonly chainId: number | undefined;
  /** The newest believed snapshot. */
  readonly head: LedgerInfo | undefined;
  /** The snapshot of the node that serves the oldest version. */
  readonly oldest: LedgerInfo | undefined;
  /** Start of an outage, in ms since the epoch; `undefined`: a node answers, or none ever did. */
  readonly outageSinceMs: number | undefined;
  /** See `LedgerWideHeaders`: name and value of the live key for answers at `head`. */
  readonly ledgerWide: readonly string[];
  /** Lower-case names of all headers that were on a ledger info at some time: no stored answer repeats them. */
  readonly ledgerWideNames: ReadonlySet<string>;
}

/** The facts that an answer from memory needs. */
export interface FleetView extends FleetFacts {
  /** The seven ledger headers and `ledgerWide`, names and values in turn; empty before the first answer of a node. */
  readonly headers: readonly string[];
  /** No outage: answers carry no header about one. */
  readonly isPlain: boolean;
}

/** The view of these facts; returns `before` itself when nothing has changed, as after most answers of nodes. */
export function viewOf(facts: FleetFacts, before: FleetView | undefined, dialect: Dialect): FleetView {
  const { generation, chainId, head, oldest = head, outageSinceMs, ledgerWide, ledgerWideNames } = facts;
  const isSame =
    before?.head === head &&
    before?.generation === generation &&
    before.chainId === chainId &&
    before.outageSinceMs === outageSinceMs &&
    before.ledgerWide === ledgerWide &&
    before.ledgerWideNames === ledgerWideNames &&
    before.oldest?.oldestVersion === oldest?.oldestVersion &&
    before.oldest?.oldestBlockHeight === oldest?.oldestBlockHeight;
  if (isSame) return before;
  const seven = head === undefined || oldest === undefined ? [] : headersOf(head, oldest, dialect);
  const headers = [...seven, ...ledgerWide];
  const isPlain = outageSinceMs === undefined;
  return { generation, chainId, head, oldest, outageSinceMs, ledgerWide, ledgerWideNames, headers, isPlain };
}

function headersOf(head: LedgerInfo, { oldestVersion, oldestBlockHeight }: LedgerInfo, dialect: Dialect) {
  return dialect.list({ ...head, oldestVersion, oldestBlockHeight });
}

/** The part of a fleet that candidates are made from. */
export interface FleetNodes {
  readonly upstreams: readonly Upstream[];
  isLagging(upstream: Upstream): boolean;
}

/** Whether better nodes are asked first. A look chooses the version of reads, so it prefers nodes that answer reads. */
function isEjectedFor(upstream: Upstream, { nowMs, need, readClass }: Moment): boolean {
  if (upstream.silence.isOn(nowMs) || (need.kind === 'head' && upstream.failsNewest)) return true;
  return readClass !== undefined && upstream.ejections[readClass].isOut;
}

/** The moment of a choice. */
interface Moment {
  readonly fleet: FleetNodes;
  readonly nowMs: number;
  readonly need: Need;
  readonly readClass: ReadClass | undefined;
  readonly unit: Unit;
  readonly kind: PlaceKind;
}

/** A node at one moment. Its facts are read when a choice asks for them: most choices need few, of many nodes. */
class NodeNow implements Candidate<Upstream> {
  readonly upstream: Upstream;
  readonly #moment: Moment;
  #latencyMs = 0;
  #cost = 0;

  constructor(upstream: Upstream, moment: Moment) {
    this.upstream = upstream;
    this.#moment = moment;
  }

  get name(): string {
    return this.upstream.name;
  }

  get tier(): Tier {
    return this.upstream.tier;
  }

  get health(): Health {
    return this.upstream.health;
  }

  get isDrained(): boolean {
    return this.upstream.isDrained;
  }

  get isSuspect(): boolean {
    return this.upstream.isSuspect;
  }

  get isEjected(): boolean {
    return isEjectedFor(this.upstream, this.#moment);
  }

  get isDeferred(): boolean {
    return this.upstream.deferral.isOn(this.#moment.nowMs);
  }

  get isWithheld(): boolean {
    return this.upstream.withheldForMs(this.#moment.nowMs) > 0;
  }

  get isLagging(): boolean {
    return this.#moment.fleet.isLagging(this.upstream);
  }

  get isFull(): boolean {
    return !this.upstream.hasPlace(this.#moment.kind, false, this.#moment.nowMs);
  }

  get isHalfFull(): boolean {
    return !this.upstream.hasPlace(this.#moment.kind, true, this.#moment.nowMs);
  }

  get window(): WindowView | undefined {
    return this.upstream.window.around(this.#moment.nowMs + this.#latency, this.#moment.unit);
  }

  get weight(): number {
    return this.upstream.weight;
  }

  get cost(): number {
    if (this.#cost === 0) this.#cost = this.#latency * (this.upstream.inFlight + 1);
    return this.#cost;
  }

  get headTolerance(): number {
    return this.upstream.window.pace.headSpeed * headToleranceMs;
  }

  get #latency(): number {
    if (this.#latencyMs === 0) this.#latencyMs = this.upstream.latencyMs(this.#moment.nowMs);
    return this.#latencyMs;
  }
}

/** Every node as a candidate for a read of the class; a look counts as `head`. `kind`: the place that it takes. */
export function candidatesOf(
  fleet: FleetNodes,
  nowMs: number,
  need: Need,
  readClass?: ReadClass,
  kind: PlaceKind = 'read',
): Candidate<Upstream>[] {
  const moment = { fleet, nowMs, need, readClass, unit: unitOf(need), kind };
  return fleet.upstreams.map((upstream) => new NodeNow(upstream, moment));
}

/** One node as a candidate, as `candidatesOf` has it. */
export function candidateOf(
  upstream: Upstream,
  fleet: FleetNodes,
  nowMs: number,
  need: Need,
  readClass: ReadClass | undefined,
  kind: PlaceKind,
): Candidate<Upstream> {
  return new NodeNow(upstream, { fleet, nowMs, need, readClass, unit: unitOf(need), kind });
}

/** The nodes that may be asked. `readClass`: marks the nodes that are ejected for it. */
export function nodesFor(
  fleet: FleetNodes,
  need: Need,
  readClass?: ReadClass,
  kind?: PlaceKind,
): readonly Candidate<Upstream>[] {
  const nodes = candidatesOf(fleet, performance.now(), need, readClass, kind);
  return nodes.every(isAskable) ? nodes : nodes.filter(isAskable);
}
