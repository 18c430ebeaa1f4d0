/** Transactions that an account has sent, whole and in summary. */
import type { Address } from '../../ledger/address.ts';
import { answerIn, type SampleAnswer, listBytes, standInBytes } from '../answer.ts';
import { type SampleCall, historyPage, mapRange, pageOf, type PageRange } from '../call.ts';
import { accountNotFound, versionPruned } from '../node-error.ts';
import { committedFields, isKnownAccount, syntheticTransactionHash, transactionsOf } from '../synthetic.ts';
import { onChainBytes } from './transaction-operations.ts';

/** `GET /accounts/{a}/transactions?start=&limit=`: `start` is a sequence number. */
export function answerAccountTransactions(call: SampleCall): SampleAnswer {
  const start = call.u64Query('start');
  const { address, limit } = accountPage(call);
  const stream = transactionsOf(address);
  const page = pageOf(start, limit, stream.lastAt(call.ledger.version));
  if (page.count > 0) expectHeld(call, stream.versionOf(page.first));
  const bodies = mapRange(page, (sequence) => sentTransaction(call, address, sequence));
  return answerIn(call.form, `[${bodies.join(',')}]`, () => {
    return listBytes(bodies.map((body, index) => onChainBytes(stream.versionOf(page.first + BigInt(index)), body)));
  });
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
  if (!isKnownAccount(address)) throw accountNotFound(address, call.ledger.version);
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
function sentTransaction(call: SampleCall, address: Address, sequence: bigint): string {
  const version = transactionsOf(address).versionOf(sequence);
  const history = call.historyAt(version);
  return JSON.stringify({
    version: String(version),
    hash: syntheticTransactionHash(version, history),
    ...committedFields(version, history),
    sender: address,
    sequence_number: String(sequence),
    timestamp: String(call.clock.timestampUsecOf(version)),
    type: 'user_transaction',
  });
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
