/** The door of gateway. */
export { type GatewayOptions, openGateway, type RunningGateway, startGateway } from './gateway.ts';
export { GatewayLog } from './log.ts';
export type { PeerWorkers } from './peer-workers.ts';
export { drainMs, startServing } from './serving.ts';
