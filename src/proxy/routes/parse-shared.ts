/** Parsers of short shares. `undefined` leaves a request with parameters that the gateway does not know to a node. */
import { parseAddress } from '../../ledger/address.ts';
import { findU64 } from '../../ledger/version.ts';
import { answerForm } from '../http/negotiate.ts';
import { knownParameters } from '../http/target.ts';
import type { SharedRead, ShareTime } from '../reads/shares.ts';
import { acceptOnly, type Parameters, type PathRead } from './parse-read.ts';

/** Parses a path without parameters, whose answer has ledger headers. */
export function sharedPath(shared: ShareTime, path: string, { target, accept }: PathRead): SharedRead | undefined {
  if (knownParameters(target, []) === undefined) return undefined;
  const form = answerForm(accept);
  return { shared, form, wire: { method: 'GET', path, headers: acceptOnly[form] } };
}

/** Parses a path of the node's build: documents of any media type, without ledger headers (protocol 1, rows 3 and 4). */
export function buildPath(path: string, { target }: PathRead): SharedRead | undefined {
  if (knownParameters(target, []) === undefined) return undefined;
  return { shared: 'build', form: undefined, wire: { method: 'GET', path, headers: anyType } };
}

const anyType = Object.freeze({ accept: '*/*' });

/**
 * Parses a list of the newest items: `path` with `numbers`, parameters that are u64, in their order. Malformed ones are
 * the node's to refuse.
 */
export function newestList(
  path: string,
  numbers: readonly string[],
  { target, accept }: PathRead,
): SharedRead | undefined {
  const given = knownParameters(target, numbers);
  if (given === undefined) return undefined;
  const query: string[] = [];
  for (const name of numbers) {
    const text = given[name];
    const number = text === undefined ? undefined : findU64(text);
    if (text !== undefined && number === undefined) return undefined;
    if (number !== undefined) query.push(`${name}=${number}`);
  }
  const form = answerForm(accept);
  const whole = query.length === 0 ? path : `${path}?${query.join('&')}`;
  return { shared: 'latest', form, wire: { method: 'GET', path: whole, headers: acceptOnly[form] } };
}

/** Parses `GET /accounts/{address}/transactions` or `/transaction_summaries`. Throws `GatewayError` 400. */
export function accountList(
  name: 'transactions' | 'transaction_summaries',
  { address = '' }: Parameters,
  request: PathRead,
): SharedRead | undefined {
  const path = `/accounts/${parseAddress(address)}/${name}`;
  const numbers = name === 'transactions' ? ['start', 'limit'] : ['start_version', 'end_version', 'limit'];
  return newestList(path, numbers, request);
}
