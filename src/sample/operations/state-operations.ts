/** Reads of state at a version: account, resource, module, balance, pages of resources and of modules, table items. */
import { Address, JsonValue, type LedgerVersion, TypeTag } from '../../ledger/index.ts';
import {
  answerIn,
  type SampleAnswer,
  lengthBytes,
  listBytes,
  optionBytes,
  standInBytes,
  bcsAnswer,
  u64Bytes,
} from '../answer.ts';
import { type SampleCall, statePage, isJsonMediaType, textMember } from '../call.ts';
import { frameworkError, notFound, bareError } from '../node-error.ts';
import { findModule, findResource, modulesOf, resourcesOf } from '../recorded.ts';
import {
  findSyntheticResource,
  isKnownAccount,
  syntheticBalance,
  transactionsOf,
  isMadeUpAccount,
} from '../synthetic.ts';

/** `GET /accounts/{address}`. Real nodes answer a missing account in two ways; this is the 404. */
export function answerAccount(call: SampleCall): SampleAnswer {
  const address = call.address(0);
  const version = call.resolve(call.pinned());
  call.expectAccount(address, version);
  const recorded = findResource(address, '0x1::account::Account');
  const data = recorded === undefined ? {} : (JSON.parse(recorded) as { data: Record<string, string> }).data;
  const account = {
    sequence_number: data['sequence_number'] ?? String(transactionsOf(address).lastAt(version) + 1n),
    authentication_key: data['authentication_key'] ?? `0x${address.slice(2).padStart(64, '0')}`,
  };
  return answerIn(call.form, JSON.stringify(account), () => {
    const key = Buffer.from(account.authentication_key.slice(2), 'hex');
    const handles = [0n, 1n].map((number) => Buffer.concat([u64Bytes(0n), u64Bytes(number), Address.bytes(address)]));
    const numbers = [u64Bytes(BigInt(account.sequence_number)), u64Bytes(2n)];
    return Buffer.concat([
      lengthBytes(key.length),
      key,
      ...numbers,
      ...handles,
      optionBytes(undefined),
      optionBytes(undefined),
    ]);
  });
}

/** `GET /accounts/{address}/resource/{tag}`. */
export function answerResource(call: SampleCall): SampleAnswer {
  const address = call.address(0);
  const tag = call.structTag(1);
  const version = call.resolve(call.pinned());
  const name = TypeTag.format(tag);
  const body = findResource(address, name) ?? findSyntheticResource(address, tag, version, call.historyAt(version));
  if (body === undefined) {
    throw notFound('Resource', { Address: address, 'Struct tag': name, 'Ledger version': version });
  }
  return answerIn(call.form, body);
}

/** `GET /accounts/{address}/module/{name}`. */
export function answerModule(call: SampleCall): SampleAnswer {
  const address = call.address(0);
  const pinned = call.pinned();
  const name = call.moduleName(1);
  const version = call.resolve(pinned);
  const body = findModule(address, name);
  if (body === undefined) {
    throw notFound('Module', { Address: address, 'Module name': name, 'Ledger version': version });
  }
  return answerIn(call.form, body);
}

/** `GET /accounts/{address}/balance/{asset}`: a bare JSON number; 0, not a 404, where there is nothing. */
export function answerBalance(call: SampleCall): SampleAnswer {
  const address = call.address(0);
  const asset = call.params[1] ?? '';
  const tag = TypeTag.find(asset);
  if (tag?.kind !== 'struct' && Address.find(asset) === undefined) {
    throw frameworkError(400, `failed to parse path \`asset_type\`: ${asset}`);
  }
  const version = call.resolve(call.pinned());
  const coin = tag === undefined ? undefined : recordedBalance(address, TypeTag.format(tag));
  const balance = coin ?? balanceAt(call, address, version);
  return answerIn(call.form, balance, () => u64Bytes(BigInt(balance)));
}

function recordedBalance(address: Address, coin: string): string | undefined {
  const store = findResource(address, `0x1::coin::CoinStore<${coin}>`);
  return store === undefined ? undefined : (JSON.parse(store) as { data: { coin: { value: string } } }).data.coin.value;
}

