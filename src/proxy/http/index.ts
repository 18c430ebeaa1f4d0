/**
 * Sockets in, bytes out: `createClientPort` receives requests over every transport, and has a `Service` answer each by
 * its `Exchange`.
 */
export { type ClientPort, createClientPort } from './client-port.ts';
export { Exchange, type RequestSummary } from './exchange.ts';
export { answerForm, readAccept } from './negotiate.ts';
export { faultOfBodyLength } from './request-body.ts';
export { checkedTarget } from './request-faults.ts';
export type { MatchedRoute, Route } from './route.ts';
export { createGuardedServer } from './server/listener.ts';
export type { ConnectionTimes, Service } from './service.ts';
export { CachedTarget, TargetCache } from './target-cache.ts';
export { ownCopy } from './target.ts';
