/**
 * The standing audit of nodes: a share of the pinned reads that one node has answered is asked of a second one, behind
 * the client's back. A read is a pure function of request and version, so two final answers that differ prove that one
 * of the nodes is wrong.
 */
import { hash } from 'node:crypto';
import type { CacheKey } from '../../cache/key.ts';
import { decide } from '../../cache/policy.ts';
import type { AuditMetrics } from '../../metrics/upstream-metrics.ts';
import type { NodeAnswer } from '../../upstream/dispatch/exchange.ts';
import type { Sender } from '../../upstream/dispatch/sender.ts';
import type { Upstream } from '../../upstream/node/upstream.ts';
import { compareAnswers, firstDifference } from './compare-answers.ts';
import type { Read } from './read-result.ts';

/** A read whose answer is kept. */
export interface StoredAnswer {
  readonly read: Read;
  readonly key: CacheKey;
  readonly chainId: number;
  readonly answer: NodeAnswer;
}

/** Two nodes that gave different final answers to the same pinned reads, names in order. */
export interface Disagreement {
  readonly upstreams: readonly [string, string];
  readonly count: number;
  /** How often a third node contradicted each. */
  readonly lost: Readonly<Record<string, number>>;
  /** ISO 8601. */
  readonly last: string;
}

/** What people are told of two answers that differ; nothing of what was asked or answered. */
export interface AuditReport {
  readonly upstream: string;
  readonly other: string;
  readonly route: string;
  readonly version: bigint | undefined;
  readonly statuses: readonly number[];
  /** SHA-256 of the bodies, 32 digits. */
  readonly digests: readonly string[];
  readonly firstDifference: number;
  /** The third node that was asked, where one holds the version and answered. */
  readonly third: string | undefined;
  /** The one of the two that the third contradicts. */
  readonly loser: string | undefined;
}

export interface AuditsParts {
  readonly sender: Pick<Sender, 'another'>;
  readonly metrics: AuditMetrics;
  /** Share of the reads, 0 to 1. */
  readonly share: number;
  /** Whether nodes have something better to do. */
  readonly isBusy: () => boolean;
  /** Takes the read out of every tier. */
  readonly drop: (key: CacheKey) => Promise<void>;
  readonly onDisagreement: (report: AuditReport) => void;
  readonly random?: () => number;
}

/** Under way at once; bodies are held meanwhile. */
const maxAudits = 4;
const maxBytes = 1024 * 1024;
const timeoutMs = 10_000;

export class Audits {
  readonly #parts: AuditsParts;
  readonly #closing = new AbortController();
  /** By pair of names, of which a fleet has few. */
  readonly #disagreements = new Map<string, Disagreement>();
  #underWay = 0;

  constructor(parts: AuditsParts) {
    this.#parts = parts;
  }

  /** Who has disagreed with whom since the start. */
  get disagreements(): readonly Disagreement[] {
    return [...this.#disagreements.values()];
  }

  close(): void {
    this.#closing.abort(new Error('closing'));
  }

  /** Asks a second node, if it is this read's turn. Returns at once and never throws. */
  consider(stored: StoredAnswer): void {
    const { share, random = Math.random, metrics, isBusy } = this.#parts;
    if (share === 0 || random() >= share) return;
    if (this.#underWay >= maxAudits || stored.answer.body.length > maxBytes || isBusy()) {
      metrics.audited('skipped');
      return;
    }
    this.#underWay += 1;
    this.#audit(stored)
      .catch(() => metrics.audited('inconclusive'))
      .finally(() => {
        this.#underWay -= 1;
      });
  }

  async #audit(stored: StoredAnswer): Promise<void> {
    const { metrics, drop, onDisagreement } = this.#parts;
    const { answer: first, key } = stored;
    const second = await this.#ask(stored, [first.upstream]);
    if (second === 'no node') return metrics.audited('no second node');
    if (second === 'no answer') return metrics.audited('inconclusive');
    const comparison = compareAnswers(first, second);
    metrics.audited(comparison);
    if (comparison !== 'disagreement') return;
    // At once: what the third says decides who is to be looked at, not what is kept.
    const dropped = drop(key);
    const third = await this.#ask(stored, [first.upstream, second.upstream]).catch(() => 'no answer' as const);
    const vote = typeof third === 'string' ? undefined : third;
    const report = reportOf(stored, second, vote);
    this.#note(report);
    onDisagreement(report);
    await dropped;
  }

  /** Another node's final answer to the same read. */
  async #ask(
    { read, chainId }: StoredAnswer,
    notOf: readonly Upstream[],
  ): Promise<NodeAnswer | 'no node' | 'no answer'> {
    const { operation, form, version, wire, need } = read;
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(timeoutMs)]);
    const request = { wire, need, promised: form, isIdempotent: true };
    const answer = await this.#parts.sender.another(request, notOf, signal);
    if (typeof answer === 'string') return answer;
    const { 'content-type': type } = answer.headers;
    const contentType = typeof type === 'string' ? type : undefined;
    const decision = decide({ operation, form, version, chainId }, { ...answer, contentType });
    return decision === 'stored' ? answer : 'no answer';
  }

  #note({ upstream, other, loser }: AuditReport): void {
    const [one = '', two = ''] = [upstream, other].toSorted();
    this.#parts.metrics.disagreed(one, two);
    const known = this.#disagreements.get(`${one} ${two}`);
    const lost = { [one]: 0, [two]: 0, ...known?.lost };
    if (loser !== undefined) lost[loser] = (lost[loser] ?? 0) + 1;
    const count = (known?.count ?? 0) + 1;
    this.#disagreements.set(`${one} ${two}`, { upstreams: [one, two], count, lost, last: new Date().toISOString() });
  }
}

function reportOf(
  { read, answer: first }: StoredAnswer,
  second: NodeAnswer,
  third: NodeAnswer | undefined,
): AuditReport {
  const [isFirstRight, isSecondRight] =
    third === undefined ? [] : [first, second].map((answer) => compareAnswers(answer, third) !== 'disagreement');
  return {
    upstream: first.upstream.name,
    other: second.upstream.name,
    route: read.operation,
    version: read.version,
    statuses: [first.status, second.status],
    digests: [digestOf(first), digestOf(second)],
    firstDifference: firstDifference(first.body, second.body),
    third: third?.upstream.name,
    // One that contradicts both settles nothing.
    loser:
      isFirstRight === isSecondRight ? undefined : isFirstRight === true ? second.upstream.name : first.upstream.name,
  };
}

function digestOf({ body }: NodeAnswer): string {
  return hash('sha256', body, 'hex').slice(0, 32);
}
