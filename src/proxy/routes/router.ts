/** The router decides a request's route from method and target alone. Pure; find-my-way matches the paths. */
import findMyWay from 'find-my-way';
import type { AccessOperation } from '../../access/index.ts';
import { GatewayError } from '../../ledger/index.ts';
import type { Need } from '../../upstream/index.ts';
import type { Read, SharedRead } from '../reads/index.ts';
import { type BodyRead, hasParameter, type Parameters } from './parse-read.ts';
import {
  noRoute,
  passedRoute,
  preflightRoute,
  rows,
  type PathRow,
  type PostedRead,
  type TableRoute,
} from './route-table.ts';
import { Submissions } from './submissions.ts';
import { answerForm, checkedTarget, faultOfBodyLength, type MatchedRoute } from '../http/index.ts';
import { foldedPaths, hasFoldedDots, pathBelow } from './target.ts';

/** HTTP methods that have routes. */
const methods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Operations in order of strictness: writes to the ledger, then the more costly for a node. */
const strictest: readonly AccessOperation[] = ['submit', 'encode', 'view', 'pass', 'read'];

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
  | { readonly kind: 'read' | 'wait'; readonly match: Match; readonly read: Read }
  | { readonly kind: 'shared'; readonly match: Match; readonly shared: SharedRead['shared'] }
  | {
      readonly kind: 'passed' | 'ledger info' | 'health' | 'usage' | 'submission' | 'preflight';
      readonly match: Match;
    };

/** The row of a target. With a fault, it is the row of any path. */
interface RowMatch {
  readonly row: PathRow;
  readonly parameters: Parameters;
  readonly fault?: 'notFound' | 'malformed';
}

const noRow: PathRow = { path: '/*' };

/** Searches the route table by path alone; the method chooses the route within a row. */
export class Router {
  readonly basePath: string;
  /** Supplies the first node of reads by hash. */
  readonly submissions: Submissions;
  readonly #tree;

  /** `basePath`: empty, or `/v1`. */
  constructor(basePath: string, submissions = new Submissions()) {
    this.basePath = basePath;
    this.submissions = submissions;
    this.#tree = findMyWay({
      // Sockets bound the target. Beyond the default of 100 characters, reads of generic struct tags would be passed and
      // never cached.
      maxParamLength: Infinity,
      querystringParser: () => ({}),
      // A target that cannot be decoded finds this handler, which has no row.
      onBadUrl: () => undefined,
    });
    for (const row of rows) {
      const paths = row.path === '' ? new Set([basePath || '/', `${basePath}/`]) : [basePath + row.path];
      for (const path of paths) this.#tree.on('GET', path, () => undefined, row);
    }
  }

  /** The match of a request. Never throws: a refused request matches `noRoute`, with its fault. */
  match(method: string, target: string): Match {
    return new Match(this, method, target);
  }

  /** Parses a described request as a client's, without an answer. Throws the `GatewayError` that is the answer. */
  parse({ target: given, body, accept, isRestricted, ...more }: DescribedRequest): ParsedRequest {
    const method = (more.method ?? (body === undefined ? 'GET' : 'POST')).toUpperCase();
    const { contentType = body === undefined ? undefined : 'application/json' } = more;
    const target = checkedTarget(method, given, { host: 'localhost', accept, 'content-type': contentType });
    const match = this.match(method, target);
    const fault = this.faultOfMethod(method, target) ?? match.fault;
    if (fault !== undefined) throw fault;
    const { kind } = match.route;
    if (kind === 'preflight' || kind === 'health' || kind === 'usage') return { kind, match };
    if (kind === 'ledger info' && answerForm(accept) !== 'bcs') return { kind, match };
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
    if ('shared' in read) return { kind: 'shared', match, shared: read.shared };
    return { kind: kind === 'wait' ? kind : 'read', match, read };
  }

  /** The row of a target. Faults: outside the base path, or not decodable. */
  find(target: string): RowMatch {
    const found = this.#tree.find('GET', target);
    if (found === null) return { row: noRow, parameters: {}, fault: 'notFound' };
    if (found.store === null) return { row: noRow, parameters: {}, fault: 'malformed' };
    // find-my-way drops an authority that `originForm` has left.
    if (!target.startsWith('/')) return { row: noRow, parameters: {}, fault: 'notFound' };
    return { row: found.store as PathRow, parameters: found.params as Parameters };
  }

  notAllowed(target: string): GatewayError {
    return new GatewayError('methodNotAllowed', 'method not allowed', { headers: this.allowOf(target) });
  }

  faultOfMethod(method: string, target: string): GatewayError | undefined {
    return methods.has(method) ? undefined : this.notAllowed(target);
  }

  /** `Allow` header (RFC 9110 15.5.6), name and value, without `OPTIONS`, which only serves preflights. */
  allowOf(target: string): readonly [name: string, value: string] {
    const [path = ''] = target.split('?', 1);
    const { routes, isReadingPost = false } = this.find(path.endsWith('/') ? path.slice(0, -1) : path).row;
    const usual = isReadingPost ? 'POST' : 'GET, HEAD';
    return ['Allow', routes === undefined ? usual : Object.keys(routes).join(', ')];
  }

  /** The row of a folded path (target.ts), which is below the base path. */
  rowOfFolded(folded: string): PathRow {
    return this.find(this.basePath + folded || '/').row;
  }
}

