/** States of nodes and of the gateway, for the page and the terminal alike: words, signs, tones, and problems to act on. */
import { requestTimes, totalOf } from './counts.ts';
import { ejectionReasons, readClasses, type Level } from './event-kinds.ts';
import type { GatewayStatus, NodeStatus, OverallState, ProcessStatus } from './facts.ts';
import { duration, grouped, percent, short } from './format.ts';

/** Tone of a colour on the page and in a terminal. */
export type NodeTone = 'good' | 'warn' | 'bad' | 'idle';

/** The facts of a node that its state follows from. */
type NodeCondition = Pick<
  NodeStatus,
  | 'name'
  | 'state'
  | 'reason'
  | 'isDrained'
  | 'forkedAt'
  | 'isSuspect'
  | 'warning'
  | 'lower'
  | 'head'
  | 'isLagging'
  | 'lag'
  | 'lagSeconds'
  | 'ejected'
>;

/** State of a node as word, sign and tone; the sign makes it readable without colours. */
interface NodeWording {
  readonly word: string;
  readonly sign: string;
  readonly tone: NodeTone;
}

/** A state that needs an operator's attention. */
interface NodeTrouble extends NodeWording {
  /** A clause for people. */
  readonly problem: string;
}

/** The troubles of a node, worst first. Beside one that is more than a warning no other counts. */
export function nodeTroubles(node: NodeCondition): readonly NodeTrouble[] {
  const { name, state, reason, isDrained, forkedAt, isSuspect, warning, lower, head, isLagging } = node;
  const why = reason === undefined ? '' : `: ${reason}`;
  const drained = state === 'usable' ? 'drained' : `drained, ${state}${why}`;
  if (isDrained) return one('idle', '○', drained, `${name} is drained: ledgergate resume ${name}`);
  if (state === 'down') return one('bad', '■', `down${why}`, `${name} is down${why}`);
  if (state === 'foreign') return one('bad', '◆', 'other chain', `${name} is not asked${why}`);
  if (state === 'unproven') return one('idle', '○', `unproven${why}`, `${name} has not answered yet${why}`);
  const history = `${name} has another history than others from version ${forkedAt} on`;
  if (forkedAt !== undefined) return one('bad', '◆', 'forked', history);
  if (isSuspect) return one('bad', '◆', 'contradicted', `${name} reports a head that the other nodes contradict`);
  const out = ejectedClasses(node);
  const back = `${name} reports ledger version ${lower}, and reported ${head} before`;
  return [
    ...(lower === undefined ? [] : one('warn', '▲', 'went back', back)),
    ...(warning === undefined ? [] : one('warn', '▲', 'several nodes', `${name}: ${warning}`)),
    ...(isLagging ? one('warn', '▲', 'behind', `${name} is ${lagOf(node)} behind, more than upstream.maxLag`) : []),
    ...(out.length === 0 ? [] : one('warn', '▲', 'passed over', `${name} is passed over for ${out.join(' and ')}`)),
  ];
}

/** How far a node is behind, time first: `60 s (11.4k versions)`. */
export function lagOf({ lag = '0', lagSeconds }: Pick<NodeStatus, 'lag' | 'lagSeconds'>): string {
  const versions = `${short(Number(lag))} ${lag === '1' ? 'version' : 'versions'}`;
  return `${lagSeconds < 10 ? `${lagSeconds} s` : duration(lagSeconds)} (${versions})`;
}

function one(tone: NodeTone, sign: string, word: string, problem: string): readonly NodeTrouble[] {
  return [{ word, sign, tone, problem }];
}

/** The worst trouble of a node, or that it is usable. */
export function nodeState(node: NodeCondition): NodeWording {
  return nodeTroubles(node)[0] ?? { word: 'usable', sign: '●', tone: 'good' };
}

/** Order of nodes by tone: problems first. */
const toneRanks: Readonly<Record<NodeTone, number>> = { bad: 0, warn: 1, idle: 2, good: 3 };

/** The order of two nodes by their states: problems first; 0: equally good. */
export function byProblem(one: NodeCondition, other: NodeCondition): number {
  return toneRanks[nodeState(one).tone] - toneRanks[nodeState(other).tone];
}

/** How long a node is not usable: `for 5 min`; `undefined`: it is usable. `at`: now, as `since` an ISO time. */
export function unusableFor({ since }: Pick<NodeStatus, 'since'>, at: string): string | undefined {
  return since === undefined ? undefined : `for ${duration((Date.parse(at) - Date.parse(since)) / 1_000)}`;
}

/** The tone of an overall state. */
export const stateTones: Readonly<Record<OverallState, NodeTone>> = {
  ready: 'good',
  degraded: 'warn',
  outage: 'bad',
  starting: 'idle',
  draining: 'idle',
};

/** Sign, tone and name of a level. */
export const levels: Readonly<
  Record<Level, { readonly sign: string; readonly tone: NodeTone; readonly word: string }>
> = {
  info: { sign: '●', tone: 'idle', word: 'information' },
  warn: { sign: '▲', tone: 'warn', word: 'warning' },
  error: { sign: '■', tone: 'bad', word: 'error' },
};

