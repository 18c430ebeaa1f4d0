/** The door of access. */
export { type AccessMetrics, createAccessMetrics, type RefusalReason, refusalReasons } from './access-metrics.ts';
export { clientOf, countedNetwork } from './keys/client-address.ts';
export { createKey, hashKey, holdsKey, type KeyRecord } from './keys/key-set.ts';
export type { AccessOperation, Plan, Principal } from './keys/principal.ts';
export {
  isBearer,
  type KeyRejection,
  type KeySource,
  type KnownKey,
  type PrincipalRules,
  Principals,
} from './keys/principals.ts';
export type { Charge, LimitCount, LimitCounter } from './limits/counter.ts';
export { createLimitMetrics } from './limits/limit-metrics.ts';
export { LimitQueue } from './limits/limit-queue.ts';
export { MemoryCounter } from './limits/limits-memory.ts';
export { RedisCounter } from './limits/limits-redis.ts';
export {
  counterInPrimary,
  counterWithFallback,
  type LimitServiceClient,
  type WhenRedisIsDown,
} from './limits/limits-shared.ts';
export { PlanLimits } from './limits/limits.ts';
export type { Limits, Settled, Ticket } from './limits/ticket.ts';
export { UsageStore } from './usage/usage-store.ts';
export { mergeRows, type UsageQuery, type UsageRow, usageSubjectOf } from './usage/usage-tally.ts';
export { maxRows, Usage } from './usage/usage.ts';
