/**
 * Sockets in, bytes out: `createClientPort` receives requests over every transport, and has a `Service` answer each by
 * its `Exchange`.
 */
export { faultOfBodyLength } from './bodies.ts';
export { type ClientPort, createClientPort } from './client-port.ts';
export { Exchange } from './exchange.ts';
export { countedOutcome, countedStatus } from './http-metrics.ts';
export type { MatchedRoute, Route } from './message.ts';
export { answerForm, readAccept, wantsEvents } from './negotiate.ts';
export type { RequestSummary } from './observer.ts';
export { checkedTarget } from './request-faults.ts';
export { createGuardedServer } from './server/listener.ts';
export type { Service } from './serve.ts';
export type { ConnectionTimes } from './server/connection-state.ts';
export { CachedTarget, ownCopy, TargetCache } from './target-cache.ts';
