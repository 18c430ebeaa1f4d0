/** Matches and parses a described request as a client's, without an answer. */
import { GatewayError } from '../../ledger/index.ts';
import { answerForm, checkedTarget, faultOfBodyLength } from '../http/index.ts';
import type { Read, SharedRead } from '../reads/index.ts';
import type { Match, Router } from './router.ts';

/** A client's request in plain data; `target` with the base path and the query, percent-encoded. */
interface DescribedRequest {
  readonly target: string;
  /** Default: GET, or POST with a body. */
  readonly method?: string | undefined;
  readonly accept?: string | undefined;
  /** Default: JSON, with a body. */
  readonly contentType?: string | undefined;
  readonly body?: string | undefined;
  /** See `BodyRead`. */
  readonly isRestricted?: boolean | undefined;
}

/** The way the gateway would answer a request; `read`: cache first. */
export type ParsedRequest =
  | { readonly kind: 'refused'; readonly error: GatewayError }
  | { readonly kind: 'read' | 'wait'; readonly match: Match; readonly read: Read }
  | { readonly kind: 'shared'; readonly match: Match; readonly shared: SharedRead['shared'] }
  | {
      readonly kind: 'passed' | 'ledger info' | 'health' | 'usage' | 'submission' | 'preflight';
      readonly match: Match;
    };

/** Parses a described request. Never throws: a fault becomes `refused`. */
export function parseRequest(router: Router, described: DescribedRequest): ParsedRequest {
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

function parse(router: Router, described: DescribedRequest): ParsedRequest {
  const { target: given, body, accept, isRestricted, ...more } = described;
  const method = (more.method ?? (body === undefined ? 'GET' : 'POST')).toUpperCase();
  const { contentType = body === undefined ? undefined : 'application/json' } = more;
  const target = checkedTarget(method, given, { host: 'localhost', accept, 'content-type': contentType });
  const match = router.match(method, target);
  const fault = router.faultOfMethod(method, target) ?? match.fault;
  if (fault !== undefined) throw fault;
  const { kind } = match.route;
  if (
    kind === 'preflight' ||
    kind === 'health' ||
    kind === 'usage' ||
    (kind === 'ledger info' && answerForm(accept) !== 'bcs')
  )
    return { kind, match };
  let read;
  if (kind === 'read' || kind === 'wait') read = match.parse(accept);
  else if (kind === 'posted') {
    match.checkBody(contentType);
    const bytes = Buffer.from(body ?? '');
    const faultOfBody = faultOfBodyLength(body === undefined ? undefined : bytes.length);
    if (faultOfBody !== undefined) throw faultOfBody;
    read = match.parseBody({ target, accept, contentType, body: bytes, isRestricted });
  }
  if (read === undefined) {
    // Throws for a path that no node receives.
    void match.passedPath;
    return { kind: kind === 'submit' ? 'submission' : 'passed', match };
  }
  return 'shared' in read
    ? { kind: 'shared', match, shared: read.shared }
    : { kind: kind === 'wait' ? kind : 'read', match, read };
}