function balanceAt(call: SampleCall, address: Address, version: LedgerVersion): string {
  return isKnownAccount(address) ? syntheticBalance(version, call.historyAt(version)) : '0';
}

/** Name and body of each, in the order of the names. */
type Items = readonly (readonly [string, string])[];

const probeTag = TypeTag.parseStruct('0x1::ledgergate_sample::Probe');

/** `GET /accounts/{a}/resources?ledger_version=&start=&limit=`: the recorded ones and `Probe`. */
export function answerResources(call: SampleCall): SampleAnswer {
  return answerPage(call, (address, version) => {
    const probe = findSyntheticResource(address, probeTag, version, call.historyAt(version)) ?? '';
    // `0x1::ledgergate_sample::Probe` stands at its place in the order of the tags.
    return [...resourcesOf(address), ['0x1::ledgergate_sample::Probe', probe] as const].sort(([a], [b]) =>
      a < b ? -1 : 1,
    );
  });
}

/** `GET /accounts/{a}/modules?ledger_version=&start=&limit=`. */
export function answerModules(call: SampleCall): SampleAnswer {
  return answerPage(call, modulesOf);
}

function answerPage(call: SampleCall, itemsOf: (address: Address, version: bigint) => Items): SampleAnswer {
  const address = call.address(0);
  const pinned = call.pinned();
  const start = cursorQuery(call);
  const limit = call.pageLimit(statePage);
  const version = call.resolve(pinned);
  call.expectAccount(address, version);
  const rest = itemsOf(address, version).filter(([name]) => start === undefined || name >= start);
  const bodies = rest.slice(0, limit).map(([, body]) => body);
  const answer = answerIn(call.form, `[${bodies.join(',')}]`, () => listBytes(bodies.map(standInBytes)));
  const next = rest[limit]?.[0];
  return next === undefined ? answer : { ...answer, cursor: Buffer.from(next).toString('hex') };
}

/** `?start=`: hex without `0x`. It names the first item of the page; a real node's is an encoded state key. */
function cursorQuery(call: SampleCall): string | undefined {
  const text = call.query.get('start');
  if (text === null) return undefined;
  if (/^(?:[0-9a-fA-F]{2})+$/.test(text)) return Buffer.from(text, 'hex').toString();
  throw frameworkError(400, 'failed to parse parameter `start`: invalid state key');
}

/** `POST /tables/{handle}/item`: the value shows which item of which version was read. */
export function answerTableItem(call: SampleCall): SampleAnswer {
  call.expectContentType(isJsonMediaType);
  const handle = call.address(0, 'table_handle');
  const pinned = call.pinned();
  const request = call.jsonBody(['key_type', 'value_type', 'key']);
  const key = JsonValue.canonical(request.members.get('key') ?? null);
  const text = textMember(request, 'value_type') ?? '';
  const tag = TypeTag.find(text);
  const type = tag === undefined ? text : TypeTag.format(tag);
  return answerIn(call.form, itemAt(call, { handle, key, pinned, type }));
}

/** `POST /tables/{handle}/raw_item`: BCS only. */
export function answerRawTableItem(call: SampleCall): SampleAnswer {
  call.expectContentType(isJsonMediaType);
  const handle = call.address(0, 'table_handle');
  const pinned = call.pinned();
  const request = call.jsonBody(['key']);
  if (call.form === 'json')
    throw bareError(403, 'api_disabled', 'Get raw table item with JSON output is disabled on this endpoint');
  const key = textMember(request, 'key') ?? '';
  return bcsAnswer(standInBytes(itemAt(call, { handle, key, pinned, type: 'raw' })));
}

interface ItemRequest {
  readonly handle: Address;
  readonly key: string;
  readonly pinned: bigint | undefined;
  readonly type: string;
}

/** The tables `0x5a......` have an item under every key; every other table is empty. */
function itemAt(call: SampleCall, { handle, key, pinned, type }: ItemRequest): string {
  const version = call.resolve(pinned);
  if (!isMadeUpAccount(handle)) {
    throw notFound('Table Item', { 'Table handle': handle, 'Table key': key, 'Ledger version': version });
  }
  const history = call.historyAt(version);
  const fork = history === '' ? {} : { history };
  return JSON.stringify({ handle, key, value_type: type, ledger_version: String(version), ...fork });
}
