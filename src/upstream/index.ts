/** The door of upstream. */
export { ByteBudget, createAnswerBudget } from './byte-budget.ts';
export { elect } from './contradictions.ts';
export { errorCodeOf } from './dispatch/classify.ts';
export { decode, type NodeAnswer, type NodeCoding, type StreamedAnswer } from './dispatch/exchange.ts';
export { FairFlights, type FlightTurn, joinFlights } from './dispatch/fair-flights.ts';
export { type FleetRequest, LargeAnswerError, QueueFullError, UnreachedError } from './dispatch/fleet-request.ts';
export { createSenderMetrics, type SenderMetrics } from './dispatch/sender-metrics.ts';
export { Sender } from './dispatch/sender.ts';
export { dialectSpoken } from './fleet-dialect.ts';
export { candidatesOf, type FleetView } from './fleet-view.ts';
export { Fleet, type FleetEvents, type NodeReport } from './fleet.ts';
export { Forks, type ForksParts } from './forks.ts';
export { type Demand, Latest, type LatestEvents, type PublishedState, type ReportedState } from './latest.ts';
export { newer } from './monotonic-floor.ts';
export { LedgerIdentity } from './node/ledger-identity.ts';
export { lookupOf, type WireRequest } from './node/node-client.ts';
export { describeFault, faultOfError, faultOfLook, type NodeFaultReport } from './node/node-fault.ts';
export { Prober, type ProbeResult } from './node/probe.ts';
export { SharedAddress, sharedAddressMessage } from './node/shared-address.ts';
export { Upstream } from './node/upstream.ts';
export { explainSelection, readClassOf } from './select/candidates.ts';
export { type Candidate, type Criterion, holdingOf, type Need, positionOf, readClasses } from './select/ranking.ts';
export {
  attemptSeconds,
  type AuditMetrics,
  createAuditMetrics,
  createUpstreamMetrics,
  type NodeFault,
  type UpstreamMetrics,
} from './upstream-metrics.ts';
export { Witness } from './witness.ts';
