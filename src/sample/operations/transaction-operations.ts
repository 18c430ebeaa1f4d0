/** Look-up of transactions, and submission. */
import { setTimeout as delay } from 'node:timers/promises';
import { answerIn, jsonAnswer, type SampleAnswer } from '../answer.ts';
import {
  acceptForm,
  expectContentType,
  historyAt,
  jsonBody,
  resolveVersion,
  u64Param,
  type SampleCall,
} from '../call.ts';
import { frameworkError, transactionNotFound } from '../node-error.ts';
import { findTransactionByHash, findTransactionByVersion } from '../recorded.ts';
import { syntheticTransaction } from '../synthetic.ts';

/** How a node waits for a pending transaction: a look every 20 ms, for a second (protocol 1, row 19). */
const waitStepMs = 20;
const waitSteps = 50;

/** The first byte of a transaction in BCS (protocol 1.1). */
const onChainVariant = 0;
const pendingVariant = 1;

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
  const form = acceptForm(call);
  const found = call.mempool.find(hash, ledger.version) ?? findTransactionByHash(hash);
  if (found === undefined) throw transactionNotFound(`Transaction hash(${hash})`);
  if (found.version === undefined) return answerIn(form, found.body, pendingVariant);
  // A pruned transaction is not found, because its index went with it: never a 410 here (protocol 7).
  const held = found.version >= ledger.oldestVersion && found.version <= ledger.version;
  if (!held) throw transactionNotFound(`Transaction hash(${hash})`);
  return answerIn(form, found.body, onChainVariant);
}

/** `GET /transactions/by_version/{version}`. */
export function answerByVersion(call: SampleCall): SampleAnswer {
  const wanted = u64Param(call, 0, 'txn_version');
  if (wanted > call.ledger.version) throw transactionNotFound(`Ledger version(${wanted})`);
  resolveVersion(call.ledger, wanted);
  return answerIn(acceptForm(call), transactionAt(call, wanted), onChainVariant);
}

/** The text of the transaction at a version: the recorded one, or a synthetic one. */
export function transactionAt(call: SampleCall, version: bigint): string {
  const { clock } = call;
  const recorded = findTransactionByVersion(version)?.body;
  return recorded ?? syntheticTransaction(version, clock.timestampUsecOf(version), historyAt(call, version));
}

/** `POST /transactions`: 202, and the transaction is pending from here on. */
export function answerSubmit(call: SampleCall): SampleAnswer {
  const type = expectContentType(call, (text) => text === 'application/json' || text === signedTransactionType);
  const request = type === signedTransactionType ? undefined : jsonBody(call, signedMembers);
  return jsonAnswer(call.mempool.submit(call.body, request), 202);
}

const signedTransactionType = 'application/x.aptos.signed_transaction+bcs';
/** Members of an unsigned transaction in JSON. */
export const unsignedMembers = [
  'sender',
  'sequence_number',
  'max_gas_amount',
  'gas_unit_price',
  'expiration_timestamp_secs',
  'payload',
];
const signedMembers = [...unsignedMembers, 'signature'];

function hashParam(call: SampleCall): string {
  const hex = /^(?:0x)?([0-9a-fA-F]{64})$/.exec(call.params[0] ?? '')?.[1];
  if (hex !== undefined) return `0x${hex.toLowerCase()}`;
  const reason = 'failed to parse "string(HashValue)": unable to parse HashValue';
  throw frameworkError(400, `failed to parse path \`txn_hash\`: ${reason}`);
}
