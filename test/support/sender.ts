/** A sender in front of raw nodes, without a gateway around it. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { TestContext } from 'node:test';
import { Registry } from 'prom-client';
import { Dialect } from '../../src/ledger/ledger-headers.ts';
import { type ByteBudget, createAnswerBudget } from '../../src/upstream/byte-budget.ts';
import { createFleetMetrics } from '../../src/upstream/upstream-metrics.ts';
import { quietEvents } from './fleet-events.ts';
import { listen } from './listen.ts';
import { FleetState } from '../../src/upstream/fleet-state.ts';
import type { SendLimits } from '../../src/upstream/dispatch/fleet-request.ts';
import { Sender } from '../../src/upstream/dispatch/sender.ts';
import { nodeAt } from './node-client.ts';

/** What a node does with a request. */
export type Answer = (request: IncomingMessage, response: ServerResponse) => void;

export interface MadeUpSender {
  readonly connections: number;
  readonly limits?: Partial<SendLimits>;
  /** Bytes of answers. Default: those of a single process. */
  readonly budget?: ByteBudget;
  /** Default 1. */
  readonly nodes?: number;
  /** Default `/v1`. */
  readonly basePath?: string;
}

async function nodeOf(t: TestContext, answer: Answer, { connections, basePath = '/v1' }: MadeUpSender) {
  const server = createServer(answer);
  const port = await listen(t, server);
  const url = new URL(`http://127.0.0.1:${port}${basePath}`);
  const upstream = nodeAt(t, port, { name: `n${port}`, url, connections, connectTimeoutMs: 1_000 });
  upstream.recordAnswer(1, 0);
  return { server, upstream };
}

/** A fleet without nodes, as metrics read it. */
export const emptyFleet = {
  upstreams: [],
  head: undefined,
  oldest: undefined,
  outageSinceMs: undefined,
  latest: { clientsAhead: 0 },
  sender: { waiting: 0 },
};

/** A sender with nodes behind it that answer as told; `server` and `upstream` are of the first. */
export async function senderOf(t: TestContext, answer: Answer, options: MadeUpSender) {
  const { limits, budget = createAnswerBudget(), nodes = 1 } = options;
  const first = await nodeOf(t, answer, options);
  const upstreams = [first.upstream];
  while (upstreams.length < nodes) upstreams.push((await nodeOf(t, answer, options)).upstream);
  const fleet = new FleetState(upstreams, new Dialect('node'), quietEvents);
  const registry = new Registry();
  const metrics = createFleetMetrics(registry, emptyFleet);
  const log = { debug: () => undefined, record: () => undefined };
  const bounds = { timeoutMs: 2_000, deadlineMs: 4_000, maxAttempts: 3, waitForVersionMs: 0, stallMs: 300, ...limits };
  const sender = new Sender({ fleet, limits: bounds, metrics, log, onDoubt: () => undefined, budget });
  const counted = async (name: string, label = '', value?: string): Promise<number> => {
    const metric = await registry.getSingleMetric(name)?.get();
    return metric?.values.find(({ labels }) => labels[label] === value)?.value ?? 0;
  };
  const failures = (kind: string) => counted('ledgergate_upstream_failures_total', 'kind', kind);
  const refusals = (reason: string) => counted('ledgergate_upstream_queue_refusals_total', 'reason', reason);
  return { sender, fleet, ...first, counted, failures, refusals };
}

/** A client that stays. */
export const never = new AbortController().signal;
/** A read of the newest state that may be asked twice. */
export const request = (path: string) =>
  ({ wire: { method: 'GET', path, headers: {} }, need: { kind: 'head' }, isIdempotent: true }) as const;