/** Classes of reads with their reasons: `reads of recent state (errors in a row: status 500)`. */
export function ejectedClasses({ ejected }: Pick<NodeStatus, 'ejected'>): readonly string[] {
  return ejected.map(({ readClass, reason, symptom }) => {
    const why = ejectionReasons[reason] ?? reason;
    return `${readClasses[readClass] ?? readClass} (${symptom === undefined ? why : `${why}: ${symptom}`})`;
  });
}

/** A certificate with less left is a problem. */
const certificateMs = 7 * 24 * 3_600_000;

/** Shares of requests with a status that are a problem, and so many of them. */
const limits = [
  { status: '503', share: 0.01, least: 10 },
  { status: '410', share: 0.05, least: 20 },
] as const;

const summaries: Readonly<Record<OverallState, string>> = {
  ready: 'All is well.',
  degraded: 'The gateway serves, with problems.',
  outage: 'No node answers: the cache answers pinned reads, other requests fail.',
  starting: 'No node has answered yet.',
  draining: 'The gateway drains: it finishes the requests in flight.',
};

/** The overall state; `status` is `undefined` while no process answers. */
export function overall(status: ProcessStatus | undefined, gateway: GatewayStatus) {
  const problems = problemsOf(status, gateway);
  const state = stateOf(status, gateway, problems.length);
  const isSilent = status === undefined && state === 'starting';
  return { state, summary: isSilent ? 'No worker has reported in time.' : summaries[state], problems };
}

function stateOf(status: ProcessStatus | undefined, { isDraining }: GatewayStatus, problems: number): OverallState {
  if (isDraining) return 'draining';
  if (status?.isReady !== true) return status?.outage === undefined ? 'starting' : 'outage';
  return problems === 0 ? 'ready' : 'degraded';
}

/** Problems that an operator can act on, worst first. */
function problemsOf(status: ProcessStatus | undefined, { reload, workers, nowMs }: GatewayStatus): readonly string[] {
  const problems: string[] = [];
  if (workers !== undefined && workers.answering < workers.wanted) {
    problems.push(`${workers.answering} of ${workers.wanted} workers answer`);
  }
  if (status === undefined) return problems;
  for (const { upstreams, count } of status.disagreements) {
    const reads = count === 1 ? 'a pinned read' : `${count} pinned reads`;
    problems.push(`${upstreams.join(' and ')} answered ${reads} differently`);
  }
  const distrusted = status.distrusted.length;
  if (distrusted > 0)
    problems.push(`nodes encode ${distrusted === 1 ? 'a function' : `${distrusted} functions`} differently`);
  if (status.load.isOverloaded)
    problems.push('the event loop is late: signing messages, and reads that memory does not hold, are refused');
  const { lost } = status;
  if (lost !== undefined) {
    const range = `versions ${grouped(lost.from)} to ${grouped(lost.to)}`;
    problems.push(`${range} cannot be read without ${lost.upstreams.join(', ')}, unless they are cached`);
  }
  const troubles = status.nodes.toSorted(byProblem).flatMap(nodeTroubles);
  problems.push(...troubles.map(({ problem }) => problem), ...problemsOfRequests(status));
  if (status.store?.trouble !== undefined) problems.push(`store: ${status.store.trouble}`);
  if (status.redis?.trouble !== undefined) problems.push(`Redis: ${status.redis.trouble}`);
  if (reload?.result === 'refused') problems.push(`the last config was refused${placesOf(reload.refused)}`);
  if (status.certificateRefused !== undefined)
    problems.push(`new certificate files were refused, the old ones stay: ${status.certificateRefused}`);
  const { certificateExpiresMs: expiresMs } = status;
  if (expiresMs !== undefined && expiresMs - nowMs < certificateMs) {
    problems.push(`the certificate ${expiresMs < nowMs ? 'ended' : 'ends'} ${new Date(expiresMs).toISOString()}`);
  }
  return problems;
}

function placesOf([first, ...others]: readonly string[] = []): string {
  if (first === undefined) return '';
  return `: ${first}${others.length === 0 ? '' : `, and ${others.length} more`}`;
}

/** Problems that the requests of the window of 100 s show. */
function problemsOfRequests({ windows, nodes }: ProcessStatus): readonly string[] {
  const { counts, seconds } = windows[1] ?? { counts: new Map<string, number>(), seconds: 0 };
  const all = totalOf(requestTimes(counts, {}));
  const shares = limits.flatMap(({ status, share, least }) => {
    const count = counts.get(`status ${status}`) ?? 0;
    if (count < least || count < all * share) return [];
    return [`${percent(count / all)} of requests in ${seconds} s got ${status}`];
  });
  const spent = nodes.flatMap(({ name }) => {
    const count = counts.get(`allowance ${name}`) ?? 0;
    return count === 0 ? [] : [`the allowance of ${name} is used up: ${short(count)} refused in ${seconds} s`];
  });
  return [...shares, ...spent];
}
