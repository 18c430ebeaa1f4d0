/** The door of gateway. */
export { lookUpBySystem, lookUpNames, nodesOf, shownAddress } from './discovery.ts';
export { type GatewayOptions, logOf, openGateway, type RunningGateway, startGateway } from './gateway.ts';
export { createProcessLog, LogControl } from './log/log.ts';
export type { LedgerEvent, PeerEvent, PeerWorkers, Submitted } from './peer-workers.ts';
export { drainMs, type Serving, startServing } from './serving.ts';
