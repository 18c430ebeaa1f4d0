/** Requests for a stream of transactions: its start and its filters. */
import {
  Address,
  findU64,
  FunctionId,
  GatewayError,
  LedgerVersion,
  maxU64,
  quote,
  TypeTag,
} from '../../ledger/index.ts';
import type { Filter } from '../reads/index.ts';
import { knownParameters } from './target.ts';

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
  const { start, sender, function: called, event_type: eventType } = given;
  // An empty id is that of a client which has none yet.
  const isResumed = lastEventId !== undefined && lastEventId !== '';
  const cursor = isResumed
    ? behind(lastEventId)
    : start === undefined
      ? undefined
      : LedgerVersion.of(u64('start', start));
  return { cursor, isResumed, filter: filterOf(sender, called, eventType) };
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
function filterOf(
  senderText: string | undefined,
  called: string | undefined,
  eventTypeText: string | undefined,
): Filter | undefined {
  if (senderText === undefined && called === undefined && eventTypeText === undefined) return undefined;
  const sender = senderText === undefined ? undefined : senderOf(senderText);
  const name = called === undefined ? undefined : functionOf(called);
  const eventType = eventTypeText === undefined ? undefined : typeOf(eventTypeText);
  const module = name?.endsWith(anyFunction) === true ? name.slice(0, -1) : undefined;
  return {
    key: JSON.stringify([sender, name, eventType]),
    matches(facts) {
      if (sender !== undefined && facts.sender !== sender) return false;
      if (
        module !== undefined
          ? facts.function?.startsWith(module) !== true
          : name !== undefined && facts.function !== name
      )
        return false;
      return eventType === undefined || facts.events.includes(eventType);
    },
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
