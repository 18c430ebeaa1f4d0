/** Look-up of transactions, submission, and the signing message ahead of it. */
import { setTimeout as delay } from 'node:timers/promises';
import { answerIn, hashBytes, jsonAnswer, type SampleAnswer, standInBytes, u64Bytes } from '../answer.ts';
import { isJsonMediaType, textMember, type SampleCall } from '../call.ts';
import type { JsonObject } from '../../ledger/index.ts';
import { bareError, frameworkError, nodeError, notFound } from '../node-error.ts';
import { findEncodeAnswer, findTransactionByHash, findTransactionByVersion } from '../recorded.ts';
import {
  committedFields,
  syntheticHash,
  syntheticTransaction,
  syntheticTransactionHash,
  versionOfTransactionHash,
} from '../synthetic.ts';

/** How a node waits for a pending transaction: a look every 20 ms, for a second (protocol 1, row 19). */
const waitStepMs = 20;
const waitSteps = 50;

/** The first byte of a transaction in BCS (protocol 1.1). */
const onChainVariant = Buffer.from([0]);
const pendingVariant = Buffer.from([1]);

/** `GET /transactions/by_hash/{hash}`. */
export function answerByHash(call: SampleCall): SampleAnswer {
  return answerFound(call, hashParam(call));
}

/** `GET /transactions/wait_by_hash/{hash}`: waits while it is pending; an unknown hash is a 404 at once. */
export async function answerWaitByHash(call: SampleCall): Promise<SampleAnswer> {
  const hash = hashParam(call);
  for (let step = 0; step < waitSteps && isPending(call, hash); step += 1) {
    await delay(waitStepMs, undefined, { signal: call.signal });
  }
  return answerFound(call, hash);
}

function isPending(call: SampleCall, hash: string): boolean {
  const found = call.mempool.find(hash, call.clock.read().version);
  return found !== undefined && found.version === undefined;
}

function answerFound(call: SampleCall, hash: string): SampleAnswer {
  const { ledger } = call;
  const found = call.mempool.find(hash, ledger.version) ?? findTransactionByHash(hash) ?? findSynthetic(call, hash);
  if (found === undefined) throw notFound('Transaction', { 'Transaction hash': hash });
  const { version, body } = found;
  if (version === undefined) {
    return answerIn(call.form, body, () => Buffer.concat([pendingVariant, standInBytes(body)]));
  }
  // A pruned transaction is not found, because its index went with it: never a 410 here (protocol 7).
  const held = version >= ledger.oldestVersion && version <= ledger.version;
  if (!held) throw notFound('Transaction', { 'Transaction hash': hash });
  return answerCommitted(call, { version, hash, body });
}

/** `undefined` also for a version that has a recorded or a submitted transaction: that one has another hash. */
function findSynthetic(call: SampleCall, hash: string): Committed | undefined {
  const version = versionOfTransactionHash(hash);
  const isTaken = findTransactionByVersion(version) !== undefined || call.mempool.at(version) !== undefined;
  if (version > call.ledger.version || isTaken) return undefined;
  if (syntheticTransactionHash(version, call.historyAt(version)) !== hash) return undefined;
  return transactionAt(call, version);
}

/** `GET /transactions/by_version/{version}`. */
export function answerByVersion(call: SampleCall): SampleAnswer {
  const wanted = call.u64(0, 'txn_version');
  if (wanted > call.ledger.version) throw notFound('Transaction', { 'Ledger version': wanted });
  call.resolve(wanted);
  return answerCommitted(call, transactionAt(call, wanted));
}

function answerCommitted(call: SampleCall, transaction: Committed): SampleAnswer {
  return answerIn(call.form, transaction.body, () => Buffer.concat([onChainVariant, onChainBytes(transaction)]));
}

/** A committed transaction; `body`: its JSON text. */
export interface Committed {
  readonly version: bigint;
  readonly hash: string;
  readonly body: string;
}

