/** Requests to one node through its HTTP client, without a fleet around it. */
import type { TestContext } from 'node:test';
import { Dialect } from '../../src/ledger/ledger-headers.ts';
import type { CancelSignal } from '../../src/ledger/stop.ts';
import { createAnswerBudget } from '../../src/upstream/byte-budget.ts';
import type { ExchangeContext, NodeAnswer } from '../../src/upstream/dispatch/exchange.ts';
import { fetchWhole } from '../../src/upstream/dispatch/fetch-whole.ts';
import type { Purpose, WireRequest } from '../../src/upstream/node/node-client.ts';
import { Upstream, type UpstreamOptions } from '../../src/upstream/node/upstream.ts';

/** A node on this machine; the test's end closes its connections. */
export function nodeAt(t: TestContext, port: number, options: Partial<UpstreamOptions> = {}): Upstream {
  const url = new URL(`http://127.0.0.1:${port}`);
  const node = new Upstream({ name: 'n', url, tier: 'full', connections: 1, connectTimeoutMs: 5_000, ...options });
  t.after(() => node.close());
  return node;
}

export interface AskOptions extends Partial<WireRequest> {
  readonly purpose?: Purpose;
  readonly signal?: CancelSignal;
  readonly exchange?: ExchangeContext;
}

/** An exchange that has not begun, with 5 s for it. */
export function exchangeOf(signal: CancelSignal = AbortSignal.timeout(5_000)): ExchangeContext {
  const bounds = { dialect: new Dialect('node'), signal, budget: createAnswerBudget() };
  return { ...bounds, sentAtMs: undefined, isAnswered: false };
}

/** Default: a GET of `path`, with 5 s for it. */
export function ask(node: Upstream, path: string, options: AskOptions = {}): Promise<NodeAnswer> {
  const { purpose, signal, exchange = exchangeOf(signal) } = options;
  const { method = 'GET', headers = {}, body } = options;
  return fetchWhole(node, { method, path, headers, body }, exchange, purpose);
}

/** The body of an answer, as text. */
export async function textOf(answer: Promise<NodeAnswer>): Promise<string> {
  return (await answer).body.toString();
}
