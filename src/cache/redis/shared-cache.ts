/** Builds the shared tier: answers, leases and events in Redis. */
import type { RedisConfig } from '../../config/index.ts';
import type { Journal } from '../../metrics/index.ts';
import { History } from '../history/history.ts';
import { everyTerm } from '../history/terms.ts';
import { madeOnce, tierHistory, unverified, type TierParts } from '../history/tier-history.ts';
import type { PurgeScope } from '../purge/purge-scope.ts';
import { clearRedis } from '../purge/redis-clear.ts';
import { createRedisMetrics } from '../tier-metrics.ts';
import type { SecondTier } from '../tiers.ts';
import { HistoryRegistry } from './history-registry.ts';
import { Leases } from './leases.ts';
import { connectRedis, connectSubscriber } from './redis-client.ts';
import { AnswerNames, LedgerNames } from './redis-keys.ts';
import { RedisLink, type TroubleChange } from './redis-link.ts';
import { SharedState, type NewsListener } from './shared-state.ts';
import { SharedTier } from './shared-tier.ts';
import { RedisWrites } from './redis-writes.ts';

/** Parts of which the shared tier is built. */
export interface SharedCacheParts extends TierParts {
  readonly news: NewsListener;
  /** Live settings of the config; `followMs`: longest wait for another replica's read of the same key. */
  readonly settings: {
    readonly redis: { readonly timeoutMs: number; readonly ttlMs: number; readonly followMs: number };
  };
}

/** The cache that replicas share in Redis, with its news and the history that it belongs to. Connects in the background. */
export function createSharedCache(config: RedisConfig, parts: SharedCacheParts) {
  const { memory, journal } = parts;
  const settings = parts.settings.redis;
  const metrics = createRedisMetrics(parts.registry, () => ({
    isUp: link.trouble('circuit open') === undefined && history.term !== undefined,
    isWritable: link.trouble('read-only') === undefined,
    pendingWrites: writes.size.writes,
    pendingBytes: writes.size.bytes,
  }));
  const link: RedisLink = new RedisLink((onError) => connectRedis(config.target, onError), {
    get timeoutMs() {
      return settings.timeoutMs;
    },
    trialKey: `${config.keyPrefix}:trial`,
    onFailure: (kind) => metrics.failed(kind),
    onTrouble: (change) => {
      recordTrouble(journal, change);
      if (change.trouble === 'circuit open' && !change.isOn) void history.check();
    },
  });
  const { beatMs, ...ofHistory } = tierHistory(parts);
  const registry = new HistoryRegistry(link, { prefix: config.keyPrefix, beatMs });
  const history: History = new History({ registry, ...ofHistory });
  const writes: RedisWrites = new RedisWrites(link, (outcome, answers) => metrics.wrote(outcome, answers));
  const keys = madeOnce(
    parts.ledger,
    () => history.term,
    (ledger, term) => new AnswerNames(config.keyPrefix, ledger, term),
  );
  const tier = new SharedTier(
    { link, writes, findAnswer: (digest) => memory.findAnswer(digest) },
    Object.assign(settings, { keys }),
  );
  const leases = new Leases(link, {
    nameOf: (key) => keys()?.lease(key),
    get followMs() {
      return settings.followMs;
    },
  });
  // The other connection reports the same faults.
  const subscriber = connectSubscriber(config.target, () => undefined);
  const state = new SharedState(link, subscriber, parts.news, {
    prefix: config.keyPrefix,
    ledger: ofHistory.ledger,
    history: () => history.term?.id,
  });
  const second: SecondTier = {
    tier,
    leases,
    onLookup: (outcome, seconds) => metrics.lookedUp(outcome, seconds),
    onTurn: (turn) => metrics.turned(turn),
  };
  return {
    ...second,
    /** Resolves when Redis is reachable, or its absence is certain. */
    started: link.started,
    news: state,
    history,
    /** Deletes from Redis; see `clearRedis`. */
    clear: async (scope: PurgeScope) => {
      const [genesis, ledger] = [parts.ledger(), ofHistory.ledger()];
      if (genesis === undefined || ledger === undefined) return undefined;
      const terms = await registry.read(ledger);
      if (terms === undefined) return undefined;
      const names = new LedgerNames(config.keyPrefix, genesis);
      return clearRedis(link, { names, terms: everyTerm(terms, history.term) }, scope);
    },
    /** The present fault of Redis, without its addresses. */
    trouble: () => troubleOf(link) ?? (history.term === undefined ? unverified : undefined),
    close: () => {
      history.close();
      state.close();
      link.close();
    },
  };
}

function troubleOf(link: RedisLink): string | undefined {
  const [alone, unwritten] = [link.trouble('circuit open'), link.trouble('read-only')];
  if (alone !== undefined) return alone;
  return unwritten === undefined ? undefined : `takes no writes: ${unwritten}`;
}

function recordTrouble(journal: Journal, { server, trouble, isOn, reason, cause }: TroubleChange): void {
  const place = server === '' ? {} : { server };
  // The end of a trouble has no reason.
  const details = isOn ? { reason, ...place } : place;
  if (isOn) journal.debug({ ...details, cause }, 'the fault in the words of the client library');
  if (trouble === 'circuit open') {
    if (isOn)
      journal.record('redis away', details, 'Redis circuit open: answers are not shared until Redis answers again');
    else journal.record('redis back', details, 'Redis answers again');
  } else if (isOn) {
    journal.record('redis read-only', details, 'Redis refuses writes: reads go on, no answer is added');
  } else journal.record('redis writable', details, 'Redis takes writes again');
}
