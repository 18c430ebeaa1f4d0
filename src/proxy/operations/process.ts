/** The view of operators on one serving process, and their changes: plain data, so that it can cross to another process. */
import { z } from 'zod';
import type { KeysRequest } from '../../access/index.ts';
import { cacheKey, type PurgeScope } from '../../cache/index.ts';
import { familiesOf, type FamilyData } from '../../metrics/index.ts';
import { Address, GatewayError, quote } from '../../ledger/index.ts';
import { explain } from './explain.ts';
import { countsSinceStart, type NodeStatus, type ProcessParts, readinessOf, statusOf } from './status/report.ts';
import { Windows } from './status/windows.ts';
import { answerKeys } from './keys-admin.ts';
import { reportUsage } from './usage-report.ts';
import {
  AdminFault,
  described,
  fieldsOf,
  orFault,
  parseBy,
  parseExplained,
  type AdminAnswer,
  type DescribedRequest,
} from './admin-request.ts';

/** Purges in flight at once: each one scans all of memory and Redis. */
const maxPurges = 4;

/** Reports the state of one process, and answers operators' requests with its cache, its nodes and its usage. */
export class ProcessOperations {
  readonly #parts: ProcessParts;
  readonly #windows = new Windows(performance.now());
  readonly #startedAtMs = Date.now();
  #timer: NodeJS.Timeout | undefined;
  #purges = 0;

  constructor(parts: ProcessParts) {
    this.#parts = parts;
  }

  /** Samples the metrics once a second from now on. */
  start(): void {
    this.#sample(performance.now());
    this.#timer = setInterval(() => this.#sample(performance.now()), 1_000).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  nodes(): readonly NodeStatus[] {
    return this.#parts.fleet.report().nodes;
  }

  readiness() {
    return readinessOf(this.#parts);
  }

  report() {
    const nowMs = performance.now();
    const total = this.#sample(nowMs);
    return { status: statusOf(this.#parts, this.#startedAtMs, this.#windows, total, nowMs) };
  }

  #sample(nowMs: number) {
    const counts = countsSinceStart(this.#parts);
    this.#windows.record(counts, nowMs, Date.now());
    return counts;
  }

  families(): Promise<readonly FamilyData[]> {
    return familiesOf(this.#parts.registry);
  }

  /** Purges memory, Redis and replicas. `request`: not parsed yet. `from`: the operator's address. */
  purge({ request, from }: { readonly request: unknown; readonly from: string }): Promise<AdminAnswer> {
    return answered(async () => {
      const scope = scopeOf(parsePurgeRequest(request), this.#parts);
      if (this.#purges >= maxPurges) throw new AdminFault(503, `${maxPurges} purges are in flight: try again`);
      this.#purges += 1;
      try {
        const { scope: text, ...purged } = await this.#parts.cache.purge(scope);
        this.#parts.cache.metrics.purged(scope.kind === 'versions' ? 'read' : scope.kind);
        const fields = { from, purge: text, ...purged };
        this.#parts.journal.record('purge', fields, 'purged', { what: scope.kind, memory: purged.memory });
        const { isComplete, ...counts } = purged;
        return { purged: scopeText(scope, text), complete: isComplete, ...counts };
      } finally {
        this.#purges -= 1;
      }
    });
  }

  /** Purges this process and the store: neither Redis nor other replicas. */
  purgeHere(request: unknown): Promise<AdminAnswer> {
    return answered(async () => {
      const scope = scopeOf(parsePurgeRequest(request), this.#parts);
      const { reads, isStoreClear } = await this.#parts.cache.purgeHere(scope);
      // Without the number the purge is not complete.
      return isStoreClear === false ? {} : { memory: reads };
    });
  }

  /** Drains or resumes a node in this process. */
  setDrained(request: { readonly upstream: string; readonly isDrained: boolean; readonly from: string }) {
    return answered(() => {
      const { upstream: name, isDrained, from } = request;
      const { fleet, journal } = this.#parts;
      const drained = fleet.drain(name, isDrained);
      if (drained === undefined) throw new AdminFault(404, 'no upstream of the config has this name');
      const { isNews, inFlight } = drained;
      const message = isDrained ? 'an operator drained the upstream' : 'an operator resumed the upstream';
      if (isNews) journal.record(isDrained ? 'node drained' : 'node resumed', { upstream: name, from }, message);
      return { upstream: name, isDrained, inFlight };
    });
  }

  explain(request: unknown): Promise<AdminAnswer> {
    return answered(() => explain(this.#parts, parseExplained(request)));
  }

  usage(request: unknown): Promise<AdminAnswer> {
    return answered(() => reportUsage(this.#parts.access?.usage, request, Date.now()));
  }

  keys(request: KeysRequest): Promise<AdminAnswer> {
    return orFault(() => answerKeys(this.#parts.access?.keys, request));
  }
}

function answered(serve: () => AdminAnswer['body'] | Promise<AdminAnswer['body']>): Promise<AdminAnswer> {
  return orFault(async () => ({ status: 200, body: await serve() }));
}

/** `text`: see `PurgeResult.scope`. */
function scopeText(scope: PurgeScope, text: string): string {
  switch (scope.kind) {
    case 'read':
      return `the read ${text.slice('read '.length)}`;
    case 'versions':
      return `every version of the read ${scope.read}`;
    case 'account':
      return `resources and modules of ${scope.address}, and all views, since a view may depend on any account`;
    case 'everything':
      return 'everything';
  }
}

const purgeForms = '{"read": {…}}, {"account": "0x…"}, {"everything": true}';

const purge = fieldsOf(
  {
    read: described.optional(),
    account: z.string({ error: 'must be an address as text' }).optional(),
    everything: z.literal(true, { error: 'must be true' }).optional(),
  },
  `a JSON object: one of ${purgeForms}`,
).refine((given) => Object.keys(given).length === 1, { error: `must have exactly one of ${purgeForms}` });

/** One of its fields is set. */
export type PurgeRequest = z.output<typeof purge>;

/** Parses the body of a purge. Throws `AdminFault` 400. */
export function parsePurgeRequest(value: unknown): PurgeRequest {
  return parseBy(purge, value, 'the body');
}

/** The scope in the cache. Throws `AdminFault`: 400, or 503 while no node has reported its chain. */
function scopeOf(request: PurgeRequest, parts: ProcessParts): PurgeScope {
  const { read, account = '', everything } = request;
  if (everything === true) return { kind: 'everything' };
  const { chainId } = parts.fleet;
  if (chainId === undefined) throw new AdminFault(503, 'no node has reported its chain yet: try again');
  if (read !== undefined) return scopeOfRead(read, chainId, parts);
  const address = Address.find(account);
  if (address === undefined) throw new AdminFault(400, `"account" is no address: ${quote(account)}`);
  return { kind: 'account', chainId, address };
}

function scopeOfRead(request: DescribedRequest, chainId: number, { routes, reads }: ProcessParts): PurgeScope {
  const parsed = parsedAs(request, routes);
  if (parsed.kind !== 'read') throw new AdminFault(400, 'answers to this request are never kept');
  const key = reads.reader.keyOf(parsed.read);
  if (key !== undefined) return { kind: 'read', key };
  return { kind: 'versions', read: cacheKey({ ...parsed.read, version: undefined, chainId }).page };
}

function parsedAs(request: DescribedRequest, routes: ProcessParts['routes']) {
  try {
    return routes.parse(request);
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    throw new AdminFault(400, `no read: a client would get ${error.status}, ${error.message}`);
  }
}
