/** States of nodes and of the gateway, for the page and the command alike: words, signs, tones, and problems to act on. */
import { ejectionText } from '../../../metrics/index.ts';
import { bucketsOf, totalOf } from './counts.ts';
import { duration, grouped, percent, short } from './format.ts';
import type { GatewayStatus, NodeStatus, ProcessStatus } from './report.ts';

/** Tone of a colour on the page. */
type NodeTone = 'good' | 'warn' | 'bad' | 'idle';

/** State of a node as word, sign and tone; the sign makes it readable without colours. */
interface NodeWording {
  readonly word: string;
  readonly sign: string;
  readonly tone: NodeTone;
}

/** A problem, one step towards its end, and the alert whose section of the runbook has the others. */
interface Problem {
  readonly text: string;
  readonly remedy: string;
  readonly runbook: string;
}

function problem(text: string, remedy: string, alert: string): Problem {
  return { text, remedy, runbook: `Ledgergate${alert}` };
}

/** A state that needs an operator's attention; `text`: the predicate of a clause whose subject is the node. */
type NodeTrouble = NodeWording & Problem;

const signs = { idle: '○', bad: '◆', warn: '▲' };

/** The troubles of a node, worst first. Beside one that is more than a warning no other counts. */
function nodeTroubles(node: NodeStatus): readonly NodeTrouble[] {
  const { state, reason, isDrained, forkedAt, isSuspect, warning, lower, head, isLagging } = node;
  const troubles: NodeTrouble[] = [];
  type Tone = keyof typeof signs;
  const add = (tone: Tone, word: string, text: string, remedy: string, alert: string, sign = signs[tone]) => {
    troubles.push({ tone, sign, word, ...problem(text, remedy, alert) });
    return troubles;
  };
  const why = reason === undefined ? '' : `: ${reason}`;
  const ofReason = 'the runbook has a row for the reason';
  if (isDrained) {
    const word = state === 'usable' ? 'drained' : `drained, ${state}${why}`;
    return add('idle', word, 'is drained', 'ledgergate resume gives it requests again', 'UpstreamDown');
  }
  if (state === 'down') return add('bad', `down${why}`, `is down${why}`, ofReason, 'UpstreamDown', '■');
  if (state === 'foreign')
    return add('bad', 'other chain', `is not asked${why}`, 'correct its address, or chainId', 'UpstreamUntrusted');
  if (state === 'unproven')
    return add('idle', `unproven${why}`, `has not answered yet${why}`, ofReason, 'UpstreamDown');
  if (forkedAt !== undefined) {
    const history = `has another history than others from version ${forkedAt} on`;
    return add('bad', 'forked', history, 'drain the side that is wrong', 'UpstreamForked');
  }
  if (isSuspect) {
    const contradicted = 'reports a head that the other nodes contradict';
    return add('bad', 'contradicted', contradicted, 'check its sync; it is asked last', 'UpstreamUntrusted');
  }
  if (lower !== undefined) {
    const back = `reports ledger version ${lower}, and reported ${head} before`;
    add('warn', 'went back', back, 'if it was restored, drain it until it has caught up', 'UpstreamLagging');
  }
  if (warning !== undefined) {
    const remedy = 'list each node, or set discover: dns';
    add('warn', 'several nodes', `is no single node: ${warning}`, remedy, 'UpstreamSharedAddress');
  }
  if (isLagging) {
    const behind = `is ${lagOf(node)}, more than upstream.maxLag`;
    add('warn', 'behind', behind, 'check its sync and peers', 'UpstreamLagging');
  }
  const out = ejectedClasses(node).join(' and ');
  const remedy = 'fix the node; the others answer in its place';
  if (out !== '') add('warn', 'passed over', `is passed over for ${out}`, remedy, 'UpstreamEjected');
  return troubles;
}

/** How far a node is behind, time first: `60 s behind (11.4k versions)`. */
export function lagOf({ lag = '0', lagSeconds }: Pick<NodeStatus, 'lag' | 'lagSeconds'>): string {
  const versions = `${short(Number(lag))} ${lag === '1' ? 'version' : 'versions'}`;
  return `${lagSeconds < 10 ? `${lagSeconds} s` : duration(lagSeconds)} behind (${versions})`;
}

/** The worst trouble of a node, or that it is usable. */
export function nodeState(node: NodeStatus): NodeWording {
  return nodeTroubles(node)[0] ?? { word: 'usable', sign: '●', tone: 'good' };
}

