/** Blocks by height and by version, with and without their transactions. */
import { answerIn, type SampleAnswer } from '../answer.ts';
import { hashBytes, listBytes, optionBytes, u64Bytes } from '../bcs.ts';
import { acceptForm, historyAt, resolveVersion, u64Param, type SampleCall } from '../call.ts';
import { blockHeightOf, versionsPerBlock } from '../ledger-clock.ts';
import { blockNotFound, blockPruned } from '../node-error.ts';
import { mapRange } from '../page.ts';
import { syntheticHash } from '../synthetic.ts';
import { onChainBytes, transactionAt } from './transaction-operations.ts';

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

/** A manual ledger may stand inside a block: its last version is then the head, and grows with it. */
function answerBlock(call: SampleCall, height: bigint): SampleAnswer {
  const first = height * versionsPerBlock;
  const last = first + versionsPerBlock - 1n;
  const end = last < call.ledger.version ? last : call.ledger.version;
  const hash = syntheticHash(`block ${height}${historyAt(call, end)}`);
  const timestampUsec = call.clock.timestampUsecOf(first);
  const block = {
    block_height: String(height),
    block_hash: hash,
    block_timestamp: String(timestampUsec),
    first_version: String(first),
    last_version: String(end),
  };
  const range = { first, count: Number(end - first) + 1 };
  const transactions = call.query.get('with_transactions') === 'true' ? mapRange(range, textAt) : undefined;
  const list = transactions === undefined ? 'null' : `[${transactions.join(',')}]`;
  return answerIn(acceptForm(call), `${JSON.stringify(block).slice(0, -1)},"transactions":${list}}`, () => {
    const items = transactions?.map((text, index) => onChainBytes(first + BigInt(index), text));
    const numbers = [u64Bytes(timestampUsec), u64Bytes(first), u64Bytes(end)];
    const option = optionBytes(items === undefined ? undefined : listBytes(items));
    return Buffer.concat([u64Bytes(height), hashBytes(hash), ...numbers, option]);
  });

  function textAt(version: bigint): string {
    return transactionAt(call, version);
  }
}
