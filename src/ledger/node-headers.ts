/**
 * Headers that cross the gateway: those that reach nodes, those of the interface, those of one hop. The ledger family is
 * all names with the dialect's prefix: later nodes add some without a known meaning (protocol 10), and these are bounded,
 * because every later answer may repeat them.
 */
import { dialectOf, type Dialect, type HeaderValues } from './ledger-headers.ts';

/**
 * A list of needed headers, not of forbidden ones, because credentials come under any name (`X-Api-Key`,
 * `X-Auth-Token`), and so do addresses, paths and methods that frameworks believe in place of the request's
 * (`X-Forwarded-*`, `X-Original-URL`, `X-HTTP-Method-Override`, `X_Real_IP`).
 * `Accept-Encoding` is not among them: it is written anew (`proxy/routes/passed-headers.ts`).
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

/** Most headers of the family on one answer, beside those with a known meaning. */
export const mostFamilyFields = 8;
/** Bytes of their names and values together. */
export const mostFamilyBytes = 4096;

/** The headers of the family on one answer. */
export interface FamilyFields {
  /** Values by lower-case name. */
  readonly fields: ReadonlyMap<string, string>;
  /** Names that were left out: beyond the bounds, or not printable ASCII. */
  readonly cut: readonly string[];
}

const noFields: FamilyFields = { fields: new Map(), cut: [] };
const printable = /^[ -~]*$/;

/**
 * The family's headers of a node's answer, in its order; values of a repeated name are joined (RFC 9110 5.3). `secret`:
 * the node's credentials, which an echo of the request must not publish.
 */
export function familyFields(headers: HeaderValues, dialect: Dialect, secret: HeaderValues = {}): FamilyFields {
  const names = Object.keys(headers).filter((name) => name.startsWith(dialect.prefix) && !dialect.known.has(name));
  if (names.length === 0) return noFields;
  const named = namedByConnection(headers['connection']?.toString());
  const fields = new Map<string, string>();
  let bytes = 0;
  const cut: string[] = [];
  for (const name of names) {
    const given = headers[name];
    if (given === undefined || named.has(name) || Object.hasOwn(secret, name)) continue;
    const value = typeof given === 'string' ? given : given.join(', ');
    const isWithin = fields.size < mostFamilyFields && bytes + name.length + value.length <= mostFamilyBytes;
    if (isWithin && isOfInterface(name) && printable.test(value)) {
      fields.set(name, value);
      bytes += name.length + value.length;
    } else cut.push(name);
  }
  return { fields, cut };
}

/** Separates headers in the text of an answer; no value has one. */
const separator = '\t';

/** Headers as one text for the cache, `name: value` each, names without the dialect's prefix; `undefined`: none. */
export function textOfFields(fields: ReadonlyMap<string, string>, dialect: Dialect): string | undefined {
  if (fields.size === 0) return undefined;
  const lines = [...fields].map(([name, value]) => `${name.slice(dialect.prefix.length)}: ${value}`);
  // One order, because the text is a part of the answer's digest.
  return lines.sort().join(separator);
}

/** The inverse of `textOfFields`: names and values in turn, without the names in `left`. */
export function listOfText(text: string, dialect: Dialect, left: ReadonlySet<string>): string[] {
  return text.split(separator).flatMap((line) => {
    const at = line.indexOf(': ');
    const name = dialect.prefix + line.slice(0, at);
    return left.has(name) ? [] : [name, line.slice(at + 2)];
  });
}

const line = /^([a-z\d-]+): [ -~]*$/;
const { known, prefix } = dialectOf('node');

/** Whether `textOfFields` may have made the text; one from elsewhere could forge a ledger header. */
export function isFamilyText(text: string): boolean {
  if (text.length > mostFamilyBytes) return false;
  const lines = text.split(separator);
  if (lines.length > mostFamilyFields) return false;
  return lines.every((each) => {
    const name = line.exec(each)?.[1];
    return name !== undefined && !known.has(prefix + name);
  });
}
