/**
 * Who may use `/admin/*`. With a token, whoever has it. Without one only this machine, and not by way of a browser that
 * was sent here by another site: such a request has an Origin, or, where a name was bound to this address, the Host of
 * that site.
 */
import { hash, timingSafeEqual } from 'node:crypto';

export interface AdminAccessRules {
  readonly token?: string | undefined;
  /** The address that the operations port listens on, as it is configured. */
  readonly host: string;
}

export interface AdminCredentials {
  readonly authorization: string | undefined;
  readonly origin: string | undefined;
  /** The Host header. */
  readonly host: string | undefined;
}

export interface AdminRefusal {
  readonly status: 401 | 403;
  readonly message: string;
}

/** Why the request is refused, or `undefined` when it is not. */
export function findRefusal({ token, host }: AdminAccessRules, request: AdminCredentials): AdminRefusal | undefined {
  if (token !== undefined) {
    if (isSame(/^Bearer +(\S+)$/i.exec(request.authorization ?? '')?.[1] ?? '', token)) return undefined;
    return { status: 401, message: 'this needs the header "Authorization: Bearer TOKEN", with operations.token' };
  }
  if (!isLoopback(host)) {
    return {
      status: 403,
      message: `operations.host is ${host}: set operations.token, or a loopback address, to open /admin`,
    };
  }
  if (request.origin !== undefined) return { status: 403, message: 'requests of web pages are refused here' };
  if (isLoopback(hostName(request.host ?? ''))) return undefined;
  return { status: 403, message: 'without operations.token the Host must be a loopback address or localhost' };
}

/** Whether the text of an `Authorization` header is of the scheme `Bearer`, token or not. */
export function isBearer(authorization: string): boolean {
  return /^Bearer(?: |$)/i.test(authorization);
}

/** `localhost`, or a numeric address of the machine itself. */
export function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|::1|::ffff:127(?:\.\d{1,3}){3})$/i.test(host);
}

function hostName(header: string): string {
  return header.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
}

/** Digests have one length, so the time that it takes tells nothing. */
function isSame(given: string, token: string): boolean {
  return timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', token, 'buffer'));
}
