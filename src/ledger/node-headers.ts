/** Which headers of a request nodes are told: the interface's own, and those that its operations are defined by. */

/**
 * A list of what they need and not of what they must not see, because credentials come under any name (`X-Api-Key`,
 * `X-Auth-Token`), and so does what frameworks take for another address, path or method than the request's
 * (`X-Forwarded-*`, `X-Original-URL`, `X-HTTP-Method-Override`, `X_Real_IP`).
 * `Accept-Encoding` is not among them: it is written anew (`proxy/headers.ts`).
 */
const body = ['content-type', 'content-encoding'];
const told = ['user-agent', 'x-request-id'];
/** Where a trace comes from: these are read, and written anew (`trace/trace-context.ts`), or left out. */
export const ofTraces: readonly string[] = ['traceparent', 'tracestate'];

/** Headers that compare a request with an earlier answer. */
export const conditions: readonly string[] = ['if-none-match', 'if-modified-since', 'if-match', 'if-unmodified-since'];

const passed: ReadonlySet<string> = new Set(['accept', ...body, ...told, ...ofTraces, ...conditions]);

/** The interface's own headers, those of later nodes too (protocol 2.1). */
const ownPrefix = /^x-(?:node|aptos)-[a-z\d-]+$/;

/** Whether a client's header of this name (lower case) is sent on to a node. */
export function isForNodes(name: string): boolean {
  return passed.has(name) || isOfInterface(name);
}

/** Whether a header of this name (lower case) is one of the interface's own, in either direction. */
export function isOfInterface(name: string): boolean {
  return ownPrefix.test(name);
}
