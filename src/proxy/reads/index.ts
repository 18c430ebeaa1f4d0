/** Reads of ledger state: from cache or fleet, of one version or the latest. `createReads` builds them with their audits. */
export type { Disagreement } from './audits.ts';
export type { Caller } from './caller.ts';
export { FairFlights, type FlightTurn } from './fair-flights.ts';
export type { InfoBody } from './freshness.ts';
export { lifetimeOf } from './policy.ts';
export { isOfLatest, type Read, type ReadResult } from './read-result.ts';
export { createReads, type Reads } from './reads.ts';
export type { SharedRead } from './shares.ts';
