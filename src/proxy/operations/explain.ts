/** Explains the gateway's answer to a request, and the state that decides it. Asks no node and changes no state. */
import type { Access } from '../../access/index.ts';
import { type CachedResponse, kinds } from '../../cache/index.ts';
import {
  type BoundedRead,
  type ExplainedBound,
  lifetimeOf,
  isOfLatest,
  type Read,
  type SharedRead,
} from '../reads/index.ts';
import { GatewayError, type LedgerVersion, nearMissHint } from '../../ledger/index.ts';
import type { Need } from '../../upstream/index.ts';
import { AdminFault, type ExplainedRequest } from './admin-request.ts';
import type { ParsedRequest } from '../routes/index.ts';
import type { ProcessParts } from './status/report.ts';

/** Body of the answer: plain data, 64-bit numbers as text. */
type RequestExplanation = Readonly<Record<string, unknown>>;

/** Explains a described request. Throws `AdminFault` 400 for a plan that the config lacks. */
export async function explain(parts: ProcessParts, request: ExplainedRequest): Promise<RequestExplanation> {
  const plan = planOf(parts, request);
  const parsed = parts.routes.parse({ ...request, isRestricted: plan?.views !== undefined });
  if (parsed.kind === 'refused') return refusal(parsed.error);
  const fault = plan && faultOfView(parts, plan, parsed);
  if (fault !== undefined) return refusal(fault);
  try {
    return await explainParsed(parts, request, parsed);
  } catch (error) {
    if (error instanceof GatewayError) return refusal(error);
    throw error;
  }
}

type Plan = NonNullable<ReturnType<Access['planOf']>>;

/** The plan of the described client; `undefined`: it needs none. */
function planOf({ access }: ProcessParts, { plan: name }: ExplainedRequest): Plan | undefined {
  const plan = access?.planOf(name);
  if (name !== undefined && plan === undefined)
    throw new AdminFault(400, `plan: there is none of this name${nearMissHint(name, access?.plans ?? [])}`);
  return plan;
}

/** 403 for a view that the plan does not admit. */
function faultOfView({ access }: ProcessParts, plan: Plan, parsed: Parsed): GatewayError | undefined {
  const read = parsed.kind === 'read' ? parsed.read : undefined;
  const isView = read === undefined ? parsed.match.mayBeView : read.operation === 'view';
  return isView ? access?.faultOfView(plan, read?.functionId) : undefined;
}

function refusal({ status, body }: GatewayError): RequestExplanation {
  return { answer: { status, body: JSON.parse(body) as unknown } };
}

type Parsed = Exclude<ParsedRequest, { kind: 'refused' }>;

async function explainParsed(
  parts: ProcessParts,
  request: ExplainedRequest,
  parsed: Parsed,
): Promise<RequestExplanation> {
  const { match } = parsed;
  const route = match.route.name;
  const ofRoute = { operation: route };
  switch (parsed.kind) {
    case 'read':
    case 'wait': {
      const { read } = parsed;
      if (!isOfLatest(read)) return pinnedRead(parts, route, read);
      return latestRead(parts, route, read, boundOf(parts, request, read));
    }
    case 'shared': {
      const kept = sharedTexts[parsed.shared];
      const latest = parsed.shared === 'latest' ? latestOf(parts, boundOf(parts, request, ofRoute)) : undefined;
      return { route, kept, latest, ...nodesFor(parts, { kind: 'head' }, 'read') };
    }
    case 'passed':
      return passed(parts, match, match.isReadOfLatest ? boundOf(parts, request, ofRoute) : undefined);
    case 'ledger info': {
      const latest = latestOf(parts, boundOf(parts, request, ofRoute));
      return { route, kept: 'never: made anew from reports of nodes', latest };
    }
    case 'submission':
      return { route, kept: 'never: one node is asked, once', ...nodesFor(parts, { kind: 'head' }) };
    case 'health':
    case 'usage':
    case 'preflight':
      return { route, kept: 'never: answered here' };
  }
}

/** The staleness bound of a client of the described plan. Throws `GatewayError` 400 for a malformed header. */
function boundOf(parts: ProcessParts, request: ExplainedRequest, read: BoundedRead): ExplainedBound {
  return parts.reads.freshness.explainBound(read, planOf(parts, request), request.maxStaleness);
}

