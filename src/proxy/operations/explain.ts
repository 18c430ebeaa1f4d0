/** Explains the gateway's answer to a request, and the state that decides it. Asks no node and changes no state. */
import { type CachedResponse, kinds } from '../../cache/index.ts';
import { lifetimeOf, isOfLatest, type Read, type SharedRead } from '../reads/index.ts';
import type { LedgerVersion } from '../../ledger/index.ts';
import type { Need } from '../../upstream/index.ts';
import type { DescribedRequest } from './admin-request.ts';
import type { ParsedRequest } from '../routes/index.ts';
import type { ProcessParts } from './status/report.ts';

type Match = Exclude<ParsedRequest, { kind: 'refused' }>['match'];

/** Body of the answer: plain data, 64-bit numbers as text. */
type RequestExplanation = Readonly<Record<string, unknown>>;

/** Explains a described request. */
export async function explain(parts: ProcessParts, request: DescribedRequest): Promise<RequestExplanation> {
  const parsed = parts.routes.parse(request);
  if (parsed.kind === 'refused') {
    const { status, body } = parsed.error;
    return { answer: { status, body: JSON.parse(body) as unknown } };
  }
  const { match } = parsed;
  const route = match.route.name;
  switch (parsed.kind) {
    case 'read':
    case 'wait':
      return isOfLatest(parsed.read) ? latestRead(parts, route, parsed.read) : pinnedRead(parts, route, parsed.read);
    case 'shared':
      return { route, kept: sharedTexts[parsed.shared], ...nodesFor(parts, { kind: 'head' }, 'read') };
    case 'passed':
      return passed(parts, match);
    case 'ledger info':
      return { route, kept: 'never: made anew from reports of nodes', latest: latestOf(parts) };
    case 'submission':
      return { route, kept: 'never: one node is asked, once', ...nodesFor(parts, { kind: 'head' }) };
    case 'preflight':
      return { route, kept: 'never: answered here' };
  }
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
async function latestRead(parts: ProcessParts, route: string, read: Read): Promise<RequestExplanation> {
  const { maxStalenessMs } = parts.settings.latest;
  const version = pinOf(parts);
  const latest = latestOf(parts);
  if (version !== undefined)
    return { latest, ...(await pinnedRead(parts, route, parts.reads.freshness.pinned(read, version))) };
  const kept = maxStalenessMs === 0 ? 'never: each read goes to a node' : 'under the version that is found';
  return { route, read: readOf(read), latest, kept, ...nodesFor(parts, { kind: 'head' }, kindOf(read)) };
}

/** The version that reads of the latest state share; `undefined`: none is known, or they share none. */
function pinOf({ fleet, settings }: ProcessParts): LedgerVersion | undefined {
  return settings.latest.maxStalenessMs === 0 ? undefined : fleet.latest.peek()?.version;
}

function latestOf({ fleet, settings }: ProcessParts): RequestExplanation {
  const { maxStalenessMs } = settings.latest;
  const bound = `${maxStalenessMs} ms`;
  if (maxStalenessMs === 0) return { state: 'not shared: latest.maxStaleness is 0' };
  const found = fleet.latest.peek();
  if (found === undefined) return { state: 'unknown: a node is asked for its ledger first', bound };
  const { version, ageMs, isUsable } = found;
  return {
    state: isUsable ? 'in use' : 'too old: a node is asked for its ledger first, and the version may be a later one',
    version: String(version),
    ageMs: Math.round(ageMs),
    bound,
  };
}

function passed(parts: ProcessParts, { route: { name: route }, need, isReadOfLatest }: Match): RequestExplanation {
  const isEncoding = route === 'encode_submission';
  const kept = isEncoding ? 'never: encoded here, or by a node' : 'never: passed through';
  if (!isReadOfLatest) return { route, kept, ...nodesFor(parts, need) };
  const version = pinOf(parts);
  const pinned: Need = version === undefined ? { kind: 'head' } : { kind: 'version', version };
  return { route, kept, latest: latestOf(parts), ...nodesFor(parts, pinned, 'read') };
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
