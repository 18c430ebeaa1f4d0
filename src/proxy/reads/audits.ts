/**
 * The standing audit of nodes: a second node answers a share of the stored reads, after the client. A read is a pure
 * function of request and version, so two different final answers prove that one node is wrong.
 */
import { hash } from 'node:crypto';
import type { Registry } from 'prom-client';
import type { CacheKey } from '../../cache/index.ts';
import { decide } from './policy.ts';
import type { Fleet, NodeAnswer } from '../../upstream/index.ts';
import { Counter, labelSources } from '../../metrics/index.ts';
import { JsonValue } from '../../ledger/index.ts';
import type { Read } from './read.ts';

/** A pinned read, and the node's answer that the cache stored under `key`. */
export interface StoredRead {
  readonly read: Read;
  readonly key: CacheKey;
  readonly chainId: number;
  readonly answer: NodeAnswer;
}

/** Two nodes that gave different final answers to the same pinned reads, names in order. */
export interface Disagreement {
  readonly upstreams: readonly [string, string];
  readonly count: number;
  /** By name: audits in which a third node contradicted it. */
  readonly lost: Readonly<Record<string, number>>;
  /** Time of the last one, in ISO 8601. */
  readonly last: string;
}

interface AuditEvents {
  /** Deletes the read from every tier. */
  readonly drop: (key: CacheKey) => Promise<void>;
  readonly onDisagreement: (report: AuditReport) => void;
}

/** Audits in flight, which hold their bodies. */
const maxAudits = 4;
const maxBytes = 1024 * 1024;
const timeoutMs = 10_000;

/** Compares stored answers with those of other nodes, and counts disagreements. */
export class Audits {
  readonly #sender: Fleet['sender'];
  /** Live settings of the config: the share of the reads, 0 to 1. */
  readonly #settings: { readonly share: number };
  readonly #metrics: AuditMetrics;
  readonly #events: AuditEvents;
  readonly #closing = new AbortController();
  /** By pair of names; a fleet has few pairs. */
  readonly #disagreements = new Map<string, Disagreement>();
  #inFlight = 0;

  constructor(sender: Fleet['sender'], settings: { readonly share: number }, registry: Registry, events: AuditEvents) {
    this.#sender = sender;
    this.#settings = settings;
    this.#metrics = createAuditMetrics(registry);
    this.#events = events;
  }

  /** Disagreements since the start. */
  get disagreements(): readonly Disagreement[] {
    return [...this.#disagreements.values()];
  }

  close(): void {
    this.#closing.abort(new Error('closing'));
  }

  /** Begins an audit for a share of the reads. Returns at once and never throws. */
  consider(stored: StoredRead): void {
    const { share } = this.#settings;
    if (share === 0 || Math.random() >= share) return;
    const isBusy = this.#inFlight >= maxAudits || this.#sender.waiting > 0;
    if (isBusy || stored.answer.body.length > maxBytes) {
      this.#metrics.audited('skipped');
      return;
    }
    this.#inFlight += 1;
    this.#audit(stored)
      .catch(() => this.#metrics.audited('inconclusive'))
      .finally(() => {
        this.#inFlight -= 1;
      });
  }

  async #audit(stored: StoredRead): Promise<void> {
    const metrics = this.#metrics;
    const { drop, onDisagreement } = this.#events;
    const { answer: first, key } = stored;
    const second = await this.#ask(stored, [first.upstream]);
    if (second === 'no node') return metrics.audited('no second node');
    if (second === 'no answer') return metrics.audited('inconclusive');
    const comparison = compareAnswers(first, second);
    metrics.audited(comparison);
    if (comparison !== 'disagreement') return;
    // At once: the third answer decides which node is suspected, not whether the entry stays.
    const dropped = drop(key);
    const third = await this.#ask(stored, [first.upstream, second.upstream]).catch(() => 'no answer' as const);
    const vote = typeof third === 'string' ? undefined : third;
    const report = reportOf(stored, second, vote);
    this.#countDisagreement(report);
    onDisagreement(report);
    await dropped;
  }

  /** The final answer of a node other than `notOf`. */
  async #ask(
    { read, chainId }: StoredRead,
    notOf: readonly NodeAnswer['upstream'][],
  ): Promise<NodeAnswer | 'no node' | 'no answer'> {
    const { form, wire, need } = read;
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(timeoutMs)]);
    const request = { wire, need, promised: form, isIdempotent: true };
    const answer = await this.#sender.another(request, notOf, signal);
    if (typeof answer === 'string') return answer;
    return decide(read, answer, { chainId, head: answer.info }) === 'stored' ? answer : 'no answer';
  }

  #countDisagreement({ upstream, other, loser }: AuditReport): void {
    const [one = '', two = ''] = [upstream, other].toSorted();
    this.#metrics.disagreed(one, two);
    const before = this.#disagreements.get(`${one} ${two}`);
    const lost = { [one]: 0, [two]: 0, ...before?.lost };
    if (loser !== undefined) lost[loser] = (lost[loser] ?? 0) + 1;
    const count = (before?.count ?? 0) + 1;
    this.#disagreements.set(`${one} ${two}`, { upstreams: [one, two], count, lost, last: new Date().toISOString() });
  }
}

