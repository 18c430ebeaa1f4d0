/** Words, signs and tones of states, for the page and the terminal alike. */
import { readClasses, type Level } from './event-kinds.ts';
import { duration } from './format.ts';
import type { NodeStatus, OverallState } from './facts.ts';

/** Tone of a colour on the page and in a terminal. */
export type NodeTone = 'good' | 'warn' | 'bad' | 'idle';

/** The facts of a node that its state follows from. */
type NodeCondition = Pick<
  NodeStatus,
  'name' | 'state' | 'reason' | 'isDrained' | 'forkedAt' | 'isSuspect' | 'warning' | 'isLagging' | 'lag' | 'ejected'
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
  const { name, state, reason, isDrained, forkedAt, isSuspect, warning, isLagging, lag } = node;
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
  return [
    ...(warning === undefined ? [] : one('warn', '▲', 'several nodes', `${name}: ${warning}`)),
    ...(isLagging ? one('warn', '▲', 'behind', `${name} is ${lag} versions behind, more than upstream.maxLag`) : []),
    ...(out.length === 0 ? [] : one('warn', '▲', 'passed over', `${name} is passed over for ${out.join(' and ')}`)),
  ];
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

/** Classes of reads with their reasons: `recent reads (timeout)`. */
export function ejectedClasses({ ejected }: Pick<NodeStatus, 'ejected'>): readonly string[] {
  return ejected.map(({ readClass, reason }) => `${readClasses[readClass] ?? readClass} (${reason})`);
}
