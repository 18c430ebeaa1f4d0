/**
 * Access to the operations port. Without a token, a foreign site must not reach it through an operator's browser: its
 * requests carry an Origin or, after DNS rebinding, that site's Host. So a name passes as Host when the public DNS cannot
 * hold it, or the config lists it. `/admin/*` is open by token, or without one from this machine alone.
 */
import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { parseBearer } from '../../access/index.ts';
import type { Config } from '../../config/index.ts';

/** Keys of `operations` that decide on access; `hosts` in lower case: names, or `*.` and a domain for every name below it. */
export type AccessRules = Readonly<Pick<Config['operations'], 'host' | 'hosts' | 'token'>>;

/** 400: the request does not name one host. 401: the token is missing or wrong. 403: no token could help. 421: another host. */
interface Refusal {
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

/** The refusal of a request to `/admin/*`; `undefined`: access is granted. */
export function findRefusal(
  { token, host }: AccessRules,
  headers: Pick<IncomingHttpHeaders, 'authorization' | 'origin' | 'host'>,
): Refusal | undefined {
  if (token !== undefined) {
    if (isSame(parseBearer(headers.authorization ?? '') ?? '', token)) return undefined;
    return { status: 401, message: 'this needs the header "Authorization: Bearer TOKEN", with operations.token' };
  }
  if (!isLoopback(host)) {
    return {
      status: 403,
      message: `operations.host is ${host}: set operations.token, or a loopback address, to open /admin`,
    };
  }
  if (headers.origin !== undefined) return { status: 403, message: 'requests of web pages are refused here' };
  if (isLoopback(hostName(headers.host ?? ''))) return undefined;
  return { status: 403, message: 'without operations.token the Host must be a loopback address or localhost' };
}

/** `localhost`, or a numeric address of the machine itself. */
function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|::1|::ffff:127(?:\.\d{1,3}){3})$/i.test(host);
}

function hostName(header: string): string {
  return header.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
}

/** Compares digests: they have one length, so that timing reveals nothing of the token. */
function isSame(given: string, token: string): boolean {
  return timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', token, 'buffer'));
}
