/** Explains the gateway's answer to a request, and the state that decides it. Asks no node and changes no state. */
import type { Access } from '../../access/index.ts';
import { type CachedResponse, kinds } from '../../cache/index.ts';
import { GatewayError, type LedgerVersion, nearMissHint } from '../../ledger/index.ts';
import type { Need } from '../../upstream/index.ts';
import {
  type BoundedRead,
  type ExplainedBound,
  lifetimeOf,
  isOfLatest,
  type Read,
  type SharedRead,
} from '../reads/index.ts';
import type { ParsedRequest } from '../routes/index.ts';
import { AdminFault, type ExplainedRequest } from './admin-request.ts';
import type { ProcessParts } from './status/report.ts';

/** Body of the answer: plain data, 64-bit numbers as text. */
type Explanation = Readonly<Record<string, unknown>>;

type Plan = NonNullable<ReturnType<Access['planOf']>>;

/** Explains a described request. Throws `AdminFault` 400 for a plan that the config lacks. */
export async function explain(parts: ProcessParts, request: ExplainedRequest): Promise<Explanation> {
  const plan = planOf(parts, request);
  const boundOf = (read: BoundedRead) => parts.reads.freshness.explainBound(read, plan, request.maxStaleness);
  try {
    const parsed = parts.routes.parse({ ...request, isRestricted: plan?.views !== undefined });
    const fault = plan && faultOfView(parts, plan, parsed);
    if (fault !== undefined) throw fault;
    return await explainParsed(parts, parsed, boundOf);
  } catch (error) {
    if (error instanceof GatewayError) return refusal(error);
    throw error;
  }
}

/** The plan of the described client; `undefined`: it needs none. */
function planOf({ access }: ProcessParts, { plan: name }: ExplainedRequest): Plan | undefined {
  const plan = access?.planOf(name);
  if (name !== undefined && plan === undefined)
    throw new AdminFault(400, `plan: there is none of this name${nearMissHint(name, access?.plans ?? [])}`);
  return plan;
}

/** 403 for a view that the plan does not admit. */
function faultOfView({ access }: ProcessParts, plan: Plan, parsed: ParsedRequest): GatewayError | undefined {
  const read = parsed.kind === 'read' ? parsed.read : undefined;
  const isView = read === undefined ? parsed.match.mayBeView : read.operation === 'view';
  return isView ? access?.faultOfView(plan, read?.functionId) : undefined;
}

function refusal({ status, body }: GatewayError): Explanation {
  return { answer: { status, body: JSON.parse(body) as unknown } };
}

/** `boundOf`: the staleness bound of the described client. Throws `GatewayError` 400 for a malformed header. */
async function explainParsed(
  parts: ProcessParts,
  parsed: ParsedRequest,
  boundOf: (read: BoundedRead) => ExplainedBound,
): Promise<Explanation> {
  const { match } = parsed;
  const route = match.route.name;
  const boundOfRoute = () => boundOf({ operation: route });
  switch (parsed.kind) {
    case 'read':
    case 'wait': {
      const { read } = parsed;
      return isOfLatest(read) ? latestRead(parts, route, read, boundOf(read)) : pinnedRead(parts, route, read);
    }
    case 'shared': {
      const { shared } = parsed;
      const latest = shared === 'latest' ? latestOf(parts, boundOfRoute()) : undefined;
      return { route, kept: sharedTexts[shared], latest, ...nodesFor(parts, { kind: 'head' }, 'read') };
    }
    case 'passed':
      return passed(parts, match, match.isReadOfLatest ? boundOfRoute() : undefined);
    case 'ledger info':
      return { route, kept: 'never: made anew from reports of nodes', latest: latestOf(parts, boundOfRoute()) };
    case 'submission':
      return { route, kept: 'never: one node is asked, once', ...nodesFor(parts, { kind: 'head' }) };
    case 'health':
    case 'usage':
    case 'preflight':
      return { route, kept: 'never: answered here' };
  }
}

async function pinnedRead(parts: ProcessParts, route: string, read: Read): Promise<Explanation> {
  const { fleet, cache, reads } = parts;
  const key = reads.reader.keyOf(read);
  const head = { route, read: readOf(read), kept: keptOf(read, fleet.head?.version) };
  const nodes = nodesFor(parts, read.need, read.atOnce === undefined ? kindOf(read) : undefined);
  if (key === undefined) return { ...head, key: 'none yet: no node has reported its chain', ...nodes };
  const { names, memory, store, redis = { reference: 'off' } } = await cache.tiers.inspect(key);
  const held = memory === undefined ? { state: 'absent' } : heldOf(memory);
  return { ...head, key: names, memory: held, store: { state: store }, redis, ...nodes };
}

/** Explains an unpinned read at the version that the gateway would pin it to now. */
async function latestRead(parts: ProcessParts, route: string, read: Read, bound: ExplainedBound): Promise<Explanation> {
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

function latestOf({ fleet }: ProcessParts, { maxStalenessMs, by }: ExplainedBound): Explanation {
  const held = { bound: `${maxStalenessMs} ms`, by };
  if (maxStalenessMs === 0) return { state: 'not shared: the bound is 0', ...held };
  const found = fleet.latest.peek(maxStalenessMs);
  if (found === undefined) return { state: 'unknown: a node is asked for its ledger first', ...held };
  const { version, ageMs, isUsable } = found;
  const old = 'too old: a node is asked for its ledger first, and the version may be a later one';
  return { state: isUsable ? 'in use' : old, version: String(version), ageMs: Math.round(ageMs), ...held };
}

/** `bound`: of a read of the latest state. */
function passed(parts: ProcessParts, match: ParsedRequest['match'], bound: ExplainedBound | undefined): Explanation {
  const route = match.route.name;
  const kept = route === 'encode_submission' ? 'never: encoded here, or by a node' : 'never: passed through';
  if (bound === undefined) return { route, kept, ...nodesFor(parts, match.need) };
  const version = pinOf(parts, bound);
  const pinned: Need = version === undefined ? { kind: 'head' } : { kind: 'version', version };
  return { route, kept, latest: latestOf(parts, bound), ...nodesFor(parts, pinned, 'read') };
}

/** `kind`: of a read of state, for which nodes may be ejected. */
function nodesFor({ fleet, settings }: ProcessParts, need: Need, kind?: 'read' | 'view'): Explanation {
  return { nodes: { ...fleet.explain(need, kind), maxAttempts: settings.sender.maxAttempts } };
}

function kindOf({ operation }: Read): 'read' | 'view' {
  return operation === 'view' ? 'view' : 'read';
}

function readOf({ operation, subject, version, form }: Read): Explanation {
  return { operation, subject, version: version?.toString(), form };
}

function heldOf({ body, digest, status, lifetimeMs, coded }: CachedResponse): Explanation {
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
  const isAhead = version !== undefined && head !== undefined && version > head;
  return isAhead ? `${kept}. Nothing while no node has reached the version: the head is ${head}` : kept;
}
