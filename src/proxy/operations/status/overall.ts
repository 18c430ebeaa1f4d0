/** State of the whole gateway: a word, a sentence, and its problems. */
import type { NodeStatus, OverallState, GatewayStatus, ProcessStatus } from './facts.ts';
import { ejectedClasses } from './wording.ts';

/** A certificate with less left is a problem. */
const certificateMs = 7 * 24 * 3_600_000;

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
  return { state, summary: summaries[state], problems };
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
  problems.push(...status.nodes.flatMap(problemsOfNode));
  if (status.redis?.trouble !== undefined) problems.push(`Redis: ${status.redis.trouble}`);
  if (reload?.result === 'refused') problems.push('the last config was refused');
  const { certificateExpiresMs: expiresMs } = status;
  if (expiresMs !== undefined && expiresMs - nowMs < certificateMs) {
    problems.push(`the certificate ${expiresMs < nowMs ? 'ended' : 'ends'} ${new Date(expiresMs).toISOString()}`);
  }
  return problems;
}

function problemsOfNode(node: NodeStatus): readonly string[] {
  const { name, state, reason, isSuspect } = node;
  const why = reason === undefined ? '' : `: ${reason}`;
  if (state === 'down') return [`${name} is down${why}`];
  if (state === 'foreign') return [`${name} is not asked${why}`];
  if (state === 'unproven') return [`${name} has not answered yet${why}`];
  if (isSuspect) return [`${name} reports a head that the other nodes contradict`];
  const out = ejectedClasses(node);
  return out.length === 0 ? [] : [`${name} is passed over for ${out.join(' and ')}`];
}

function reads(count: number): string {
  return count === 1 ? 'a pinned read' : `${count} pinned reads`;
}

function functions(count: number): string {
  return count === 1 ? 'a function' : `${count} functions`;
}
