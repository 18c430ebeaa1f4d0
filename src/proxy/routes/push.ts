/** Requests for event streams: each kind of read has a stream of its own, or none. */
import { CancelToken } from '../../ledger/index.ts';
import type { Exchange } from '../http/index.ts';
import type { EventSink, Reads, StreamClient } from '../reads/index.ts';
import { parseStream } from './parse-stream.ts';
import type { Match } from './router.ts';

/** Opens the event streams of one process. */
export class Push {
  readonly #reads: Reads;

  constructor(reads: Reads) {
    this.#reads = reads;
  }

  /** Resolves at the head: the stream outlives it. `undefined`: the route has no streams, and answers as ever. */
  serve(exchange: Exchange, { method, route, target }: Match, _body: Buffer | undefined): Promise<void> | undefined {
    if (method === 'GET' && route.name === 'transactions') return this.#openTransactions(exchange, target);
    return undefined;
  }

  /** The page that the stream begins with decides the status: what nodes have pruned is a 410, as for a read. */
  async #openTransactions(exchange: Exchange, target: string): Promise<void> {
    const { transactions } = this.#reads.streams;
    const request = parseStream(target, exchange.headers['last-event-id']?.toString());
    exchange.requireTime();
    const start = await transactions.prepare(request, exchange);
    if ('refused' in start) return exchange.answerRead(start.refused);
    transactions.open(clientOf(exchange, await exchange.openEvents('transactions')), start, request.filter);
  }
}

/** The client of an open stream, whose end aborts its signal. Its exchange has ended. */
function clientOf({ headers, socket, client, admitted, route }: Exchange, sink: EventSink): StreamClient {
  const signal = new CancelToken();
  sink.onEnd = () => signal.abort(new Error('the stream has ended'));
  return { headers, socket, client, admitted, route, signal, sink };
}
