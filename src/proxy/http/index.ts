/** The door of proxy/http. */
export { Cors } from './cors.ts';
export { Exchange, type IncomingExchange, type RequestSummary } from './exchange.ts';
export { FastPath } from './fast-path/fast-path.ts';
export {
  forOneClient,
  mergedVary,
  requestHeaders,
  responseHeaders,
  withoutCoding,
  withoutConditions,
  withoutFreshness,
} from './headers.ts';
export type { Incoming, Outgoing } from './message.ts';
export { acceptedCodings, answerForm } from './negotiate.ts';
export { announcesBody, Bodies, faultOfBodyLength } from './request-body.ts';
export { faultOfHead } from './request-faults.ts';
export { RequestSpans, type RouteLabel } from './request-span.ts';
export { endWhereHttpDoes, ResponseWriter } from './response-writer.ts';
export type { MatchedRoute, Route } from './route.ts';
export { answerBrokenRequest } from './server/broken-request.ts';
export { answerDespiteHalfClose, enterPipeline, stateOf } from './server/connection-state.ts';
export { Connections } from './server/connections.ts';
export { createServer, METHODS, request, schemaController } from './server/lean-http.ts';
export { createProxyServer, keepAliveMs, usualTimes } from './server/listener.ts';
export { LoopLag } from './server/loop-lag.ts';
export { paceInput } from './server/paced-input.ts';
export { TlsListener } from './server/tls-server.ts';
export type { ConnectionTimes, Received, ServerParts, Service } from './service.ts';
export { CachedTarget, postedName, TargetCache } from './target-cache.ts';
export {
  foldedPaths,
  hasFoldedDots,
  hasParameter,
  knownParameters,
  longestTarget,
  numberParameter,
  originForm,
  ownCopy,
  pathBelow,
  versionParameter,
} from './target.ts';
export { TurnShares } from './turn-shares.ts';
export { UnsentAnswers } from './unsent-answers.ts';