/** Order of nodes by tone: problems first. */
const toneRanks: Readonly<Record<NodeTone, number>> = { bad: 0, warn: 1, idle: 2, good: 3 };

/** The order of two nodes by their states: problems first; 0: equally good. */
export function byProblem(one: NodeStatus, other: NodeStatus): number {
  return toneRanks[nodeState(one).tone] - toneRanks[nodeState(other).tone];
}

/** How long a node is not usable: `for 5 min`; `undefined`: it is usable. `at`: now, as `since` an ISO time. */
export function unusableFor({ since }: Pick<NodeStatus, 'since'>, at: string): string | undefined {
  return since === undefined ? undefined : `for ${duration((Date.parse(at) - Date.parse(since)) / 1_000)}`;
}

/** Sign, tone and a sentence of each overall state; `degraded`: it serves, with problems. */
export const overallStates = {
  ready: { sign: '●', tone: 'good', summary: 'All is well.' },
  degraded: { sign: '▲', tone: 'warn', summary: 'The gateway serves, with problems.' },
  outage: {
    sign: '■',
    tone: 'bad',
    summary:
      'No node answers: the cache answers pinned reads, other requests fail. Do not restart: a gateway that starts without a node answers nothing.',
  },
  starting: { sign: '○', tone: 'idle', summary: 'No node has answered yet.' },
  draining: { sign: '◇', tone: 'idle', summary: 'The gateway drains: it finishes the requests in flight.' },
} as const;

type OverallState = keyof typeof overallStates;

/** Sign, tone and name of a level. */
export const levels = {
  info: { sign: '●', tone: 'idle', word: 'information' },
  warn: { sign: '▲', tone: 'warn', word: 'warning' },
  error: { sign: '■', tone: 'bad', word: 'error' },
} as const;

/** Classes of reads with their reasons. */
export function ejectedClasses({ ejected }: Pick<NodeStatus, 'ejected'>): readonly string[] {
  return ejected.map(({ readClass, reason, symptom }) => ejectionText(readClass, reason, symptom));
}

/** A certificate with less left is a problem. */
const certificateMs = 7 * 24 * 3_600_000;

/** Shares of requests with a status that are a problem, and so many of them. */
const limits = [
  ['503', 0.01, 10, 'end the other problems first; the runbook has their kinds', 'ErrorsFast'],
  ['410', 0.05, 20, 'they ask below every window: add a deeper node, or inform their senders', 'WindowShrinking'],
] as const;

/** The overall state; `status` is `undefined` while no process answers. */
export function overall(status: ProcessStatus | undefined, gateway: GatewayStatus) {
  const problems = problemsOf(status, gateway);
  const state = stateOf(status, gateway, problems.length);
  const isSilent = status === undefined && state === 'starting';
  const summary = isSilent ? 'No worker has reported in time.' : overallStates[state].summary;
  return { state, summary, problems: problems.map(({ text }) => text), actions: problems };
}

function stateOf(status: ProcessStatus | undefined, { isDraining }: GatewayStatus, problems: number): OverallState {
  if (isDraining) return 'draining';
  if (status?.isReady !== true) return status?.outage === undefined ? 'starting' : 'outage';
  return problems === 0 ? 'ready' : 'degraded';
}

