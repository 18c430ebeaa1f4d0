/** Requests for event streams: each kind of read has a stream of its own, or none. */
import { kinds } from '../../cache/index.ts';
import {
  Address,
  CancelToken,
  findU64,
  FunctionId,
  GatewayError,
  LedgerVersion,
  maxU64,
  quote,
  TypeTag,
} from '../../ledger/index.ts';
import type { Exchange } from '../http/index.ts';
import {
  type EventSink,
  type Filter,
  isOfLatest,
  type Read,
  type Reads,
  type SharedRead,
  type StreamClient,
} from '../reads/index.ts';
import { canonicalBytes } from './canonical-body.ts';
import { knownParameters } from './parse-read.ts';
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

/** A request for a stream of transactions. */
export interface StreamRequest {
  /** The first version; `undefined`: the next one. */
  readonly cursor: LedgerVersion | undefined;
  /** Its client has had the transactions ahead of `cursor`, by `Last-Event-ID`. */
  readonly isResumed: boolean;
  /** `undefined`: every transaction passes. */
  readonly filter: Filter | undefined;
}

const parameters = ['start', 'sender', 'function', 'event_type'];

/** Parses a target and its `Last-Event-ID`, which is ahead of `start`. Throws `GatewayError` 400. */
export function parseStream(target: string, lastEventId: string | undefined): StreamRequest {
  const given = knownParameters(target, parameters);
  if (given === undefined) {
    throw invalid('a stream of transactions has the parameters start, sender, function and event_type, each once');
  }
  const { start } = given;
  // An empty id is that of a client which has none yet.
  const isResumed = lastEventId !== undefined && lastEventId !== '';
  const cursor = isResumed
    ? behind(lastEventId)
    : start === undefined
      ? undefined
      : LedgerVersion.of(u64('start', start));
  return { cursor, isResumed, filter: filterOf(given) };
}

function behind(lastEventId: string): LedgerVersion {
  const last = u64('Last-Event-ID', lastEventId);
  if (last === maxU64) throw invalid(`there is no version behind Last-Event-ID ${last}`);
  return LedgerVersion.of(last + 1n);
}

function u64(name: string, text: string): bigint {
  const number = findU64(text);
  if (number === undefined) throw invalid(`${name} is no version: ${quote(text)}`);
  return number;
}

/** The transactions that satisfy each given filter. */
function filterOf(given: Readonly<Record<string, string | undefined>>): Filter | undefined {
  const sender = given['sender'] === undefined ? undefined : senderOf(given['sender']);
  const called = given['function'] === undefined ? undefined : functionOf(given['function']);
  const eventType = given['event_type'] === undefined ? undefined : typeOf(given['event_type']);
  if (sender === undefined && called === undefined && eventType === undefined) return undefined;
  const module = called?.endsWith(anyFunction) === true ? called.slice(0, -1) : undefined;
  const isCalled = (id: string | undefined): boolean =>
    module === undefined ? called === undefined || id === called : id?.startsWith(module) === true;
  return {
    key: JSON.stringify([sender, called, eventType]),
    matches: (facts) =>
      (sender === undefined || facts.sender === sender) &&
      isCalled(facts.function) &&
      (eventType === undefined || facts.events.includes(eventType)),
  };
}

function senderOf(text: string): string {
  const address = Address.find(text);
  if (address === undefined) throw invalid(`sender is no address: ${quote(text)}`);
  return address;
}

/** Behind a module: each of its functions. */
const anyFunction = '::*';

/** Full name of an entry function, or `0x1::module::*`, in canonical spelling. */
function functionOf(text: string): string {
  const isModule = text.endsWith(anyFunction);
  const id = FunctionId.find(isModule ? `${text.slice(0, -1)}any` : text);
  if (id === undefined) throw invalid(`function is neither a full name nor a module and ::*: ${quote(text)}`);
  return isModule ? `${id.address}::${id.module}${anyFunction}` : FunctionId.format(id);
}

function typeOf(text: string): string {
  const tag = TypeTag.find(text);
  if (tag === undefined) throw invalid(`event_type is no type: ${quote(text)}`);
  return TypeTag.format(tag);
}

function invalid(message: string): GatewayError {
  return new GatewayError('invalidInput', message);
}
