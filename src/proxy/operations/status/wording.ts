/** Words, signs and tones of states, for the page and the terminal alike. */
import { readClasses, type Level } from './event-kinds.ts';
import { duration } from './format.ts';
import type { NodeStatus, OverallState } from './facts.ts';

/** Tone of a colour on the page and in a terminal. */
export type NodeTone = 'good' | 'warn' | 'bad' | 'idle';

/** State of a node as word, sign and tone; the sign makes it readable without colours. */
export function nodeState({
  state,
  reason,
  isDrained,
  forkedAt,
  isSuspect,
  warning,
  isLagging,
  ejected,
}: Pick<
  NodeStatus,
  'state' | 'reason' | 'isDrained' | 'forkedAt' | 'isSuspect' | 'warning' | 'isLagging' | 'ejected'
>): {
  readonly word: string;
  readonly sign: string;
  readonly tone: NodeTone;
} {
  const why = reason === undefined ? '' : `: ${reason}`;
  if (isDrained) return { word: state === 'usable' ? 'drained' : `drained, ${state}${why}`, sign: '○', tone: 'idle' };
  if (state === 'down') return { word: `down${why}`, sign: '■', tone: 'bad' };
  if (state === 'foreign') return { word: 'other chain', sign: '◆', tone: 'bad' };
  if (state === 'unproven') return { word: `unproven${why}`, sign: '○', tone: 'idle' };
  if (forkedAt !== undefined) return { word: 'forked', sign: '◆', tone: 'bad' };
  if (isSuspect) return { word: 'contradicted', sign: '◆', tone: 'bad' };
  if (warning !== undefined) return { word: 'several nodes', sign: '▲', tone: 'warn' };
  if (isLagging) return { word: 'behind', sign: '▲', tone: 'warn' };
  if (ejected.length > 0) return { word: 'passed over', sign: '▲', tone: 'warn' };
  return { word: 'usable', sign: '●', tone: 'good' };
}

/** Order of nodes by tone: problems first. */
const toneRanks: Readonly<Record<NodeTone, number>> = { bad: 0, warn: 1, idle: 2, good: 3 };

/** The order of two nodes by their states: problems first; 0: equally good. */
export function byProblem(one: Parameters<typeof nodeState>[0], other: Parameters<typeof nodeState>[0]): number {
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

/** Classes of reads with their reasons: `recent reads (timeout)`. */
export function ejectedClasses({ ejected }: Pick<NodeStatus, 'ejected'>): readonly string[] {
  return ejected.map(({ readClass, reason }) => `${readClasses[readClass] ?? readClass} (${reason})`);
}