/** A committed transaction in BCS, as it stands in lists: it begins with its version, and holds its hash. */
export function onChainBytes({ version, hash, body }: Committed): Buffer {
  return Buffer.concat([u64Bytes(version), standInBytes(body), hashBytes(hash)]);
}

/** The transaction at a version: a submitted one, the recorded one, or a synthetic one. */
export function transactionAt(call: SampleCall, version: bigint): Committed {
  const { clock, mempool } = call;
  const submitted = mempool.at(version);
  if (submitted !== undefined) return { ...submitted, version };
  const recorded = findTransactionByVersion(version);
  if (recorded !== undefined) return { ...recorded, version };
  const history = call.historyAt(version);
  const body = syntheticTransaction(version, clock.timestampUsecOf(version), history);
  return { version, hash: syntheticTransactionHash(version, history), body };
}

/** `POST /transactions`: 202, and the transaction is pending from here on. */
export function answerSubmit(call: SampleCall): SampleAnswer {
  return jsonAnswer(call.mempool.submit(call.body, signedTransaction(call)), 202);
}

/** `POST /transactions/simulate`: one transaction that succeeds at the head, with the gas that it used. */
export function answerSimulate(call: SampleCall): SampleAnswer {
  signedTransaction(call);
  const { version } = call.ledger;
  const start = { version: String(version), hash: syntheticHash(call.body), ...committedFields(version) };
  const body = JSON.stringify({ ...start, timestamp: String(call.ledger.timestampUsec), type: 'user_transaction' });
  return { ...answerIn(call.form, `[${body}]`), gasUsed: 9n };
}

/** The JSON of a submission; `undefined` for one in BCS, which a sample node does not read. */
function signedTransaction(call: SampleCall): JsonObject | undefined {
  const type = call.expectContentType((text) => text === 'application/json' || text === signedTransactionType);
  return type === signedTransactionType ? undefined : call.jsonBody(signedMembers);
}

const signedTransactionType = 'application/x.aptos.signed_transaction+bcs';
const unsignedMembers = 'sender sequence_number max_gas_amount gas_unit_price expiration_timestamp_secs payload'.split(
  ' ',
);
const signedMembers = [...unsignedMembers, 'signature'];

function hashParam(call: SampleCall): string {
  const hex = /^(?:0x)?([0-9a-fA-F]{64})$/.exec(call.params[0] ?? '')?.[1];
  if (hex !== undefined) return `0x${hex.toLowerCase()}`;
  const reason = 'failed to parse "string(HashValue)": unable to parse HashValue';
  throw frameworkError(400, `failed to parse path \`txn_hash\`: ${reason}`);
}

/**
 * `POST /transactions/encode_submission`: a sample node has no encoder. The recorded answer for this node's chain; a
 * request without a recording is refused as unknown code is.
 */
export function answerEncodeSubmission(call: SampleCall): SampleAnswer {
  call.expectContentType(isJsonMediaType);
  const request = call.jsonBody(unsignedMembers);
  const payload = request.members.get('payload');
  const recorded = findEncodeAnswer(call.ledger.chainId, call.body.toString());
  if (call.form === 'bcs') {
    throw bareError(400, 'bcs_not_supported', 'BCS is not supported for encode submission');
  }
  if (recorded !== undefined) {
    const framework = recorded.status !== 200 && recorded.body.includes('"web_framework_error"');
    return { ...jsonAnswer(recorded.body, recorded.status), ledgerHeaders: !framework };
  }
  const isObject = typeof payload === 'object' && payload !== null && payload.kind === 'object';
  const name = (isObject ? textMember(payload, 'function') : undefined) ?? 'an unrecorded payload';
  const prefix = 'The given transaction is invalid: Failed to parse transaction payload';
  throw nodeError(400, 'invalid_input', `${prefix}: could not find entry function by ${name}`);
}
