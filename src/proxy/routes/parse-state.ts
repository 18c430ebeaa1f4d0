/**
 * Parsers of further reads of state: accounts, balances, pages of modules and resources, table items. `undefined` leaves
 * a request to a node, unchanged: the gateway keeps no answer to a question that it reads only in part.
 */
import type { Operation } from '../../cache/index.ts';
import { parseTableBody } from './canonical-body.ts';
import { Address, findU64 } from '../../ledger/index.ts';
import { knownParameters, versionParameter } from './target.ts';
import type { Read } from '../reads/index.ts';
import { parseTag, pathRead, postedRead, type BodyRead, type Parameters, type ParseRead } from './parse-read.ts';

const versionOnly = ['ledger_version'];

/** Parses `GET /accounts/{address}`. */
export const accountRead: ParseRead = ({ address: addressText = '' }, request) => {
  if (knownParameters(request.target, versionOnly) === undefined) return undefined;
  const address = Address.parse(addressText);
  return pathRead({ operation: 'account', subject: `${address}/`, path: `/accounts/${address}` }, request);
};

/**
 * Parses `GET /accounts/{address}/balance/{asset}`, of a struct tag or a fungible asset's address. The public SDK repeats
 * both path parameters in the query, where nodes ignore them (protocol 4.3); only a repetition to the letter is ignored
 * here too.
 */
export const balanceRead: ParseRead = ({ address: addressText = '', asset: assetText = '' }, request) => {
  const given = knownParameters(request.target, balanceParameters);
  if (given === undefined) return undefined;
  const { accountAddress = addressText, asset: repeated = assetText } = given;
  if (accountAddress !== addressText || repeated !== assetText) return undefined;
  const address = Address.parse(addressText);
  const asset = Address.find(assetText);
  const { text, encoded } = asset === undefined ? parseTag(assetText) : { text: asset, encoded: asset };
  const path = `/accounts/${address}/balance/${encoded}`;
  return pathRead({ operation: 'balance', subject: `${address}/${text}`, path }, request);
};

const balanceParameters = ['ledger_version', 'accountAddress', 'asset'];
const pageParameters = ['ledger_version', 'start', 'limit'];

/** Parses a page of `/accounts/{address}/modules` or `/resources`. */
export function accountPageRead(operation: Extract<Operation, 'modules' | 'resources'>): ParseRead {
  return ({ address: addressText = '' }, request) => {
    const given = knownParameters(request.target, pageParameters);
    const query = given === undefined ? undefined : pageQuery(given);
    if (query === undefined) return undefined;
    const address = Address.parse(addressText);
    const path = `/accounts/${address}/${operation}${query}`;
    return pathRead({ operation, subject: `${address}/${query}`, path }, request);
  };
}

/** Form of the cursor of nodes: hex, of which only they know the meaning (protocol 2.1). */
const cursorForm = /^[\w-]{1,2048}$/;

function pageQuery({ start, limit }: Readonly<Record<string, string | undefined>>): string | undefined {
  const query: string[] = [];
  if (start !== undefined) {
    if (!cursorForm.test(start)) return undefined;
    query.push(`start=${start}`);
  }
  if (limit !== undefined) {
    const items = findLimit(limit);
    if (items === undefined) return undefined;
    query.push(`limit=${items}`);
  }
  return query.length === 0 ? '' : `?${query.join('&')}`;
}

/** A page's length as nodes parse it, a u16 above zero; `undefined`: nodes refuse it. */
export function findLimit(text: string): number | undefined {
  const limit = findU64(text);
  return limit === undefined || limit === 0n || limit > 0xffffn ? undefined : Number(limit);
}

/** Parses `POST /tables/{handle}/item` or `/raw_item`. Throws `GatewayError` 400. */
export function tableItemRead(
  operation: Extract<Operation, 'table_item' | 'raw_table_item'>,
  { handle: handleText = '' }: Parameters,
  request: BodyRead,
): Read | undefined {
  if (knownParameters(request.target, versionOnly) === undefined) return undefined;
  const handle = Address.parse(handleText);
  const version = versionParameter(request.target);
  const { subject, bytes } = parseTableBody(operation, request.body, request.digest);
  const path = `/tables/${handle}/${operation === 'table_item' ? 'item' : 'raw_item'}`;
  const parts = { operation, subject: `${handle}/${subject}`, path, contentType: 'application/json', version, bytes };
  return postedRead(parts, request);
}