async function pinnedRead(parts: ProcessParts, route: string, read: Read): Promise<RequestExplanation> {
  const { fleet, cache, reads } = parts;
  const key = reads.reader.keyOf(read);
  const head = { route, read: readOf(read), kept: keptOf(read, fleet.head?.version) };
  const nodes = nodesFor(parts, read.need, read.atOnce === undefined ? kindOf(read) : undefined);
  if (key === undefined) return { ...head, key: 'none yet: no node has reported its chain', ...nodes };
  const { names, memory, store, redis } = await cache.tiers.inspect(key);
  return {
    ...head,
    key: names,
    memory: memory === undefined ? { state: 'absent' } : heldOf(memory),
    store: { state: store },
    redis: redis === undefined ? { reference: 'off' } : redis,
    ...nodes,
  };
}

/** Explains an unpinned read at the version that the gateway would pin it to now. */
async function latestRead(
  parts: ProcessParts,
  route: string,
  read: Read,
  bound: ExplainedBound,
): Promise<RequestExplanation> {
  const version = pinOf(parts, bound);
  const latest = latestOf(parts, bound);
  if (version !== undefined)
    return { latest, ...(await pinnedRead(parts, route, parts.reads.freshness.pinned(read, version))) };
  const kept = bound.maxStalenessMs === 0 ? 'never: each read goes to a node' : 'under the version that is found';
  return { route, read: readOf(read), latest, kept, ...nodesFor(parts, { kind: 'head' }, kindOf(read)) };
}

/** The version that reads with this bound share; `undefined`: none is known, or they share none. */
function pinOf({ fleet }: ProcessParts, { maxStalenessMs }: ExplainedBound): LedgerVersion | undefined {
  return maxStalenessMs === 0 ? undefined : fleet.latest.peek(maxStalenessMs)?.version;
}

function latestOf({ fleet }: ProcessParts, { maxStalenessMs, by }: ExplainedBound): RequestExplanation {
  const held = { bound: `${maxStalenessMs} ms`, by };
  if (maxStalenessMs === 0) return { state: 'not shared: the bound is 0', ...held };
  const found = fleet.latest.peek(maxStalenessMs);
  if (found === undefined) return { state: 'unknown: a node is asked for its ledger first', ...held };
  const { version, ageMs, isUsable } = found;
  return {
    state: isUsable ? 'in use' : 'too old: a node is asked for its ledger first, and the version may be a later one',
    version: String(version),
    ageMs: Math.round(ageMs),
    ...held,
  };
}

/** `bound`: of a read of the latest state. */
function passed(parts: ProcessParts, match: Parsed['match'], bound: ExplainedBound | undefined): RequestExplanation {
  const route = match.route.name;
  const isEncoding = route === 'encode_submission';
  const kept = isEncoding ? 'never: encoded here, or by a node' : 'never: passed through';
  if (bound === undefined) return { route, kept, ...nodesFor(parts, match.need) };
  const version = pinOf(parts, bound);
  const pinned: Need = version === undefined ? { kind: 'head' } : { kind: 'version', version };
  return { route, kept, latest: latestOf(parts, bound), ...nodesFor(parts, pinned, 'read') };
}

/** `kind`: of a read of state, for which nodes may be ejected. */
function nodesFor({ fleet, settings }: ProcessParts, need: Need, kind?: 'read' | 'view'): RequestExplanation {
  return { nodes: { ...fleet.explain(need, kind), maxAttempts: settings.sender.maxAttempts } };
}

function kindOf({ operation }: Read): 'read' | 'view' {
  return operation === 'view' ? 'view' : 'read';
}

function readOf({ operation, subject, version, form }: Read): RequestExplanation {
  return { operation, subject, version: version?.toString(), form };
}

function heldOf({ body, digest, status, lifetimeMs, coded }: CachedResponse): RequestExplanation {
  const codings = Object.fromEntries(Object.entries(coded).map(([coding, bytes]) => [coding, bytes.length]));
  return { state: 'held', status, bytes: body.length, digest, codings, isImmutable: lifetimeMs === Infinity };
}

const sharedTexts: Readonly<Record<SharedRead['shared'], string>> = {
  latest: 'in memory, while the shared latest version is the same',
  'gas price': 'in memory, for cache.gasPriceTtl',
  build: 'in memory, for 10 s',
};

function keptOf(read: Read, head: LedgerVersion | undefined): string {
  const { operation, version } = read;
  if (operation === 'transaction') return 'for 10 minutes once it is committed; never while it is pending or unknown';
  if (kinds[operation].class === 'history') {
    const time = lifetimeOf(read) === Infinity ? 'for ever' : 'for 10 minutes';
    return `${time} once all of it is below the head; never before`;
  }
  const missing = kinds[operation].notFound === undefined ? '' : ', and a 404 because it is not there';
  const kept = `for ever: a 200${missing}; nothing else`;
  return version !== undefined && head !== undefined && version > head
    ? `${kept}. Nothing while no node has reached the version: the head is ${head}`
    : kept;
}
