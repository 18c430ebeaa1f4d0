/** History of the ledger: transactions by version, their auxiliary information, blocks with and without transactions. */
import { answerIn, type SampleAnswer, lengthBytes, listBytes, hashBytes, optionBytes, u64Bytes } from '../answer.ts';
import { type SampleCall, historyPage, mapRange, pageOf, type PageRange } from '../call.ts';
import { versionsPerBlock, blockHeightOf } from '../ledger-clock.ts';
import { frameworkError, nodeError, versionPruned, blockNotFound, blockPruned } from '../node-error.ts';
import { onChainBytes, transactionAt } from './transaction-operations.ts';
import { syntheticHash } from '../synthetic.ts';

/** `GET /transactions?start=&limit=`: cut at the head; without `start` the newest page. */
export function answerTransactions(call: SampleCall): SampleAnswer {
  const page = versionsOf(call, call.u64Query('start'));
  const bodies = mapRange(page, (version) => transactionAt(call, version));
  return answerIn(call.form, `[${bodies.join(',')}]`, () => {
    return listBytes(bodies.map((body, index) => onChainBytes(page.first + BigInt(index), body)));
  });
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
  const { version: head, oldestVersion } = call.ledger;
  const page = pageOf(start, limit, head);
  if (page.first > head) {
    const bound = `is higher than the current ledger version, it must be < ${head}`;
    throw nodeError(400, 'invalid_input', `Given start value (${page.first}) ${bound}`);
  }
  if (page.first < oldestVersion) throw versionPruned(page.first);
  return page;
}

/** `GET /blocks/by_height/{h}`. */
export function answerBlockByHeight(call: SampleCall): SampleAnswer {
  const height = call.u64(0, 'block_height');
  if (height > call.ledger.blockHeight) throw blockNotFound(`Block height(${height})`);
  if (height < call.ledger.oldestBlockHeight) throw blockPruned(height);
  return answerBlock(call, height);
}

/** `GET /blocks/by_version/{v}`. */
export function answerBlockByVersion(call: SampleCall): SampleAnswer {
  const version = call.u64(0, 'version');
  if (version > call.ledger.version) throw blockNotFound(`Ledger version(${version})`);
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
  const transactions = call.query.get('with_transactions') === 'true' ? mapRange(range, textAt) : undefined;
  const list = transactions === undefined ? 'null' : `[${transactions.join(',')}]`;
  return answerIn(call.form, `${JSON.stringify(block).slice(0, -1)},"transactions":${list}}`, () => {
    const items = transactions?.map((text, index) => onChainBytes(first + BigInt(index), text));
    const numbers = [u64Bytes(timestampUsec), u64Bytes(first), u64Bytes(end)];
    const option = optionBytes(items === undefined ? undefined : listBytes(items));
    return Buffer.concat([u64Bytes(height), hashBytes(hash), ...numbers, option]);
  });

  function textAt(version: bigint): string {
    return transactionAt(call, version);
  }
}
