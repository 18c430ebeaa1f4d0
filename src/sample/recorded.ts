/** The recorded answers, indexed for look-up. Bodies are the recorded text and stay it (data/README.md). */
import { Address, FunctionId, JsonValue, TypeTag } from '../ledger/index.ts';
import encodeRows from './data/encode.json' with { type: 'json' };
import moduleRows from './data/modules.json' with { type: 'json' };
import resourceRows from './data/resources.json' with { type: 'json' };
import transactionRows from './data/transactions.json' with { type: 'json' };
import viewRows from './data/views.json' with { type: 'json' };

/** A recorded answer. */
export interface Recorded {
  readonly status: number;
  readonly body: string;
}

const resources = new Map(resourceRows.map((row) => [resourceKey(row.path), row.body]));
const modules = new Map(moduleRows.map((row) => [moduleKey(row.path), row.body]));
const accounts = new Set([...resources.keys(), ...modules.keys()].map((key) => key.slice(0, key.indexOf('/'))));
const views = new Map(viewRows.map((row) => [viewKey(row.request), row]));
/** All recorded transactions; `version` is absent while one is pending. */
export const recordedTransactions = transactionRows.map(({ hash, body }) => ({ hash, version: versionOf(body), body }));
const transactionsByHash = new Map(recordedTransactions.map((transaction) => [transaction.hash, transaction]));
const encodeAnswers = new Map(encodeRows.map((row) => [encodeKey(row.chainId, row.request), row]));

/** Every request for a signing message that a sample node can answer, in recorded order. */
export const encodeVectors = encodeRows;

/** `tag` in canonical text. */
export function findResource(address: Address, tag: string): string | undefined {
  return resources.get(`${address}/${tag}`);
}

/** The recorded answer for a module, JSON text. */
export function findModule(address: Address, name: string): string | undefined {
  return modules.get(`${address}/${name}`);
}

/** The recorded resources of an account: canonical tag and body, in the order of the tags. */
export function resourcesOf(address: Address): readonly (readonly [string, string])[] {
  return recordedAt(resources, address);
}

/** The recorded modules of an account: name and body, in the order of the names. */
export function modulesOf(address: Address): readonly (readonly [string, string])[] {
  return recordedAt(modules, address);
}

function recordedAt(bodies: ReadonlyMap<string, string>, address: Address): readonly (readonly [string, string])[] {
  const start = `${address}/`;
  const found = [...bodies].filter(([key]) => key.startsWith(start));
  return found.map(([key, body]) => [key.slice(start.length), body] as const).sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Whether anything was recorded at `address`. */
export function hasRecordings(address: Address): boolean {
  return accounts.has(address);
}

/** The answer to a view function under any arguments. `id` is canonical. */
export function findView(id: string): Recorded | undefined {
  return views.get(id) ?? views.get(id.slice(id.indexOf('::')));
}

/** The recorded transaction with this hash (`0x` and hex). */
export function findTransactionByHash(hash: string) {
  return transactionsByHash.get(hash);
}

/** The first recording at a version; several may share it. */
export function findTransactionByVersion(version: bigint) {
  return recordedTransactions.find((transaction) => transaction.version === version);
}

/** The answer to a request for a signing message, however its JSON is spelled. */
export function findEncodeAnswer(chainId: number, request: string): Recorded | undefined {
  return encodeAnswers.get(encodeKey(chainId, request));
}

/** `/accounts/{address}/resource/{tag}`, as canonical address and tag. */
function resourceKey(path: string): string {
  const [, , address = '', , tag = ''] = path.split('/');
  return `${Address.parse(address)}/${TypeTag.format(TypeTag.parseStruct(tag))}`;
}

function moduleKey(path: string): string {
  const [, , address = '', , name = ''] = path.split('/');
  return `${Address.parse(address)}/${name}`;
}

/** The canonical function id; one at `{address}` is kept without its address, as `::module::name`. */
function viewKey(request: string): string {
  const { function: text } = JSON.parse(request) as { readonly function: string };
  const id = FunctionId.find(text);
  return id === undefined ? text.slice(text.indexOf('::')) : FunctionId.format(id);
}

function versionOf(body: string): bigint | undefined {
  const { version } = JSON.parse(body) as { readonly version?: string };
  return version === undefined ? undefined : BigInt(version);
}

function encodeKey(chainId: number, request: string): string {
  return `${chainId} ${JsonValue.canonical(JsonValue.parse(request))}`;
}
