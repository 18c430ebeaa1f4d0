/** Lists of the ledger by version: transactions, and their auxiliary information. */
import { answerIn, type SampleAnswer } from '../answer.ts';
import { lengthBytes, listBytes } from '../bcs.ts';
import { acceptForm, u64Query, type SampleCall } from '../call.ts';
import { versionsPerBlock } from '../ledger-clock.ts';
import { frameworkError, nodeError, versionPruned } from '../node-error.ts';
import { historyPage, mapRange, pageLimit, pageOf, type PageRange } from '../page.ts';
import { onChainBytes, transactionAt } from './transaction-operations.ts';

/** `GET /transactions?start=&limit=`: cut at the head; without `start` the newest page. */
export function answerTransactions(call: SampleCall): SampleAnswer {
  const page = versionsOf(call, u64Query(call, 'start'));
  const bodies = mapRange(page, (version) => transactionAt(call, version));
  return answerIn(acceptForm(call), `[${bodies.join(',')}]`, () => {
    return listBytes(bodies.map((body, index) => onChainBytes(page.first + BigInt(index), body)));
  });
}

/** `GET /transactions/auxiliary_info?start_version=&limit=`: the place of each transaction in its block. */
export function answerAuxiliaryInfo(call: SampleCall): SampleAnswer {
  const start = u64Query(call, 'start_version');
  if (start === undefined) throw frameworkError(400, 'failed to parse parameter `start_version`: missing');
  const places = mapRange(versionsOf(call, start), (version) => Number(version % versionsPerBlock));
  const json = JSON.stringify(places.map((place) => ({ V1: { transaction_index: place } })));
  return answerIn(acceptForm(call), json, () => listBytes(places.map(auxiliaryBytes)));
}

/** Variant 1 and a u32. */
function auxiliaryBytes(place: number): Buffer {
  const index = Buffer.alloc(4);
  index.writeUInt32LE(place);
  return Buffer.concat([lengthBytes(1), index]);
}

function versionsOf(call: SampleCall, start: bigint | undefined): PageRange {
  const limit = pageLimit(call, historyPage);
  const { version: head, oldestVersion } = call.ledger;
  const page = pageOf(start, limit, head);
  if (page.first > head) {
    const bound = `is higher than the current ledger version, it must be < ${head}`;
    throw nodeError(400, 'invalid_input', `Given start value (${page.first}) ${bound}`);
  }
  if (page.first < oldestVersion) throw versionPruned(page.first);
  return page;
}
