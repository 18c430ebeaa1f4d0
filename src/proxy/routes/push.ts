/** Requests for event streams: each kind of read has a stream of its own, or none. */
import { kinds } from '../../cache/index.ts';
import { CancelToken } from '../../ledger/index.ts';
import type { Exchange } from '../http/index.ts';
import {
  type EventSink,
  isOfLatest,
  type Read,
  type Reads,
  type SharedRead,
  type StreamClient,
} from '../reads/index.ts';
import { canonicalBytes } from './canonical-body.ts';
import { parseStream } from './parse-stream.ts';
import type { Match } from './router.ts';

/** Opens the event streams of one process. */
export class Push {
  readonly #reads: Reads;

  constructor(reads: Reads) {
    this.#reads = reads;
  }

  /** Resolves at the head: the stream outlives it. `undefined`: the route has no streams, and answers as ever. */
  serve(exchange: Exchange, match: Match, body: Buffer | undefined): Promise<void> | undefined {
    const { method, route, target } = match;
    if (route.kind === 'posted') return this.#watch(exchange, readOf(exchange, match, body));
    if (method !== 'GET') return undefined;
    if (route.name === 'transactions') return this.#openTransactions(exchange, target);
    if (route.kind === 'ledger info') return this.#openInfo(exchange);
    return route.kind === 'read' ? this.#watch(exchange, match.parse(undefined)) : undefined;
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

  async #openInfo(exchange: Exchange): Promise<void> {
    const { freshness, streams } = this.#reads;
    const first = freshness.findLedgerInfo(exchange) ?? (await freshness.ledgerInfo(exchange, exchange.signal));
    exchange.version = first.version;
    streams.info.open(clientOf(exchange, await exchange.openEvents('ledger_info')), first);
  }

  /** A read of the latest state, except a list: its answer decides the status. */
  #watch(exchange: Exchange, read: Read | SharedRead | undefined): Promise<void> | undefined {
    if (read === undefined || 'shared' in read) return undefined;
    return isOfLatest(read) && kinds[read.operation].isList !== true ? this.#openWatch(exchange, read) : undefined;
  }

  async #openWatch(exchange: Exchange, read: Read): Promise<void> {
    const { freshness, streams } = this.#reads;
    if (read.operation === 'view') exchange.requireFunction(read.functionId);
    exchange.requireTime();
    const first = freshness.findRead(read, exchange) ?? (await freshness.load(read, exchange));
    if (!streams.watches.canBegin(first)) return exchange.answerRead(first);
    exchange.note(first);
    streams.watches.open(clientOf(exchange, await exchange.openEvents('changes')), read, first);
  }
}

/** The read of a small body; `undefined`: it is answered as ever. */
function readOf({ request }: Exchange, match: Match, body: Buffer = Buffer.alloc(0)): Read | undefined {
  const { 'content-type': contentType, 'content-encoding': coding } = request.headers;
  if (coding !== undefined || body.length > canonicalBytes) return undefined;
  return match.parseBody({ target: match.target, accept: undefined, contentType, body });
}

/** The client of an open stream, whose end aborts its signal. Its exchange has ended. */
function clientOf({ headers, socket, client, admitted, route }: Exchange, sink: EventSink): StreamClient {
  const signal = new CancelToken();
  sink.onEnd = () => signal.abort(new Error('the stream has ended'));
  return { headers, socket, client, admitted, route, signal, sink };
}