/** Two different answers to one read. */
export type AuditReport = ReturnType<typeof reportOf>;

/**
 * Two different answers, for log and status page, without paths and bodies. `third`: a node that holds the version and
 * answered; `loser`: the one of the two that it contradicts, `undefined`: both or neither.
 */
function reportOf({ read, answer: first }: StoredRead, second: NodeAnswer, third: NodeAnswer | undefined) {
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
    // A third answer that contradicts both settles nothing.
    loser:
      isFirstRight === isSecondRight ? undefined : isFirstRight === true ? second.upstream.name : first.upstream.name,
  };
}

function digestOf({ body }: NodeAnswer): string {
  return hash('sha256', body, 'hex').slice(0, 32);
}

/** The compared parts of a final answer: status 200, or a 404 that stays true. */
export type FinalAnswer = Pick<NodeAnswer, 'status' | 'body' | 'json'>;

/** `other spelling`: the same JSON value in another text, as nodes of another release may write it. */
export type AnswerComparison = 'equal' | 'other spelling' | 'disagreement';

/** Compares status, then bytes, then JSON values; of two 404s only the `error_code`. */
export function compareAnswers(one: FinalAnswer, other: FinalAnswer): AnswerComparison {
  if (one.status !== other.status) return 'disagreement';
  if (one.body.equals(other.body)) return 'equal';
  // Messages are free text, and spell addresses in each node's own way.
  if (one.status !== 200) return codeOf(one) === codeOf(other) ? 'equal' : 'disagreement';
  const [text, otherText] = [canonicalText(one), canonicalText(other)];
  return text !== undefined && text === otherText ? 'other spelling' : 'disagreement';
}

/** Offset of the first different byte, or the length of the shorter body. */
export function firstDifference(one: Buffer, other: Buffer): number {
  const shorter = Math.min(one.length, other.length);
  for (let offset = 0; offset < shorter; offset += 1) if (one[offset] !== other[offset]) return offset;
  return shorter;
}

function codeOf({ json }: FinalAnswer): unknown {
  return json.members['error_code'];
}

function canonicalText({ body }: FinalAnswer): string | undefined {
  try {
    return JsonValue.canonical(JsonValue.parse(body.toString()));
  } catch {
    return undefined;
  }
}

/** Counts audits and disagreements. */
type AuditMetrics = ReturnType<typeof createAuditMetrics>;

/** Registers the families of audits. */
export function createAuditMetrics(registry: Registry) {
  const audited = new Counter(registry, {
    name: 'ledgergate_audits_total',
    help: 'Pinned reads that were drawn to be asked of a second upstream, by result.',
    // `inconclusive`: the second node gave no final answer. `no second node`: no other surely holds the version. `skipped`:
    // too many audits are in flight, or nodes have no connection to spare.
    labels: { result: ['equal', 'other spelling', 'disagreement', 'inconclusive', 'no second node', 'skipped'] },
  }).by('result');
  const disagreements = new Counter(registry, {
    name: 'ledgergate_audit_disagreements_total',
    help: 'Pinned reads that two upstreams answered differently, by pair, names in order; a pair has no series before.',
    labels: { upstream: labelSources.upstream, other: labelSources.upstream },
  });
  return {
    audited,
    /** The caller orders the names, so that a pair has one series. */
    disagreed: (upstream: string, other: string) => disagreements.inc({ upstream, other }),
  };
}
