/** The door of gateway. */
export { type Newness, type PeerEvent, type PeerWorkers, rowOf } from './bus.ts';
export { type GatewayOptions, openGateway, type RunningGateway, startGateway } from './gateway.ts';
export { GatewayLog } from './log.ts';
export { drainMs, type Serving, startServing } from './serving.ts';
