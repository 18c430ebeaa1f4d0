/** State of the whole gateway: a word, a sentence, and its problems. */
import type { OverallState, GatewayStatus, ProcessStatus } from './facts.ts';
import { requestTimes, totalOf } from './counts.ts';
import { percent, short } from './format.ts';
import { byProblem, nodeTroubles } from './wording.ts';

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

interface Overall {
  readonly state: OverallState;
  readonly summary: string;
  readonly problems: readonly string[];
}

/** The overall state; `status` is `undefined` while no process answers. */
export function overall(status: ProcessStatus | undefined, gateway: GatewayStatus): Overall {
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
    problems.push(`${upstreams.join(' and ')} answered ${reads(count)} differently`);
  }
  if (status.distrusted.length > 0) problems.push(`nodes encode ${functions(status.distrusted.length)} differently`);
  if (status.load.isOverloaded)
    problems.push('the event loop is late: signing messages, and reads that memory does not hold, are refused');
  const troubles = status.nodes.toSorted(byProblem).flatMap(nodeTroubles);
  problems.push(...troubles.map(({ problem }) => problem), ...problemsOfRequests(status));
  if (status.store?.trouble !== undefined) problems.push(`store: ${status.store.trouble}`);
  if (status.redis?.trouble !== undefined) problems.push(`Redis: ${status.redis.trouble}`);
  if (reload?.result === 'refused') problems.push('the last config was refused');
  const { certificateExpiresMs: expiresMs } = status;
  if (expiresMs !== undefined && expiresMs - nowMs < certificateMs) {
    problems.push(`the certificate ${expiresMs < nowMs ? 'ended' : 'ends'} ${new Date(expiresMs).toISOString()}`);
  }
  return problems;
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

function reads(count: number): string {
  return count === 1 ? 'a pinned read' : `${count} pinned reads`;
}

function functions(count: number): string {
  return count === 1 ? 'a function' : `${count} functions`;
}
