/**
 * The door of upstream: `createFleet` gives a process its fleet, which follows the nodes of the config, sends requests to
 * them and finds the version of reads without one.
 */
export { ByteBudget } from './byte-budget.ts';
export type { NodeAnswer, StreamedAnswer } from './dispatch/exchange.ts';
export { type FleetRequest, LargeAnswerError } from './dispatch/fleet-request.ts';
export { createFleet, Fleet, type FleetDeps, type FleetNews } from './fleet.ts';
export { inspectNodes } from './inspect-nodes.ts';

export { connectionFault } from './node/node-fault.ts';
export type { Need } from './select/ranking.ts';
export type { Demand, PublishedState, ReportedState } from './shared-states.ts';