/** Problems that an operator can act on, worst first. */
function problemsOf(status: ProcessStatus | undefined, { reload, workers, nowMs }: GatewayStatus): readonly Problem[] {
  const problems: Problem[] = [];
  const add = (text: string, remedy: string, alert: string): void => {
    problems.push(problem(text, remedy, alert));
  };
  if (workers !== undefined && workers.answering < workers.wanted) {
    const remedy = 'lost ones are started again; the log has the reason';
    add(`${workers.answering} of ${workers.wanted} workers answer`, remedy, 'Restarts');
  }
  if (status === undefined) return problems;
  for (const { upstreams, count } of status.disagreements) {
    const reads = count === 1 ? 'a pinned read' : `${count} pinned reads`;
    const remedy = 'drain the node that a third contradicts';
    add(`${upstreams.join(' and ')} answered ${reads} differently`, remedy, 'NodesDisagree');
  }
  const distrusted = status.distrusted.length;
  if (distrusted > 0) {
    const functions = distrusted === 1 ? 'a function' : `${distrusted} functions`;
    add(`nodes encode ${functions} differently`, 'find the side that is wrong, and update it', 'EncodeMismatch');
  }
  if (status.load.isOverloaded) {
    const text = 'the event loop is late: signing messages, and reads that memory does not hold, are refused';
    add(text, 'more workers or replicas', 'Shedding');
  }
  const { lost } = status;
  if (lost !== undefined) {
    const range = `versions ${grouped(lost.from)} to ${grouped(lost.to)}`;
    const text = `${range} cannot be read without ${listed(lost.upstreams)}, unless they are cached`;
    add(text, 'bring these nodes back, or add others as deep', 'HistoryLost');
  }
  problems.push(...problemsOfNodes(status.nodes), ...problemsOfRequests(status));
  const { store, redis, certificateRefused, certificateExpiresMs: expiresMs } = status;
  if (store?.trouble !== undefined)
    add(`store: ${store.trouble}`, 'reads go on without it: mend disk or folder', 'StoreDown');
  if (redis?.trouble !== undefined) {
    const isReadable = redis.trouble.startsWith('takes no writes');
    const remedy = 'reads go on without it: mend Redis, its address or the user';
    add(`Redis: ${redis.trouble}`, remedy, isReadable ? 'RedisRefusesWrites' : 'RedisDown');
  }
  if (reload?.result === 'refused') {
    const text = `the last config was refused${placesOf(reload.refused)}`;
    add(text, 'correct the file (ledgergate check FILE); a restart before that fails', 'ConfigRefused');
  }
  if (certificateRefused !== undefined) {
    const text = `new certificate files were refused, the old ones stay: ${certificateRefused}`;
    add(text, 'put a valid pair in their place', 'CertificateExpires');
  }
  for (const pending of status.pendingRenewals) {
    const remedy = 'correct the secret or file, or make the server take it; the ones before are in use meanwhile';
    add(`renewed credentials are not in use toward ${pending}`, remedy, 'RenewalPending');
  }
  if (expiresMs !== undefined && expiresMs - nowMs < certificateMs) {
    const text = `the certificate ${expiresMs < nowMs ? 'ended' : 'ends'} ${new Date(expiresMs).toISOString()}`;
    add(text, 'renew it; the gateway takes new files without a restart', 'CertificateExpires');
  }
  return problems;
}

/** Problems of nodes, those with the same predicate as one. */
function problemsOfNodes(nodes: readonly NodeStatus[]): readonly Problem[] {
  const troubles = nodes
    .toSorted(byProblem)
    .flatMap((node) => nodeTroubles(node).map((found) => ({ name: node.name, found })));
  return [...Map.groupBy(troubles, ({ found }) => found.text).values()].flatMap((same) => {
    const names = same.map(({ name }) => name);
    return same.slice(0, 1).map(({ name, found: { text, remedy, runbook } }) => ({
      text: names.length === 1 ? `${name} ${text}` : `${names.length} nodes ${plural(text)} (${listed(names)})`,
      remedy,
      runbook,
    }));
  });
}

const plurals: Readonly<Record<string, string>> = { is: 'are', has: 'have', reports: 'report' };

function plural(predicate: string): string {
  return predicate.replace(/^\w+/, (verb) => plurals[verb] ?? verb);
}

/** Names in a sentence. */
const mostNames = 6;

function listed(names: readonly string[]): string {
  const first = names.slice(0, mostNames).join(', ');
  return names.length > mostNames ? `${first} and ${names.length - mostNames} more` : first;
}

function placesOf([first, ...others]: readonly string[] = []): string {
  if (first === undefined) return '';
  return `: ${first}${others.length === 0 ? '' : `, and ${others.length} more`}`;
}

/** Problems that the requests of the window of 100 s show. */
function problemsOfRequests({ windows, nodes }: ProcessStatus): readonly Problem[] {
  const { counts, seconds } = windows[1] ?? { counts: new Map<string, number>(), seconds: 0 };
  const all = totalOf(bucketsOf(counts, 'requests'));
  const shares = limits.flatMap(([status, share, least, remedy, alert]) => {
    const count = counts.get(`status ${status}`) ?? 0;
    if (count < least || count < all * share) return [];
    return [problem(`${percent(count / all)} of requests in ${seconds} s got ${status}`, remedy, alert)];
  });
  const spent = nodes.flatMap(({ name }) => {
    const count = counts.get(`allowance ${name}`) ?? 0;
    const text = `the allowance of ${name} is used up: ${short(count)} refused in ${seconds} s`;
    return count === 0 ? [] : [problem(text, 'raise maxRequestsPerSecond, or add nodes', 'UpstreamAllowanceUsedUp')];
  });
  return [...shares, ...spent];
}
