/** Everything of a chaos run that is not a client: one ledger, three nodes, a Redis, two gateway processes. */
import type { TestContext } from 'node:test';
import type { LedgerClock } from '../../../src/sample/ledger-clock.ts';
import { Mempool } from '../../../src/sample/mempool.ts';
import { gatewayProcess, type GatewayProcess } from '../gateway-process.ts';
import { redisServer, type RedisServer } from '../redis-server.ts';
import { submission } from '../submission.ts';
import { sharedLedger, startHead } from './ledger.ts';
import { chaosNode, type ChaosNode } from './node.ts';

/** A gateway in the view of its clients. */
export interface ChaosGateway {
  readonly name: string;
  readonly process: GatewayProcess;
  /** Balancers send it no requests: it ends, or has not begun. */
  isLeaving: boolean;
  /** How often it was killed, which cuts off its requests in flight. */
  timesKilled: number;
  /** It was killed, and the kernel has not closed its sockets yet. */
  isDying: boolean;
}

export interface ChaosWorld {
  readonly ledger: LedgerClock;
  readonly nodes: readonly ChaosNode[];
  readonly gateways: readonly ChaosGateway[];
  readonly redis: RedisServer;
  /** Must stand in no log line and in no answer. */
  readonly secrets: readonly string[];
  readonly mempool: Mempool;
  /** Hashes of transactions, and the version each was committed at. */
  readonly committed: readonly Committed[];
  /** Commits a transaction a moment ahead of the ledger. */
  commit(): void;
}

export interface Committed {
  readonly hash: string;
  readonly version: bigint;
}

export const redisPassword = 'chaos-redis-password';
const adminToken = 'chaos-admin-token-of-the-operations-port';

export async function chaosWorld(t: TestContext): Promise<ChaosWorld> {
  const ledger = sharedLedger();
  const mempool = new Mempool({ pendingForMs: Infinity });
  const [nodes, redis] = await Promise.all([
    Promise.all([
      chaosNode(t, { name: 'full-a', tier: 'full', ledger, mempool }),
      chaosNode(t, { name: 'full-b', tier: 'full', ledger, mempool }),
      chaosNode(t, { name: 'archive', tier: 'archival', ledger, mempool }),
    ]),
    redisServer(t, ['--requirepass', redisPassword]),
  ]);
  const commits = new Commits(mempool);
  for (const depth of [900_000n, 500_000n, 100_000n, 30_000n, 2_000n]) commits.at(startHead - depth);
  const gateways = await Promise.all(['a', 'b'].map((name) => chaosGateway(t, name, nodes, redis)));
  return {
    ledger,
    nodes,
    gateways,
    redis,
    secrets: [redisPassword, adminToken],
    mempool,
    committed: commits.all,
    commit: () => commits.at(ledger.read().version + 50n),
  };
}

async function chaosGateway(
  t: TestContext,
  name: string,
  nodes: readonly ChaosNode[],
  redis: RedisServer,
): Promise<ChaosGateway> {
  const config = {
    upstreams: nodes.map((node) => ({ name: node.name, url: node.url, tier: node.tier })),
    // A node that hangs, and another one, must leave time for the third.
    upstream: { timeout: '1s', deadline: '4s', probeInterval: '250ms' },
    latest: { waitForVersion: '1s' },
    cache: { memory: { maxBytes: '16MiB' }, redis: { url: `redis://:${redisPassword}@127.0.0.1:${redis.port}` } },
    operations: { host: '127.0.0.1', port: 0, token: adminToken },
    encode: { shadow: 0.05 },
    log: { level: 'info' },
  };
  const process = await gatewayProcess(t, { full: [], config });
  return { name, process, isLeaving: false, isDying: false, timesKilled: 0 };
}

/** Sample nodes forget the first of 1,000. */
const mostCommitted = 900;

/** Transactions that were submitted to the nodes directly and committed by the harness. */
class Commits {
  readonly all: Committed[] = [];
  readonly #mempool: Mempool;

  constructor(mempool: Mempool) {
    this.#mempool = mempool;
  }

  at(version: bigint): void {
    if (this.all.length >= mostCommitted) return;
    const text = submission({ sequenceNumber: this.all.length });
    const { hash } = JSON.parse(this.#mempool.submit(Buffer.from(text), undefined)) as { readonly hash: string };
    this.#mempool.commitAll(version);
    this.all.push({ hash, version });
  }
}
