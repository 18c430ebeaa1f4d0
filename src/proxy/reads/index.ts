/** The door of proxy/reads. */
export type { AskedRead } from './asked-content.ts';
export { Audits, createAuditMetrics, type Disagreement, type StoredRead } from './audits.ts';
export type { Caller, SeenVersion } from './caller.ts';
export { FairFlights, type FlightTurn } from './fair-flights.ts';
export { ageOf, Freshness, type InfoBody, infoHead, pinTo } from './freshness.ts';
export { lifetimeOf } from './policy.ts';
export { isOfLatest, needOf, type Read, type ReadResult, type Source } from './read-result.ts';
export { Reader } from './reader.ts';
export { type SharedRead, Shares, type ShareTime } from './shares.ts';
