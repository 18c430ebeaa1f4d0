/** The bound of the age of a read without a version whose client demands none (docs/consistency.md). */
import { type StalenessOverride, StalenessOverrides } from '../../config/index.ts';

/** Bounds of the config, live: a reload replaces the list of overrides. */
export interface StalenessSettings {
  /** The bound where no plan and no override has one. */
  readonly maxStalenessMs: number;
  readonly overrides: readonly StalenessOverride[];
  /** Limits of `Ledgergate-Max-Staleness`. */
  readonly minClientStalenessMs: number;
  readonly maxClientStalenessMs: number;
}

/** A plan as far as it bounds staleness. */
export interface BoundingPlan {
  readonly name: string;
  /** Absent: the plan has no bound. */
  readonly maxStalenessMs?: number | undefined;
}

/** A read, or another request for the latest state. */
export interface BoundedRead {
  /** Name of its route, as metrics label it; reads of state have it as their operation. */
  readonly operation: string;
  /** Canonical; that of a view in JSON begins with its function. Absent: the body was not read. */
  readonly subject?: string | undefined;
  /** The override that matches, stored here because a cached target's requests share one read. */
  matched?: Matched | undefined;
}

/** The override of a read in one list. */
interface Matched {
  readonly list: readonly StalenessOverride[];
  readonly override: StalenessOverride | undefined;
}

/** A bound and its origin, such as `access.plans.free`. */
export interface ExplainedBound {
  readonly maxStalenessMs: number;
  readonly by: string;
}

/** The bounds of the config in force. */
export class StalenessBounds {
  readonly #settings: StalenessSettings;

  constructor(settings: StalenessSettings) {
    this.#settings = settings;
  }

  /** In ms: the smaller of the plan's and the override's; without both, the default. `read`: absent, of no override. */
  of(read: BoundedRead | undefined, plan: BoundingPlan | undefined): number {
    const { overrides, maxStalenessMs } = this.#settings;
    const ofPlan = plan?.maxStalenessMs;
    const ofRead =
      overrides.length === 0 || read === undefined ? undefined : overrideOf(read, overrides)?.maxStalenessMs;
    if (ofRead === undefined) return ofPlan ?? maxStalenessMs;
    return ofPlan === undefined || ofRead < ofPlan ? ofRead : ofPlan;
  }

  /** `of`, with the key of the config that the bound comes from. */
  explain(read: BoundedRead, plan: BoundingPlan | undefined): ExplainedBound {
    const { overrides } = this.#settings;
    const maxStalenessMs = this.of(read, plan);
    if (plan?.maxStalenessMs === maxStalenessMs) return { maxStalenessMs, by: `access.plans.${plan.name}` };
    const override = overrideOf(read, overrides);
    const by = override === undefined ? 'latest.maxStaleness' : StalenessOverrides.textOf(overrides, override);
    return { maxStalenessMs, by };
  }
}

function overrideOf(read: BoundedRead, list: readonly StalenessOverride[]): StalenessOverride | undefined {
  const { matched, operation, subject } = read;
  if (matched?.list === list) return matched.override;
  const called = operation === 'view' && subject !== undefined ? calledIn.exec(subject)?.[1] : undefined;
  const override = StalenessOverrides.find(list, operation, called);
  read.matched = { list, override };
  return override;
}

/** The function of a canonical view (proxy/routes: canonical-body.ts); other views have a digest as their subject. */
const calledIn = /^json:\{"function":"([^"]+)"/;
