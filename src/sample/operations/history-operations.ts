/** History of the ledger (transactions by version, their places in blocks, blocks) and of one account. */
import {
  answerIn,
  type SampleAnswer,
  lengthBytes,
  listBytes,
  hashBytes,
  optionBytes,
  u64Bytes,
  standInBytes,
} from '../answer.ts';
import { type SampleCall, historyPage, mapRange, pageOf, type PageRange } from '../call.ts';
import { versionsPerBlock, blockHeightOf } from '../ledger-clock.ts';
import { frameworkError, nodeError, versionPruned, notFound } from '../node-error.ts';
import { onChainBytes, transactionAt, type Committed } from './transaction-operations.ts';
import { syntheticHash, committedFields, syntheticTransactionHash, transactionsOf } from '../synthetic.ts';
import type { Address } from '../../ledger/index.ts';

/** `GET /transactions?start=&limit=`: cut at the head; without `start` the newest page. */
export function answerTransactions(call: SampleCall): SampleAnswer {
  const page = versionsOf(call, call.u64Query('start'));
  return answerList(
    call,
    mapRange(page, (version) => transactionAt(call, version)),
  );
}

/** `GET /transactions/auxiliary_info?start_version=&limit=`: the place of each transaction in its block. */
export function answerAuxiliaryInfo(call: SampleCall): SampleAnswer {
  const start = call.u64Query('start_version');
  if (start === undefined) throw frameworkError(400, 'failed to parse parameter `start_version`: missing');
  const places = mapRange(versionsOf(call, start), (version) => Number(version % versionsPerBlock));
  const json = JSON.stringify(places.map((place) => ({ V1: { transaction_index: place } })));
  return answerIn(call.form, json, () => listBytes(places.map(auxiliaryBytes)));
}

/** Variant 1 and a u32. */
function auxiliaryBytes(place: number): Buffer {
  const index = Buffer.alloc(4);
  index.writeUInt32LE(place);
  return Buffer.concat([lengthBytes(1), index]);
}

function versionsOf(call: SampleCall, start: bigint | undefined): PageRange {
  const limit = call.pageLimit(historyPage);
  const { version: head } = call.ledger;
  const page = pageOf(start, limit, head);
  if (page.first > head) {
    const bound = `is higher than the current ledger version, it must be < ${head}`;
    throw nodeError(400, 'invalid_input', `Given start value (${page.first}) ${bound}`);
  }
  expectHeld(call, page.first);
  return page;
}

/** `GET /blocks/by_height/{h}`. */
export function answerBlockByHeight(call: SampleCall): SampleAnswer {
  const height = call.u64(0, 'block_height');
  if (height > call.ledger.blockHeight) throw notFound('Block', { 'Block height': height });
  if (height < call.ledger.oldestBlockHeight) throw nodeError(410, 'block_pruned', `Block(${height}) has been pruned`);
  return answerBlock(call, height);
}

/** `GET /blocks/by_version/{v}`. */
export function answerBlockByVersion(call: SampleCall): SampleAnswer {
  const version = call.u64(0, 'version');
  if (version > call.ledger.version) throw notFound('Block', { 'Ledger version': version });
  return answerBlock(call, blockHeightOf(call.resolve(version)));
}

/** A manual ledger may stand inside a block: its last version is then the head, and grows with it. */
function answerBlock(call: SampleCall, height: bigint): SampleAnswer {
  const first = height * versionsPerBlock;
  const last = first + versionsPerBlock - 1n;
  const end = last < call.ledger.version ? last : call.ledger.version;
  const hash = syntheticHash(`block ${height}${call.historyAt(end)}`);
  const timestampUsec = call.clock.timestampUsecOf(first);
  const block = {
    block_height: String(height),
    block_hash: hash,
    block_timestamp: String(timestampUsec),
    first_version: String(first),
    last_version: String(end),
  };
  const range = { first, count: Number(end - first) + 1 };
  const isWhole = call.query.get('with_transactions') === 'true';
  const transactions = isWhole ? mapRange(range, (version) => transactionAt(call, version)) : undefined;
  const list = transactions === undefined ? 'null' : textOf(transactions);
  return answerIn(call.form, `${JSON.stringify(block).slice(0, -1)},"transactions":${list}}`, () => {
    const items = transactions?.map(onChainBytes);
    const numbers = [u64Bytes(timestampUsec), u64Bytes(first), u64Bytes(end)];
    const option = optionBytes(items === undefined ? undefined : listBytes(items));
    return Buffer.concat([u64Bytes(height), hashBytes(hash), ...numbers, option]);
  });
}

