/** Events of an account, by creation number and by the handle that holds it. */
import { Address, TypeTag } from '../../ledger/index.ts';
import { answerIn, type SampleAnswer, lengthBytes, listBytes, standInBytes, u64Bytes } from '../answer.ts';
import { type SampleCall, historyPage, mapRange, pageOf } from '../call.ts';
import { nodeError, notFound } from '../node-error.ts';
import { findResource } from '../recorded.ts';
import { findSyntheticResource, streamOf, type Stream } from '../synthetic.ts';

/** Creation numbers below this have a stream; above it there never was an event. */
const streams = 16n;

/** The field of `Probe` that serves as an event handle. */
const probeField = 'events';
const probeCreationNumber = 4n;

interface EventKey {
  readonly address: Address;
  readonly creationNumber: bigint;
}

/** `GET /accounts/{a}/events/{creation_number}?start=&limit=`. */
export function answerEventsByNumber(call: SampleCall): SampleAnswer {
  const address = call.address(0);
  const creationNumber = call.u64(1, 'creation_number');
  const start = call.u64Query('start');
  const limit = call.pageLimit(historyPage);
  call.expectAccount(address);
  return answerEvents(call, { address, creationNumber }, { start, limit });
}

/** `GET /accounts/{a}/events/{handle}/{field}?start=&limit=`: the handle is looked up at the head. */
export function answerEventsByHandle(call: SampleCall): SampleAnswer {
  const address = call.address(0);
  const tag = call.structTag(1);
  const start = call.u64Query('start');
  const limit = call.pageLimit(historyPage);
  const { version } = call.ledger;
  const name = TypeTag.format(tag);
  const resource = findResource(address, name) ?? findSyntheticResource(address, tag, version);
  if (resource === undefined) {
    throw notFound('Resource', { Address: address, 'Struct tag': name, 'Ledger version': version });
  }
  const field = call.params[2] ?? '';
  const isProbe = tag.name === 'Probe' && field === probeField;
  const key = isProbe ? { address, creationNumber: probeCreationNumber } : recordedKey(resource, field);
  if (key === undefined) {
    const by = { Address: address, 'Struct tag': name, 'Field name': field, 'Ledger version': version };
    throw notFound('Struct Field', by);
  }
  return answerEvents(call, key, { start, limit });
}

/** The key in a recorded handle: `{"counter":"3","guid":{"id":{"addr":"0x1","creation_num":"2"}}}`. */
function recordedKey(resource: string, field: string): EventKey | undefined {
  const { data } = JSON.parse(resource) as { data: Record<string, Partial<RecordedHandle> | undefined> };
  const id = Object.hasOwn(data, field) ? data[field]?.guid?.id : undefined;
  const address = Address.find(id?.addr ?? '');
  return id === undefined || address === undefined ? undefined : { address, creationNumber: BigInt(id.creation_num) };
}

interface RecordedHandle {
  readonly guid: { readonly id: { readonly addr: string; readonly creation_num: string } };
}

function answerEvents(
  call: SampleCall,
  key: EventKey,
  asked: { readonly start: bigint | undefined; readonly limit: number },
): SampleAnswer {
  const stream = streamOf(key.address, `events ${key.creationNumber}`);
  const last = key.creationNumber < streams ? stream.lastAt(call.ledger.version) : -1n;
  const page = pageOf(asked.start, asked.limit, last);
  if (page.count > 0 && stream.versionOf(page.first) < call.ledger.oldestVersion) {
    // It names no version.
    throw nodeError(410, 'version_pruned', 'The requested events have been pruned');
  }
  const bodies = mapRange(page, (sequence) => eventBody(call, key, { stream, sequence }));
  return answerIn(call.form, `[${bodies.join(',')}]`, () => {
    const eventKey = [u64Bytes(key.creationNumber), Address.bytes(key.address)];
    const heads = mapRange(page, (sequence) => [
      u64Bytes(stream.versionOf(sequence)),
      lengthBytes(0),
      ...eventKey,
      u64Bytes(sequence),
    ]);
    return listBytes(bodies.map((body, at) => Buffer.concat([...(heads[at] ?? []), standInBytes(body)])));
  });
}

function eventBody(
  call: SampleCall,
  key: EventKey,
  { stream, sequence }: { readonly stream: Stream; readonly sequence: bigint },
): string {
  const version = stream.versionOf(sequence);
  const history = call.historyAt(version);
  return JSON.stringify({
    version: String(version),
    guid: { creation_number: String(key.creationNumber), account_address: key.address },
    sequence_number: String(sequence),
    type: '0x1::ledgergate_sample::Event',
    data: { amount: String(version * 3n), ...(history === '' ? {} : { history }) },
  });
}
