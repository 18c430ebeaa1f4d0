/**
 * The standing audit of nodes: a second node answers a share of the stored reads, after the client. A read is a pure
 * function of request and version, so two different final answers prove that one node is wrong.
 */
import { hash } from 'node:crypto';
import type { Registry } from 'prom-client';
import type { CacheKey } from '../../cache/index.ts';
import { JsonValue } from '../../ledger/index.ts';
import { Counter, labelSources } from '../../metrics/index.ts';
import type { Fleet, FleetRequest, NodeAnswer } from '../../upstream/index.ts';
import { decide } from './policy.ts';
import type { Keyed, Read } from './read.ts';

/** Checks in flight, which hold their bodies. */
const maxChecks = 4;
const timeoutMs = 10_000;

/** Checks of nodes that no client waits for: a few at once, and none while clients wait for a node. */
export class StandingChecks {
  readonly #sender: Pick<Fleet['sender'], 'another' | 'waiting'>;
  readonly #count: (result: 'skipped' | 'inconclusive') => void;
  readonly #closing = new AbortController();
  #inFlight = 0;

  constructor(
    sender: Pick<Fleet['sender'], 'another' | 'waiting'>,
    count: (result: 'skipped' | 'inconclusive') => void,
  ) {
    this.#sender = sender;
    this.#count = count;
  }

  /** Returns at once and never throws. A check that rejects is inconclusive. */
  begin(check: () => Promise<void>): void {
    if (this.#inFlight >= maxChecks || this.#sender.waiting > 0) return this.#count('skipped');
    this.#inFlight += 1;
    check()
      .catch(() => this.#count('inconclusive'))
      .finally(() => {
        this.#inFlight -= 1;
      });
  }

  /** The answer of a node other than `notOf`. */
  ask(request: FleetRequest, notOf: readonly NodeAnswer['upstream'][]) {
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(timeoutMs)]);
    return this.#sender.another(request, notOf, signal);
  }

  close(): void {
    this.#closing.abort(new Error('closing'));
  }
}

/** A pinned read, and the node's answer that the cache stored under `key`. */
interface StoredRead extends Omit<Keyed, 'of'> {
  readonly read: Read;
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

/** A larger answer is not audited. */
const maxBytes = 1024 * 1024;

/** Compares stored answers with those of other nodes, and counts disagreements. */
export class Audits {
  readonly #checks: StandingChecks;
  /** Live; the share of the reads that are audited, 0 to 1. */
  readonly settings: { readonly share: number };
  readonly #metrics: ReturnType<typeof createAuditMetrics>;
  readonly #events: AuditEvents;
  /** By pair of names; a fleet has few pairs. */
  readonly #disagreements = new Map<string, Disagreement>();

  constructor(sender: Fleet['sender'], settings: { readonly share: number }, registry: Registry, events: AuditEvents) {
    this.settings = settings;
    this.#metrics = createAuditMetrics(registry);
    this.#checks = new StandingChecks(sender, this.#metrics.audited);
    this.#events = events;
  }

  /** Disagreements since the start. */
  get disagreements(): readonly Disagreement[] {
    return [...this.#disagreements.values()];
  }

  close(): void {
    this.#checks.close();
  }

  /** Begins an audit of a read that was drawn for it. Returns at once and never throws. */
  begin(stored: StoredRead): void {
    if (stored.answer.body.length > maxBytes) this.#metrics.audited('skipped');
    else this.#checks.begin(() => this.#audit(stored));
  }

  async #audit(stored: StoredRead): Promise<void> {
    const { audited } = this.#metrics;
    const { drop, onDisagreement } = this.#events;
    const { answer: first, key } = stored;
    const second = await this.#ask(stored, [first.upstream]);
    if (second === 'no node') return audited('no second node');
    if (second === 'no answer') return audited('inconclusive');
    const comparison = compareAnswers(first, second);
    audited(comparison);
    if (comparison !== 'disagreement') return;
    // At once: the third answer decides which node is suspected, not whether the entry stays.
    const dropped = drop(key);
    const third = await this.#ask(stored, [first.upstream, second.upstream]).catch(() => 'no answer' as const);
    const report = reportOf(stored, second, typeof third === 'string' ? undefined : third);
    this.#countDisagreement(report);
    onDisagreement(report);
    await dropped;
  }

  /** The final answer of a node other than `notOf`. */
  async #ask({ read, chainId }: StoredRead, notOf: readonly NodeAnswer['upstream'][]) {
    const { form, wire, need } = read;
    const answer = await this.#checks.ask({ wire, need, promised: form, isIdempotent: true }, notOf);
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

/** Two different answers to one read, for log and status page, without paths and bodies. */
export type AuditReport = ReturnType<typeof reportOf>;

/** `third`: a node that holds the version and answered; `loser`: the one of the two that it alone contradicts. */
function reportOf({ read, answer: first }: StoredRead, second: NodeAnswer, third: NodeAnswer | undefined) {
  const [isFirstRight, isSecondRight] =
    third === undefined ? [] : [first, second].map((answer) => compareAnswers(answer, third) !== 'disagreement');
  const wrong = isFirstRight === true ? second : first;
  return {
    upstream: first.upstream.name,
    other: second.upstream.name,
    route: read.operation,
    version: read.version,
    statuses: [first.status, second.status],
    digests: [first, second].map(({ body }) => hash('sha256', body, 'hex').slice(0, 32)),
    firstDifference: firstDifference(first.body, second.body),
    third: third?.upstream.name,
    // A third answer that contradicts both settles nothing.
    loser: isFirstRight === isSecondRight ? undefined : wrong.upstream.name,
  };
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
