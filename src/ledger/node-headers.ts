/**
 * Headers that cross the gateway: those that reach nodes, those of the interface, those of one hop. The ledger family is
 * all names with the dialect's prefix: later nodes add some without a known meaning (protocol 10), and these are bounded,
 * because every later answer may repeat them.
 */
import { Dialect } from './ledger-headers.ts';

/**
 * A list of needed headers, not of forbidden ones, because credentials come under any name (`X-Api-Key`,
 * `X-Auth-Token`), and so do addresses, paths and methods that frameworks believe in place of the request's
 * (`X-Forwarded-*`, `X-Original-URL`, `X-HTTP-Method-Override`, `X_Real_IP`).
 * `Accept-Encoding` is not among them: it is written anew (`proxy/routes/pass-through.ts`).
 */
const body = ['content-type', 'content-encoding'];
const descriptive = ['user-agent', 'x-request-id'];
/** Trace context of the client: parsed, and written anew (`metrics/trace/span.ts`), or left out. */
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

/** Separates headers in the text of an answer; no value has one. */
const separator = '\t';
const line = /^([a-z\d-]+): [ -~]*$/;
const { known, prefix } = new Dialect('node');

/** The ledger family's headers of one answer, as one text for the cache: `name: value` each, names without the prefix. */
export const familyText = {
  /** Most headers on one answer, beside those with a known meaning. */
  mostFields: 8,
  /** Bytes of their names and values together. */
  mostBytes: 4096,

  /** The text of headers by lower-case name; `undefined`: none. */
  of(fields: ReadonlyMap<string, string>, dialect: Dialect): string | undefined {
    if (fields.size === 0) return undefined;
    const lines = [...fields].map(([name, value]) => `${name.slice(dialect.prefix.length)}: ${value}`);
    // One order, because the text is a part of the answer's digest.
    return lines.sort().join(separator);
  },

  /** The inverse: names and values in turn, without the names in `left`. */
  list(text: string, dialect: Dialect, left: ReadonlySet<string>): string[] {
    return text.split(separator).flatMap((line) => {
      const at = line.indexOf(': ');
      const name = dialect.prefix + line.slice(0, at);
      return left.has(name) ? [] : [name, line.slice(at + 2)];
    });
  },

  /** Whether it may be such a text; one from elsewhere could forge a ledger header. */
  isValid(text: string): boolean {
    if (text.length > familyText.mostBytes) return false;
    const lines = text.split(separator);
    if (lines.length > familyText.mostFields) return false;
    return lines.every((each) => {
      const name = line.exec(each)?.[1];
      return name !== undefined && !known.has(prefix + name);
    });
  },
} as const;
