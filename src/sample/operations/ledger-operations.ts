/** Ledger information, health, gas price and blocks. */
import { acceptForm, resolveVersion, u64Param, type SampleCall } from '../call.ts';
import { answerIn, jsonAnswer, type SampleAnswer } from '../answer.ts';
import { blockHeightOf, versionsPerBlock } from '../ledger-clock.ts';
import { blockNotFound, blockPruned, frameworkError, nodeError } from '../node-error.ts';
import { syntheticHash } from '../synthetic.ts';
import { transactionAt } from './transaction-operations.ts';

/** `GET /`: the numbers of this answer's own headers. */
export function answerLedgerInfo(call: SampleCall): SampleAnswer {
  const { ledger } = call;
  const body = {
    chain_id: ledger.chainId,
    epoch: String(ledger.epoch),
    ledger_version: String(ledger.version),
    oldest_ledger_version: String(ledger.oldestVersion),
    ledger_timestamp: String(ledger.timestampUsec),
    node_role: 'full_node',
    oldest_block_height: String(ledger.oldestBlockHeight),
    block_height: String(ledger.blockHeight),
    git_hash: 'ledgergate-sample',
  };
  return answerIn(acceptForm(call), JSON.stringify(body));
}

/** `GET /-/healthy?duration_secs=`: whether the ledger's timestamp is that young. */
export function answerHealthy(call: SampleCall): SampleAnswer {
  const text = call.query.get('duration_secs');
  if (text !== null && !/^\d{1,9}$/.test(text)) throw frameworkError(400, 'failed to parse parameter `duration_secs`');
  const ageMs = Date.now() - Number(call.ledger.timestampUsec / 1000n);
  if (text !== null && ageMs > Number(text) * 1000) {
    const skew = `which is beyond the allowed skew (${text}s)`;
    throw nodeError(503, 'health_check_failed', `The latest ledger info timestamp is ${ageMs}ms, ${skew}.`);
  }
  return jsonAnswer('{"message":"aptos-node:ok"}');
}

/** `GET /estimate_gas_price`. */
export function answerGasPrice(): SampleAnswer {
  return jsonAnswer('{"deprioritized_gas_estimate":100,"gas_estimate":100,"prioritized_gas_estimate":150}');
}

/** `GET /blocks/by_height/{h}`. */
export function answerBlockByHeight(call: SampleCall): SampleAnswer {
  const height = u64Param(call, 0, 'block_height');
  if (height > call.ledger.blockHeight) throw blockNotFound(`Block height(${height})`);
  if (height < call.ledger.oldestBlockHeight) throw blockPruned(height);
  return answerBlock(call, height);
}

/** `GET /blocks/by_version/{v}`. */
export function answerBlockByVersion(call: SampleCall): SampleAnswer {
  const version = u64Param(call, 0, 'version');
  if (version > call.ledger.version) throw blockNotFound(`Ledger version(${version})`);
  return answerBlock(call, blockHeightOf(resolveVersion(call.ledger, version)));
}

function answerBlock(call: SampleCall, height: bigint): SampleAnswer {
  const first = height * versionsPerBlock;
  const last = first + versionsPerBlock - 1n;
  const end = last < call.ledger.version ? last : call.ledger.version;
  const block = {
    block_height: String(height),
    block_hash: syntheticHash(`block ${height}`),
    block_timestamp: String(call.clock.timestampUsecOf(first)),
    first_version: String(first),
    last_version: String(end),
  };
  const transactions: string[] = [];
  if (call.query.get('with_transactions') === 'true') {
    for (let version = first; version <= end; version += 1n) transactions.push(transactionAt(call, version));
  }
  const list = transactions.length === 0 ? 'null' : `[${transactions.join(',')}]`;
  return answerIn(acceptForm(call), `${JSON.stringify(block).slice(0, -1)},"transactions":${list}}`);
}
