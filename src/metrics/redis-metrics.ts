/** Metrics of the shared tier in Redis. Label values are closed sets. */
import { Counter, Gauge, type Registry } from 'prom-client';

export interface RedisMetrics {
  readonly lookups: Counter<'outcome'>;
  readonly turns: Counter<'turn'>;
  readonly writes: Counter<'outcome'>;
  readonly failures: Counter<'kind'>;
}

/** What is read at each scrape. */
export interface RedisGauges {
  readonly isUp: boolean;
  readonly isWritable: boolean;
  readonly pendingWrites: number;
  readonly pendingBytes: number;
}

export function createRedisMetrics(registry: Registry, read: () => RedisGauges): RedisMetrics {
  const registers = [registry];
  type Join = 'sum' | 'min';
  const gauge = (aggregator: Join, name: string, help: string, value: (gauges: RedisGauges) => number): void => {
    new Gauge({
      name,
      help,
      aggregator,
      registers,
      collect() {
        this.set(value(read()));
      },
    });
  };
  gauge(
    'min',
    'ledgergate_redis_up',
    'Whether Redis is used: 0 while it, or one node of a cluster, is left alone.',
    (now) => (now.isUp ? 1 : 0),
  );
  gauge('sum', 'ledgergate_redis_pending_writes', 'Answers on their way to Redis.', (now) => now.pendingWrites);
  gauge(
    'sum',
    'ledgergate_redis_pending_write_bytes',
    'Bytes of answers on their way to Redis.',
    (now) => now.pendingBytes,
  );
  gauge('min', 'ledgergate_redis_writable', 'Whether Redis takes writes: 0 while it refuses them.', (now) =>
    now.isWritable ? 1 : 0,
  );
  return {
    lookups: new Counter({
      name: 'ledgergate_redis_lookups_total',
      help: 'Look-ups in Redis by outcome: hit, absent, damaged (replaced), unavailable.',
      labelNames: ['outcome'] as const,
      registers,
    }),
    turns: new Counter({
      name: 'ledgergate_redis_reads_total',
      help: 'Reads that Redis did not have: lead (for all replicas), followed (another replica read), alone.',
      labelNames: ['turn'] as const,
      registers,
    }),
    writes: new Counter({
      name: 'ledgergate_redis_writes_total',
      help: 'Answers for Redis by outcome: written, failed, dropped (too many waited).',
      labelNames: ['outcome'] as const,
      registers,
    }),
    failures: new Counter({
      name: 'ledgergate_redis_failures_total',
      help: 'Commands that failed, by kind: timeout, connection, refused (no writes now), wrong type, error.',
      labelNames: ['kind'] as const,
      registers,
    }),
  };
}
