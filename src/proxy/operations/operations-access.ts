/**
 * Access to the operations port. Without a token, a foreign site must not reach it through an operator's browser: its
 * requests carry an Origin or, after DNS rebinding, that site's Host. So a name passes as Host when the public DNS cannot
 * hold it, or the config lists it. `/admin/*` is open by a token of the config, or without any from this machine alone.
 */
import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { parseBearer } from '../../access/index.ts';
import type { Config } from '../../config/index.ts';

/** Keys of `operations` that decide on access; `hosts` in lower case: names, or `*.` and a domain for every name below it. */
export type AccessRules = Readonly<Pick<Config['operations'], 'host' | 'hosts' | 'token' | 'tokens'>>;

/** 400: the request does not name one host. 401: the token is missing or wrong. 403: no token could help. 421: another host. */
export interface Refusal {
  readonly status: 400 | 401 | 403 | 421;
  readonly message: string;
}

/** The refusal of a request by the hosts that it names (RFC 9112 3.2); `undefined`: the port answers it. */
export function findHostRefusal(
  rules: AccessRules,
  { headers: { host }, url = '', httpVersion }: Pick<IncomingMessage, 'headers' | 'url' | 'httpVersion'>,
): Refusal | undefined {
  // Browsers always send a Host; balancers that probe with HTTP/1.0 send none.
  if (host === undefined && httpVersion !== '1.0') return noHost;
  const authority = absoluteForm.exec(url)?.[1];
  // RFC 9112 3.2.2: an absolute target overrules the Host; a proxy may have rewritten either.
  return findRefusalOf(authority, rules) ?? findRefusalOf(host, rules);
}

const absoluteForm = /^https?:\/\/([^/?#]*)/i;
/** A host with or without a port, without user and without escapes: an address in brackets, or labels. */
const authorityForm = /^(?:\[([^\]]*)\]|([\w-]+(?:\.[\w-]+)*)\.?)(?::\d{0,5})?$/;
const noHost: Refusal = { status: 400, message: 'the request does not name one host' };

/** Names outside the public DNS: single labels, reserved domains (RFC 6761, `internal`), and domains of clusters. */
const privateName = /^[^.]+$|\.(?:localhost|internal|svc|cluster\.local)$/;

function findRefusalOf(authority: string | undefined, rules: AccessRules): Refusal | undefined {
  if (authority === undefined) return undefined;
  const [, address, given] = authorityForm.exec(authority) ?? [];
  if (address !== undefined) return isIP(address) === 6 ? undefined : noHost;
  if (given === undefined) return noHost;
  const name = given.toLowerCase();
  if (isIP(name) === 4 || privateName.test(name) || isListed(name, rules)) return undefined;
  return {
    status: 421,
    message: `the operations port does not answer for the name ${name.slice(0, longestShown)}: add it to operations.hosts`,
  };
}

/** The longest name of the DNS. */
const longestShown = 253;

function isListed(name: string, { host, hosts = [] }: AccessRules): boolean {
  if (name === host.toLowerCase()) return true;
  return hosts.some((listed) => (listed.startsWith('*.') ? name.endsWith(listed.slice(1)) : name === listed));
}

/** The sender of a request to `/admin/*`. */
export interface Operator {
  /** Its name in `operations.tokens`, which may be neither `token` (by `operations.token`) nor `loopback` (no tokens). */
  readonly name: string;
  /** `read`: GET alone. */
  readonly role: 'read' | 'admin';
}

/** The operator that a request to `/admin/*` is of, or its refusal. */
export function findOperator(
  { token, tokens, host }: AccessRules,
  headers: Pick<IncomingHttpHeaders, 'authorization' | 'origin' | 'host'>,
): Operator | Refusal {
  // An empty list opens nothing: its last token was removed.
  if (token !== undefined || tokens !== undefined) {
    const given = parseBearer(headers.authorization ?? '') ?? '';
    const operator = ofToken(given, { token, tokens });
    if (operator !== undefined) return operator;
    return { status: 401, message: 'this needs the header "Authorization: Bearer TOKEN", with a token of operations' };
  }
  if (!isLoopback(host)) {
    return {
      status: 403,
      message: `operations.host is ${host}: set operations.token, or a loopback address, to open /admin`,
    };
  }
  if (headers.origin !== undefined) return { status: 403, message: 'requests of web pages are refused here' };
  if (isLoopback(hostName(headers.host ?? ''))) return { name: 'loopback', role: 'admin' };
  return { status: 403, message: 'without operations.token the Host must be a loopback address or localhost' };
}

/** Compares digests, with every token: they have one length, so that timing reveals nothing of a token. */
function ofToken(given: string, { token, tokens = [] }: Pick<AccessRules, 'token' | 'tokens'>): Operator | undefined {
  const digest = hash('sha256', given, 'buffer');
  const single = { name: 'token', role: 'admin', digest: hash('sha256', token ?? '', 'buffer') } as const;
  const named = tokens.map(({ name, role, sha256 }) => ({ name, role, digest: Buffer.from(sha256, 'hex') }));
  let found: Operator | undefined;
  for (const { name, role, digest: known } of [...named, single]) {
    if (timingSafeEqual(digest, known)) found = { name, role };
  }
  // No token is empty, whatever the hash of one says.
  return given === '' ? undefined : found;
}

/** `localhost`, or a numeric address of the machine itself. */
function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|::1|::ffff:127(?:\.\d{1,3}){3})$/i.test(host);
}

function hostName(header: string): string {
  return header.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
}
