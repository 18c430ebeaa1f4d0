/** Reads of ledger state: from cache or fleet, of one version or the latest. `createReads` builds them with their audits. */
export type { Disagreement } from './audits.ts';
export type { InfoBody } from './freshness.ts';
export { lifetimeOf } from './policy.ts';
export type { EndReason, EventSink, Filter, Page, StreamClient, StreamKind } from './push-types.ts';
export { type Caller, type DemandSource, isOfLatest, type Read, type ReadResult } from './read.ts';
export { createReads, type Reads } from './reads.ts';
export type { SharedRead } from './shares.ts';
export type { BoundedRead, ExplainedBound } from './staleness.ts';