/** One request's route, and the traits that its path and query give it. */
export class Match implements MatchedRoute {
  readonly route: TableRoute;
  readonly method: string;
  readonly target: string;
  /** Traits of the path as nodes read it. */
  readonly row: PathRow;
  readonly fault: GatewayError | undefined;
  readonly #router: Router;
  readonly #parameters: Parameters;
  #passedPath: string | undefined;

  constructor(router: Router, method: string, target: string) {
    const { row, parameters, fault } = router.find(target);
    this.#router = router;
    this.method = method;
    this.target = target;
    this.row = row;
    this.#parameters = parameters;
    if (fault === 'malformed') this.fault = new GatewayError(fault, 'the request target cannot be decoded');
    else if (fault !== undefined && method !== 'OPTIONS') this.fault = notFound();
    else if (row.isOwn === true && routeOf(row, method) === passedRoute) this.fault = router.notAllowed(target);
    this.route = this.fault === undefined ? routeOf(row, method) : noRoute;
  }

  /** The read of a route of the kind `read` or `wait`; `undefined`: a node has to answer. Throws `GatewayError` 400. */
  parse(accept: string | undefined): Read | SharedRead | undefined {
    const { parse } = this.route;
    if (parse === undefined) throw new Error(`the route ${this.route.name} has no parser`);
    return parse(this.#parameters, { target: this.target, accept }, this.#router.submissions);
  }

  /** The read of a route of the kind `posted`; `undefined`: a node has to answer. Throws `GatewayError` 400 or 415. */
  parseBody(request: BodyRead): Read | undefined {
    return this.#posted.parse(this.#parameters, request);
  }

  /** Throws `GatewayError` 415 for a content type that the route `posted` does not read. */
  checkBody(contentType: string | undefined): void {
    this.#posted.check(contentType);
  }

  get #posted(): PostedRead {
    const { posted } = this.route;
    if (posted === undefined) throw new Error(`the route ${this.route.name} reads no body`);
    return posted;
  }

  /**
   * The operation that keys allow and plans charge: the route's own. A passed path is the strictest of its folded
   * readings, because a node may fold it as well.
   */
  get operation(): AccessOperation {
    const { route, method } = this;
    if (route !== passedRoute && route !== noRoute) return route.operation;
    const read = new Set(this.#foldedRows().map((row) => routeOf(row, method).operation));
    return strictest.find((operation) => read.has(operation)) ?? 'pass';
  }

  /** Whether a node that gets the request as it came may run a view. */
  get mayBeView(): boolean {
    const { route } = this;
    // The method does not count: a newer node may have views by GET.
    if (route === passedRoute) return this.#foldedRows().some(({ routes }) => routes?.POST?.operation === 'view');
    return route.operation === 'view';
  }

  /** The part of the target that a node receives. Throws `GatewayError` 400 or 404 for a path that none may receive. */
  get passedPath(): string {
    this.#passedPath ??= this.#checkedPath();
    return this.#passedPath;
  }

  get need(): Need {
    return this.row.need?.(this.#parameters, this.target) ?? { kind: 'head' };
  }

  /** Whether the request may be sent to a second node after the first one failed. */
  get isIdempotent(): boolean {
    const { method } = this;
    return method === 'GET' || method === 'HEAD' || (method === 'POST' && this.row.isReadingPost === true);
  }

  /** Whether the gateway chooses the version: a read of state that names none. */
  get isReadOfLatest(): boolean {
    const { isState = false, routes } = this.row;
    if (!isState || routes?.[this.method as 'GET'] === undefined) return false;
    // A node judges a malformed version, and a path that lacks a part.
    return !hasParameter(this.target, 'ledger_version') && !Object.values(this.#parameters).includes('');
  }

  /** Rows of the folded readings of the path; none for a path that `pathBelow` refuses. */
  #foldedRows(): readonly PathRow[] {
    const { basePath } = this.#router;
    if (!this.target.startsWith(basePath)) return [];
    return foldedPaths(this.target.slice(basePath.length)).map((path) => this.#router.rowOfFolded(path));
  }

  #checkedPath(): string {
    const path = pathBelow(this.#router.basePath, this.target);
    if (hasFoldedDots(path)) throw new GatewayError('malformed', 'the path has dot segments');
    const [whole, cut] = foldedPaths(path);
    if ([whole, cut].some((folded) => this.#router.rowOfFolded(folded).isHidden)) throw notFound();
    // Rights are of one path. A router that drops `;a`, and one that stops there, would read two.
    if (whole !== cut) throw new GatewayError('malformed', 'the path has parameters ahead of its last segment');
    return path;
  }
}

function routeOf(row: PathRow, method: string): TableRoute {
  if (method === 'OPTIONS') return preflightRoute;
  return row.routes?.[method as 'GET'] ?? passedRoute;
}

function notFound(): GatewayError {
  return new GatewayError('notFound', 'not found');
}
