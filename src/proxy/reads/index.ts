/** Reads of ledger state: from cache or fleet, of one version or the latest. `createReads` builds them with their audits. */
export type { Disagreement } from './audits.ts';
export type { BoundedRead, ExplainedBound } from './demand.ts';
export type { Filter, Page } from './follower/page.ts';
export type { InfoBody } from './freshness.ts';
export { isOfLatest, lifetimeOf } from './policy.ts';
export type { EndReason, EventSink, StreamClient, StreamKind } from './push.ts';
export type { Caller, DemandSource, Read, ReadResult } from './read.ts';
export { createReads, type Reads } from './reads.ts';
export type { SharedRead } from './shares.ts';