/** `GET /accounts/{a}/transactions?start=&limit=`: `start` is a sequence number. */
export function answerAccountTransactions(call: SampleCall): SampleAnswer {
  const start = call.u64Query('start');
  const { address, limit } = accountPage(call);
  const stream = transactionsOf(address);
  const page = pageOf(start, limit, stream.lastAt(call.ledger.version));
  if (page.count > 0) expectHeld(call, stream.versionOf(page.first));
  return answerList(
    call,
    mapRange(page, (sequence) => sentTransaction(call, address, sequence)),
  );
}

function answerList(call: SampleCall, list: readonly Committed[]): SampleAnswer {
  return answerIn(call.form, textOf(list), () => listBytes(list.map(onChainBytes)));
}

function textOf(list: readonly Committed[]): string {
  return `[${list.map(({ body }) => body).join(',')}]`;
}

/**
 * `GET /accounts/{a}/transaction_summaries?start_version=&end_version=&limit=`: from `start_version` on, or else the
 * last ones up to `end_version`; oldest first in both cases.
 */
export function answerAccountSummaries(call: SampleCall): SampleAnswer {
  const [start, end] = [call.u64Query('start_version'), call.u64Query('end_version')];
  const { address, limit } = accountPage(call);
  const page = summaryPage(call, address, { start, end, limit });
  const bodies = mapRange(page, (sequence) => summary(call, address, sequence));
  return answerIn(call.form, `[${bodies.join(',')}]`, () => listBytes(bodies.map(standInBytes)));
}

function accountPage(call: SampleCall): { address: Address; limit: number } {
  const address = call.address(0);
  const limit = call.pageLimit(historyPage);
  call.expectAccount(address);
  return { address, limit };
}

function expectHeld(call: SampleCall, version: bigint): void {
  if (version < call.ledger.oldestVersion) throw versionPruned(version);
}

function summaryPage(
  call: SampleCall,
  address: Address,
  asked: { readonly start: bigint | undefined; readonly end: bigint | undefined; readonly limit: number },
): PageRange {
  const { ledger } = call;
  const stream = transactionsOf(address);
  const last = stream.lastAt(asked.end === undefined || asked.end > ledger.version ? ledger.version : asked.end);
  if (asked.start === undefined) return pageOf(undefined, asked.limit, last);
  expectHeld(call, asked.start);
  // The first one at or after the version is the one behind the last before it.
  const first = asked.start === 0n ? 0n : stream.lastAt(asked.start - 1n) + 1n;
  return pageOf(first, asked.limit, last);
}

/**
 * A stream numbers the transactions of each account by itself, so that several accounts share versions: by version the
 * node shows the checkpoint there, by account the transaction that was sent.
 */
function sentTransaction(call: SampleCall, address: Address, sequence: bigint): Committed {
  const version = transactionsOf(address).versionOf(sequence);
  const history = call.historyAt(version);
  const hash = syntheticTransactionHash(version, history);
  const body = JSON.stringify({
    version: String(version),
    hash,
    ...committedFields(version, history),
    sender: address,
    sequence_number: String(sequence),
    timestamp: String(call.clock.timestampUsecOf(version)),
    type: 'user_transaction',
  });
  return { version, hash, body };
}

function summary(call: SampleCall, address: Address, sequence: bigint): string {
  const version = transactionsOf(address).versionOf(sequence);
  return JSON.stringify({
    sender: address,
    version: String(version),
    transaction_hash: syntheticTransactionHash(version, call.historyAt(version)),
    replay_protector: { SequenceNumber: String(sequence) },
  });
}
