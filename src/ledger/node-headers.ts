/** Headers that cross the gateway: those that reach nodes, those of the interface, those of one hop. */

/**
 * A list of needed headers, not of forbidden ones, because credentials come under any name (`X-Api-Key`,
 * `X-Auth-Token`), and so do addresses, paths and methods that frameworks believe in place of the request's
 * (`X-Forwarded-*`, `X-Original-URL`, `X-HTTP-Method-Override`, `X_Real_IP`).
 * `Accept-Encoding` is not among them: it is written anew (`proxy/http/headers.ts`).
 */
const body = ['content-type', 'content-encoding'];
const descriptive = ['user-agent', 'x-request-id'];
/** Trace context of the client: parsed, and written anew (`trace/trace-context.ts`), or left out. */
export const ofTraces: readonly string[] = ['traceparent', 'tracestate'];

/** Headers that compare a request with an earlier answer. */
export const conditions: readonly string[] = ['if-none-match', 'if-modified-since', 'if-match', 'if-unmodified-since'];

const passed: ReadonlySet<string> = new Set(['accept', ...body, ...descriptive, ...ofTraces, ...conditions]);

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

/** Names (lower case) of hop-by-hop headers, as the `Connection` header lists them (RFC 9110 7.6.1). */
export function namedByConnection(connection: string | undefined): ReadonlySet<string> {
  return new Set(
    connection
      ?.toLowerCase()
      .split(',')
      .map((name) => name.trim()),
  );
}
