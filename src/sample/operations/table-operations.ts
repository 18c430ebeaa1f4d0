/** Items of tables. The tables `0x5a......` have an item under every key; every other table is empty. */
import type { Address } from '../../ledger/address.ts';
import { canonicalJson } from '../../ledger/json-value.ts';
import { findTypeTag, formatTypeTag } from '../../ledger/type-tag.ts';
import { answerIn, bcsAnswer, type SampleAnswer, standInBytes } from '../answer.ts';
import { isJsonMediaType, textMember, type SampleCall } from '../call.ts';
import { bareError, tableItemNotFound } from '../node-error.ts';
import { isMadeUpAccount } from '../synthetic.ts';

/** `POST /tables/{handle}/item`: the value shows which item of which version was read. */
export function answerTableItem(call: SampleCall): SampleAnswer {
  call.expectContentType(isJsonMediaType);
  const handle = call.address(0, 'table_handle');
  const pinned = call.pinned();
  const request = call.jsonBody(['key_type', 'value_type', 'key']);
  const key = canonicalJson(request.members.get('key') ?? null);
  const text = textMember(request, 'value_type') ?? '';
  const tag = findTypeTag(text);
  const type = tag === undefined ? text : formatTypeTag(tag);
  return answerIn(call.form, itemAt(call, { handle, key, pinned, type }));
}

/** `POST /tables/{handle}/raw_item`: BCS only. */
export function answerRawTableItem(call: SampleCall): SampleAnswer {
  call.expectContentType(isJsonMediaType);
  const handle = call.address(0, 'table_handle');
  const pinned = call.pinned();
  const request = call.jsonBody(['key']);
  if (call.form === 'json') {
    const message = 'Get raw table item with JSON output is disabled on this endpoint';
    throw bareError(403, 'api_disabled', message);
  }
  const key = textMember(request, 'key') ?? '';
  return bcsAnswer(standInBytes(itemAt(call, { handle, key, pinned, type: 'raw' })));
}

/** One item to look up. */
interface ItemRequest {
  readonly handle: Address;
  readonly key: string;
  readonly pinned: bigint | undefined;
  readonly type: string;
}

function itemAt(call: SampleCall, { handle, key, pinned, type }: ItemRequest): string {
  const version = call.resolve(pinned);
  if (!isMadeUpAccount(handle)) throw tableItemNotFound(handle, key, version);
  const history = call.historyAt(version);
  const fork = history === '' ? {} : { history };
  return JSON.stringify({ handle, key, value_type: type, ledger_version: String(version), ...fork });
}
