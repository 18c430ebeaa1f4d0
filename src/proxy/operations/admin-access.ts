/**
 * Access to `/admin/*`: by token, or without one from this machine alone. Without a token, a foreign site must not reach
 * it through an operator's browser: its requests carry an Origin or, after DNS rebinding, that site's Host.
 */
import { hash, timingSafeEqual } from 'node:crypto';

/** Config of the operations port that decides on access to `/admin/*`. */
export interface AdminAccessRules {
  readonly token?: string | undefined;
  /** `operations.host`, as configured. */
  readonly host: string;
}

/** Headers of a request that access depends on. */
export interface AdminCredentials {
  readonly authorization: string | undefined;
  readonly origin: string | undefined;
  readonly host: string | undefined;
}

/** 401: the token is missing or wrong. 403: no token could help. */
interface AdminRefusal {
  readonly status: 401 | 403;
  readonly message: string;
}

/** The refusal of a request; `undefined`: access is granted. */
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
