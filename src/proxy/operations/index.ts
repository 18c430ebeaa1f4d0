/** The door of proxy/operations. */
export { type AdminAnswer, faultsOf } from './admin-request.ts';
export type { AdminFunctions, LogFunctions } from './admin-routes.ts';
export { Admin, orFault, parsePurgeRequest, type PurgeRequest } from './admin.ts';
export { Explainer } from './explain.ts';
export { createOperationsServer, type GatewayReadiness } from './operations-server.ts';
export { countedFamilies, type Counts, countsOf, tenantCells, type TenantCount } from './status/counts.ts';
export type { CacheFacts, LoadFacts, NodeStatus, ProcessStatus, Readiness, WorkersFacts } from './status/facts.ts';
export { mergeReadiness, mergeStatus } from './status/merge.ts';
export { factsOf } from './status/present.ts';
export { statusLines } from './status/terminal.ts';
export { Trend, Windows } from './status/windows.ts';
export { mergeUsage } from './usage-report.ts';
