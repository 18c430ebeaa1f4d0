/** A request that an operator describes: matched and parsed as a client's, never answered. */
import { GatewayError } from '../../ledger/errors.ts';
import type { RouteName } from '../../metrics/http-metrics.ts';
import type { Need } from '../../upstream/select/ranking.ts';
import { answerForm } from '../http/negotiate.ts';
import { METHODS } from '../http/server/lean-http.ts';
import type { Read } from '../reads/read-result.ts';
import type { ShareTime } from '../reads/shares.ts';
import { faultOfBodyLength } from '../http/request-body.ts';
import { faultOfHead } from '../http/request-faults.ts';
import type { Match, Router } from '../routes/router.ts';
import { originForm } from '../http/target.ts';

/** A client's request in plain data. */
export interface DescribedRequest {
  /** With the base path and the query, percent-encoded as clients send it. */
  readonly target: string;
  /** Default: GET, or POST with a body. */
  readonly method?: string | undefined;
  readonly accept?: string | undefined;
  /** Default: JSON, with a body. */
  readonly contentType?: string | undefined;
  readonly body?: string | undefined;
}

/** The way the gateway would answer a request; `read`: cache first. */
export type Parsed =
  | { readonly kind: 'read' | 'wait'; readonly route: RouteName; readonly read: Read }
  | { readonly kind: 'shared'; readonly route: RouteName; readonly shared: ShareTime }
  | { readonly kind: 'passed'; readonly route: RouteName; readonly need: Need; readonly isLatest: boolean }
  | { readonly kind: 'ledger info' | 'submission' | 'preflight'; readonly route: RouteName }
  | { readonly kind: 'refused'; readonly error: GatewayError };

/** Parses a described request. Never throws: a fault becomes `refused`. */
export function parseRequest(router: Router, described: DescribedRequest): Parsed {
  try {
    return parse(router, described);
  } catch (error) {
    const known = error instanceof GatewayError;
    return {
      kind: 'refused',
      error: known ? error : new GatewayError('internal', 'internal error', { cause: error }),
    };
  }
}

function parse(router: Router, { target: given, body, accept, ...more }: DescribedRequest): Parsed {
  const method = (more.method ?? (body === undefined ? 'GET' : 'POST')).toUpperCase();
  if (!/^[\x21-\x7e]+$/.test(given) || !METHODS.includes(method)) {
    throw new GatewayError('malformed', 'this is no HTTP request');
  }
  const { contentType = body === undefined ? undefined : 'application/json' } = more;
  const target = originForm(given);
  const headers = { host: 'localhost', accept, 'content-type': contentType };
  const fault = faultOfHead({ url: target, headers, httpVersion: '1.1', rawHeaders: [] });
  const match = router.match(method, target);
  const first = fault ?? router.faultOfMethod(method, target) ?? match.fault;
  if (first !== undefined) throw first;
  const { kind, name: route } = match.route;
  switch (kind) {
    case 'read':
    case 'wait': {
      const read = match.parse(accept);
      if (read === undefined) return passed(match);
      return 'shared' in read ? { kind: 'shared', route, shared: read.shared } : { kind, route, read };
    }
    case 'posted': {
      match.checkBody(contentType);
      const bytes = Buffer.from(body ?? '');
      const faultOfBody = faultOfBodyLength(body === undefined ? undefined : bytes.length);
      if (faultOfBody !== undefined) throw faultOfBody;
      const read = match.parseBody({ target, accept, contentType, body: bytes });
      return read === undefined ? passed(match) : { kind: 'read', route, read };
    }
    case 'submit':
      void match.passedPath;
      return { kind: 'submission', route };
    case 'ledger info':
      return answerForm(accept) === 'bcs' ? passed(match) : { kind, route };
    case 'preflight':
      return { kind, route };
    case 'encode':
    case 'passed':
    case 'none':
      return passed(match);
  }
}

function passed(match: Match): Parsed {
  // Throws for a path that no node receives.
  void match.passedPath;
  return { kind: 'passed', route: match.route.name, need: match.need, isLatest: match.isReadOfLatest };
}
