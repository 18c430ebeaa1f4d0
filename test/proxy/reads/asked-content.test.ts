/** Successes that are of the read that was asked, and others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonBody, type AnswerForm } from '../../../src/ledger/answer-body.ts';
import { Address } from '../../../src/ledger/type-tag.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { isContentOf, type AskedRead } from '../../../src/proxy/reads/asked-content.ts';
import {
  compareAnswers,
  firstDifference,
  type AnswerComparison,
  type FinalAnswer,
} from '../../../src/proxy/reads/audits.ts';
import moduleRows from '../../../src/sample/data/modules.json' with { type: 'json' };
import resourceRows from '../../../src/sample/data/resources.json' with { type: 'json' };
import transactionRows from '../../../src/sample/data/transactions.json' with { type: 'json' };
import viewRows from '../../../src/sample/data/views.json' with { type: 'json' };
import { errorBody } from '../../support/error-body.ts';
import { readModule, readResource, readTransaction, readView } from '../../support/reads.ts';

const hash = `0x${'ab'.repeat(32)}`;
const error = '{"message":"m","error_code":"internal_error","vm_error_code":null}';
const version = LedgerVersion.of(600n);
const generic = '0x1::coin::CoinInfo<0xa::a::A, vector<u8>>';

type Asked = AskedRead & { readonly form: AnswerForm };

function isContent(asked: Asked, body: Buffer): boolean {
  return isContentOf(asked, { form: asked.form, body, json: new JsonBody(body) });
}

const subjects: Partial<Record<AskedRead['operation'], string>> = {
  resource: `0x1/${generic}`,
  module: '0xa/coin',
  modules: '0xa/',
  transaction: hash,
  events: '0xa/7?start=5&limit=2',
  account: '0xa/',
};

function read(operation: AskedRead['operation'], extent?: AskedRead['extent']): Asked {
  return { operation, subject: subjects[operation] ?? '', form: 'json', version, extent };
}

const block = { kind: 'block', height: 60n } as const;
const bare = { kind: 'bare block', height: 60n } as const;
const list = { kind: 'list', first: 600n, limit: 2 } as const;
const page = { kind: 'page', first: 5n, limit: 2 } as const;
const others: AskedRead['operation'][] = ['resource', 'module', 'account', 'transaction', 'by_version', 'block'];
const arrays: AskedRead['operation'][] = ['view', 'modules', 'resources', 'transactions', 'auxiliary_info', 'events'];
const ofBlock = '"block_height":"60","first_version":"600","last_version":"601"';
const event = '"sequence_number":"5","guid":{"creation_number":"7","account_address"';
const huge = 'a'.repeat(1024 * 1024);
/** Above the size up to which objects are parsed. */
const code = `"bytecode":"0x${'00'.repeat(16 * 1024)}"`;
const handle = '0xa/0x1::a::B/put?start=5';
const digits = { ...read('events', page), subject: '0x1b/17' };

const rows: readonly (readonly [Asked, string, boolean])[] = [
  ...others.flatMap((operation) => [
    [read(operation), '{"new":1}', false] as const,
    [read(operation), '[]', false] as const,
    [read(operation), 'null', false] as const,
    [read(operation), '5', false] as const,
    [read(operation), error, false] as const,
  ]),
  ...arrays.flatMap((operation) => [
    [read(operation), '[]', true] as const,
    [read(operation), '{}', false] as const,
    [read(operation), 'null', false] as const,
    [read(operation), error, false] as const,
  ]),
  ...['0', '18446744073709551615'].map((text) => [read('balance'), text, true] as const),
  ...['18446744073709551617000', '-1', '0.5', '"5"', 'true', 'null', '[]', error].map(
    (text) => [read('balance'), text, false] as const,
  ),
  ...['null', '5', '[]', '{}', '"text"', '{"message":"m"}', '{"message":"m","error_code":"c","more":1}'].map(
    (value) => [read('table_item'), value, true] as const,
  ),
  [read('table_item'), '{"message":1,"error_code":"c"}', true],
  [read('table_item'), error, false],
  [read('resource'), `{"type":"${generic}","data":{},"new":1}`, true],
  [read('resource'), '{"type":"0X01::coin::CoinInfo<0x000A::a::A,vector< u8 >,>","data":{}}', true],
  [read('resource'), '{"type":"0x1::coin::CoinInfo<0xb::a::A, vector<u8>>","data":{}}', false],
  [read('resource'), '{"type":"0x1::coin::CoinInfo<0xA::a::a, vector<u8>>","data":{}}', false],
  [read('resource'), '{"type":"0x1::coin::CoinInfo<|u8|u8>","data":{}}', false],
  [read('resource'), `{"type":"${generic}","new":{}}`, false],
  [read('module'), '{"bytecode":"0x"}', true],
  [read('module'), '{"bytecode":"0x","abi":null}', true],
  [read('module'), '{"bytecode":"0x","abi":{"address":"0x000A","name":"coin"}}', true],
  [read('module'), '{"bytecode":"0x","abi":{"address":"0xb","name":"coin"}}', false],
  [read('module'), '{"bytecode":"0x","abi":{"address":"0xa","name":"Coin"}}', false],
  [read('module'), '{"abi":{"address":"0xa","name":"coin"}}', false],
  [read('modules'), '[{"bytecode":"0x"},{"bytecode":"0x","abi":{"address":"0xa","name":"any"}}]', true],
  [read('modules'), '[{"bytecode":"0x"},{"bytecode":"0x","abi":{"address":"0xb","name":"any"}}]', false],
  [read('resources'), '[{"type":"0x1::any::Type","data":{}}]', true],
  [read('resources'), '[{"type":"0x1::any::Type","data":{}},{"bytecode":"0x"}]', false],
  [read('account'), '{"sequence_number":"18446744073709551615","authentication_key":"0x"}', true],
  [read('account'), '{"sequence_number":5,"authentication_key":"0x"}', false],
  [read('transaction'), `{"type":"new","hash":"${hash.toUpperCase().replace('X', 'x')}"}`, true],
  [read('transaction'), `{"type":"new","hash":"${hash.replace('b', 'c')}"}`, false],
  [read('transaction'), '{"type":"new","hash":"0x5"}', true],
  [read('by_version'), '{"type":"new","version":"0600"}', true],
  [read('by_version'), '{"type":"new","version":"601"}', false],
  [read('by_version'), '{"type":"new","version":600}', false],
  [read('transactions', list), '[{"version":"600"},{"version":"601","new":1}]', true],
  [read('transactions', list), '[{"version":"600"}]', true],
  [read('transactions', list), '[{"version":"601"}]', false],
  [read('transactions', list), '[{"version":"600"},{"version":"600"}]', false],
  [read('transactions', list), '[{"version":"600"},{"version":"601"},{"version":"602"}]', false],
  [read('auxiliary_info', list), '["None",{"V1":{"transaction_index":0}}]', true],
  [read('auxiliary_info', list), '[1,2,3]', false],
  [read('block', bare), `{${ofBlock}}`, true],
  [read('block', bare), `{${ofBlock},"transactions":null}`, true],
  [read('block', bare), `{${ofBlock},"transactions":[]}`, false],
  [read('block', bare), `{${ofBlock.replace('60', '61')}}`, false],
  [read('block', bare), `{${ofBlock.replace('601', '599')}}`, false],
  [read('block', block), `{${ofBlock},"transactions":[{"version":"600"}]}`, true],
  [read('block', block), `{${ofBlock},"transactions":[{"version":"601"}]}`, false],
  [read('block', block), `{${ofBlock},"transactions":[]}`, false],
  [read('block', block), `{${ofBlock},"transactions":null}`, false],
  [read('block', block), `{${ofBlock}}`, false],
  [
    read('block', block),
    `{${ofBlock.replace('601', '600')},"transactions":[{"version":"600"},{"version":"601"}]}`,
    false,
  ],
  [read('block_by_version', bare), '{"block_height":"60","first_version":"600","last_version":"600"}', true],
  [read('block_by_version', bare), '{"block_height":"60","first_version":"601","last_version":"609"}', false],
  [read('block_by_version', bare), '{"block_height":"60","first_version":"590","last_version":"599"}', false],
  [read('events', page), `[{${event}:"0x0A"}}]`, true],
  [read('events', page), `[{${event}:"0xb"}}]`, false],
  [read('events', page), `[{${event.replace('7', '8')}:"0xa"}}]`, false],
  [read('events', page), `[{${event.replace('5', '6')}:"0xa"}}]`, false],
  [read('events', page), `[{${event}:"0xa"}},{${event}:"0xa"}}]`, false],
  [{ ...read('events', page), subject: '0xa/0x1::a::B/put?start=5' }, `[{${event}:"0xb"}}]`, true],
  [{ ...read('events'), subject: '0xa/7' }, `[{${event}:"0xa"}},{${event.replace('5', '6')}:"0xa"}}]`, true],
  [{ ...read('events'), subject: '0xa/7' }, `[{${event}:"0xa"}},{${event}:"0xa"}}]`, false],
  [{ ...read('events'), subject: '0xa/7' }, `[{${event}:"0xb"}}]`, false],
  [read('transactions'), '[{"version":"7"},{"version":"8"}]', true],
  [read('transactions'), '[{"version":"7"},{"version":"9"}]', false],
  [{ ...read('sent'), subject: '0xa' }, '[{"sender":"0x0A"},{"sender":"0xa","new":1}]', true],
  [{ ...read('sent'), subject: '0xa' }, '[{"sender":"0xa"},{"sender":"0xb"}]', false],
  [{ ...read('sent'), subject: '0xa' }, '[{}]', false],
  [read('raw_table_item'), '"0x05"', true],
  [read('raw_table_item'), error, false],
  [read('resource'), '{"type":5,"data":{}}', false],
  [read('resources'), '[{"type":"0x1::a::B"}]', false],
  [read('resources'), '[{"data":{}}]', false],
  [read('resources'), '[null]', false],
  [read('module'), `{${code}}`, true],
  [read('module'), `{${code},"abi":null}`, true],
  [read('module'), `{${code},"abi":{"address":"0xa","name":"coin","structs":[]}}`, true],
  [read('module'), `{${code},"abi":{"address":"0xb","name":"coin","structs":[]}}`, false],
  [read('module'), `{${code},"abi":{"address":"0xa","name":"Coin","structs":[]}}`, false],
  [read('module'), `{${code},"abi":{"name":"Coin","address":"0xa"}}`, false],
  [read('module'), `{${code},"abi":{"name":"coin","abi":{"address":"0xb","name":"b"},"address":"0xa"}}`, true],
  // Nodes write hashes of 64 digits; another text is no proof of another transaction.
  [read('transaction'), `{"type":"new","hash":"0x${'12'.repeat(32)}"}`, false],
  [read('transaction'), `{"type":"new","hash":"00x${'12'.repeat(32)}"}`, true],
  [read('transaction'), `{"type":"new","hash":"0x${'12'.repeat(33)}"}`, true],
  [read('transactions'), '[{"version":"7"},{"version":"8"},{"version":"9"}]', true],
  [read('transactions'), `[{"version":"7","new":"${'a'.repeat(16 * 1024)}"},{"version":"8"}]`, true],
  [read('transactions'), '[{}]', false],
  [read('block_by_version'), `{${ofBlock}}`, true],
  [read('block_by_version'), '{"first_version":"600","last_version":"601"}', false],
  [{ ...read('block_by_version'), version: undefined }, `{${ofBlock.replace('600', '602')}}`, false],
  [read('block', block), `{${ofBlock},"transactions":[{"version":"600"},{"version":"601"}]}`, true],
  [read('events', { ...page, limit: 1 }), `[{${event}:"0xa"}},{${event.replace('5', '6')}:"0xa"}}]`, false],
  [read('events', page), '[{"sequence_number":"5"}]', false],
  [read('events', page), `[{${event.replace('7', '07')}:"0xa"}}]`, true],
  [digits, `[{${event.replace('7', '17')}:"0x1b"}}]`, true],
  [digits, `[{${event.replace('7', '17')}:"0x1c"}}]`, false],
  [{ ...read('events', page), subject: handle }, '[{"sequence_number":"5","guid":{}}]', false],
  [{ ...read('events', page), subject: handle }, '[{"sequence_number":"5","guid":{"account_address":"0xa"}}]', false],
  // Too large to be parsed: the first member alone.
  [read('resource'), `{"data":{"type":"0x1::a::B"},"${huge}`, true],
  [read('transactions', list), `[{"version":"601","${huge}`, false],
  [read('block'), `{"block_height":"61","${huge}`, true],
  [read('resource'), `{"type":"${generic}","data":{"${huge}`, true],
  [read('resource'), `{"type":"0x1::a::B","data":{"${huge}`, false],
  [read('resource'), `{"data":{"${huge}`, true],
  [read('transactions', list), ` [ { "version" : "600" ,"${huge}`, true],
  [read('transactions', list), ` [ { "version" : "601" ,"${huge}`, false],
  [read('block', block), `{"block_height":"60","${huge}`, true],
  [read('block', block), `{"block_height":"61","${huge}`, false],
  [read('by_version'), `{"version":"601","${huge}`, false],
  [read('modules'), `[{"bytecode":"${huge}`, true],
];

for (const [asked, text, isOfRead] of rows) {
  test(`${text.slice(0, 90)} ${isOfRead ? 'may answer' : 'answers no'} ${asked.operation} ${asked.extent?.kind ?? ''}`, () => {
    assert.equal(isContent(asked, Buffer.from(text)), isOfRead);
  });
}

function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}

for (const [what, hashBytes] of [
  ['with its length', Buffer.from([32, ...Buffer.alloc(32, 0xab)])],
  ['without its length', Buffer.alloc(32, 0xab)],
] as const) {
  test(`BCS of a block, its hash ${what}, ends behind its versions or with an option, as it was asked for`, () => {
    const blockOf = (...parts: readonly Buffer[]): Buffer => Buffer.concat([u64(60n), hashBytes, u64(1n), ...parts]);
    const numbers = [u64(600n), u64(601n)];
    const one = [Buffer.of(1, 1), u64(600n)];
    const isBlock = (extent: typeof block | typeof bare, parts: readonly Buffer[]): boolean =>
      isContent({ ...read('block', extent), form: 'bcs' }, blockOf(...parts));

    const ends = [
      [],
      [Buffer.of(0)],
      one,
      [Buffer.of(1, 0)],
      [Buffer.of(1, 1), u64(601n)],
      [Buffer.of(1, 3), u64(600n)],
      [Buffer.of(2, 1), u64(600n)],
      [Buffer.of(0, 0)],
      [Buffer.of(1)],
    ];
    assert.deepEqual(
      ends.map((end) => isBlock(bare, [...numbers, ...end])),
      [true, true, false, false, false, false, false, false, false],
    );
    assert.deepEqual(
      ends.map((end) => isBlock(block, [...numbers, ...end])),
      [false, false, true, false, false, false, false, false, false],
    );
    assert.equal(isContent({ ...read('block_by_version'), form: 'bcs' }, blockOf(...numbers)), true);
    assert.equal(isBlock(bare, [u64(601n), u64(600n)]), false);
    assert.equal(isBlock(bare, [u64(601n), u64(602n)]), false);
  });
}

test('BCS of a list has its count in as many bytes as it takes, ahead of its first version', () => {
  const asked = { ...read('transactions', { ...list, limit: 300 }), form: 'bcs' } as const;
  const lists = [
    Buffer.of(0x80 | 44, 2),
    Buffer.of(0x80 | 45, 2),
    Buffer.of(0x80),
    Buffer.of(...Array.from({ length: 9 }, () => 255)),
    // A u32 has five bytes at most.
    Buffer.of(0x80, 0x80, 0x80, 0x80, 0x80, 0),
    Buffer.of(0),
  ];

  assert.deepEqual(
    lists.map((count) => isContent(asked, Buffer.concat([count, u64(600n)]))),
    [true, false, false, false, false, true],
  );
  assert.equal(isContent(asked, Buffer.concat([Buffer.of(0x80 | 44, 2), u64(601n)])), false);
});

/** An account's resource as nodes write it in BCS, from its recorded JSON, with its options as they are given. */
function accountBytes(address: string, options: Buffer, made?: bigint): Buffer {
  const row = resourceRows.find(({ path }) => path === `/accounts/${address}/resource/0x1::account::Account`);
  const { data } = JSON.parse(row?.body ?? '') as { readonly data: RecordedAccount };
  const handles = [data.coin_register_events, data.key_rotation_events].map(({ counter, guid: { id } }) =>
    Buffer.concat([u64(BigInt(counter)), u64(BigInt(id.creation_num)), Address.bytes(Address.parse(id.addr))]),
  );
  const key = Buffer.from(data.authentication_key.slice(2), 'hex');
  const numbers = [u64(BigInt(data.sequence_number)), u64(made ?? BigInt(data.guid_creation_num))];
  return Buffer.concat([Buffer.of(key.length), key, ...numbers, ...handles, options]);
}

interface RecordedAccount {
  readonly authentication_key: string;
  readonly sequence_number: string;
  readonly guid_creation_num: string;
  readonly coin_register_events: RecordedHandle;
  readonly key_rotation_events: RecordedHandle;
}

interface RecordedHandle {
  readonly counter: string;
  readonly guid: { readonly id: { readonly addr: string; readonly creation_num: string } };
}

/** One event in a list: its transaction's version, variant, creation number, account and sequence number. */
function eventBytes({ variant = 0, creation = 7n, account = '0xa', sequence = 5n } = {}): Buffer {
  const key = [u64(creation), Address.bytes(Address.parse(account))];
  return Buffer.concat([Buffer.of(1), u64(9n), Buffer.of(variant), ...key, u64(sequence)]);
}

const none = Buffer.of(0, 0);
const account4 = { ...read('account'), subject: '0x4/' };
const events = read('events', page);
const ofHandle = { ...events, subject: handle };
const onChain = Buffer.of(0);
const pending = Buffer.of(1);

/** Layouts: protocol 5.6; the resource of an account and the event in the order of their Move fields. */
const bcsRows: readonly (readonly [claim: string, asked: Asked, body: Buffer, isOfRead: boolean])[] = [
  ['a u64 as a balance', read('balance'), u64(5n), true],
  ['7 bytes as a balance', read('balance'), Buffer.alloc(7), false],
  ['9 bytes as a balance', read('balance'), Buffer.alloc(9), false],
  ['any bytes as a module', read('module'), Buffer.of(1), true],
  ['the version of a transaction', read('by_version'), Buffer.concat([onChain, u64(600n), pending]), true],
  ['another version', read('by_version'), Buffer.concat([onChain, u64(601n)]), false],
  ['half a version', read('by_version'), Buffer.concat([onChain, u64(600n).subarray(0, 7)]), false],
  ['a pending transaction for a version', read('by_version'), Buffer.concat([pending, u64(600n)]), false],
  [
    'a version that is not known',
    { ...read('by_version'), version: undefined },
    Buffer.concat([onChain, u64(601n)]),
    true,
  ],
  [
    'a transaction with its hash',
    read('transaction'),
    Buffer.concat([onChain, u64(6n), Buffer.alloc(32, 0xab), u64(6n)]),
    true,
  ],
  ['another hash', read('transaction'), Buffer.concat([onChain, u64(6n), Buffer.alloc(32, 0xac)]), false],
  ['a pending transaction', read('transaction'), Buffer.concat([pending, u64(6n)]), true],
  ['two items of two', read('auxiliary_info', list), Buffer.of(2, 1), true],
  ['three items of two', read('auxiliary_info', list), Buffer.of(3, 1), false],
  ['no list', read('auxiliary_info', list), Buffer.alloc(0), false],
  ['a recorded account', account4, accountBytes('0x4', none), true],
  ['a recorded account with an option', account4, accountBytes('0x4', Buffer.of(1, ...Buffer.alloc(33))), true],
  ["another account's resource", account4, accountBytes('0x6', none), false],
  ['an account without resource, which its node makes up', account4, accountBytes('0x6', none, 0n), true],
  ['an account cut short', account4, accountBytes('0x4', Buffer.of(0)), false],
  ['a key of another length', account4, Buffer.concat([Buffer.of(33), accountBytes('0x4', none).subarray(1)]), false],
  ['an event of the stream', events, eventBytes(), true],
  ['no event', events, Buffer.of(0), true],
  ['an event of another variant', events, eventBytes({ variant: 1 }), false],
  ['an event of another handle', events, eventBytes({ creation: 8n }), false],
  ["an event of another account's handle", events, eventBytes({ account: '0xb' }), false],
  ['a later event', events, eventBytes({ sequence: 6n }), false],
  ['an event cut short', events, eventBytes().subarray(0, -1), false],
  ['an event of a handle by name', ofHandle, eventBytes({ creation: 8n, account: '0xb' }), true],
  ['a later event of a handle by name', ofHandle, eventBytes({ sequence: 6n }), false],
];

for (const [claim, asked, body, isOfRead] of bcsRows) {
  test(`in BCS, ${claim} ${isOfRead ? 'may answer' : 'answers no'} ${asked.operation}`, () => {
    assert.equal(isContent({ ...asked, form: 'bcs' }, body), isOfRead);
  });
}

function parts(path: string): readonly string[] {
  return path.split('/').slice(2);
}

test('every recorded answer may answer the request that it was recorded of, and no other item of its kind', () => {
  const recorded = [
    ...resourceRows.map(({ path, body }) => [readResource(parts(path)[0] ?? '', parts(path)[2] ?? ''), body] as const),
    ...moduleRows.map(({ path, body }) => [readModule(parts(path)[0] ?? '', parts(path)[2] ?? ''), body] as const),
    ...viewRows
      .filter(({ status }) => status === 200)
      .map(({ request, body }) => [readView(request.replace('{address}', '0x1')), body] as const),
    ...transactionRows.map(({ hash: of, body }) => [readTransaction(of), body] as const),
  ];
  const versions = transactionRows.flatMap(({ body }) => {
    const { version: text } = JSON.parse(body) as { readonly version?: string };
    return text === undefined
      ? []
      : [[{ ...read('by_version'), version: LedgerVersion.of(BigInt(text)) }, body] as const];
  });
  const all = [...recorded, ...versions].map(([asked, body]) => [asked, Buffer.from(body)] as const);

  assert.ok(all.length > 200);
  for (const [asked, body] of all) assert.ok(isContent(asked, body), `${asked.operation} ${asked.subject}`);
  const told = all.filter(([{ operation }]) => operation === 'resource' || operation === 'module');
  for (const [asked] of told) {
    const item = (subject: string) => (asked.operation === 'module' ? subject : subject.slice(subject.indexOf('/')));
    const crossed = told.filter(
      ([other]) => other.operation !== asked.operation || item(other.subject) !== item(asked.subject),
    );
    assert.equal(
      crossed.find(([, body]) => isContent(asked, body)),
      undefined,
      asked.subject,
    );
  }
});

/** `count` items from `first` on, of more than `bytes` bytes together. */
function pageOf(count: number, bytes: number, itemAt: (index: number) => object): Buffer {
  const filler = 'x'.repeat(Math.ceil(bytes / count));
  return Buffer.from(JSON.stringify(Array.from({ length: count }, (_, index) => ({ ...itemAt(index), filler }))));
}

for (const bytes of [1_000, 20_000, 200_000]) {
  test(`a page of ${bytes} bytes is compared by its first and last item`, () => {
    const asked = read('transactions', { ...list, limit: 20 });
    const from = (start: number, count = 20) =>
      isContent(
        asked,
        pageOf(count, bytes, (index) => ({ version: String(start + index) })),
      );
    const lastTwice = pageOf(20, bytes, (index) => ({ version: String(600 + Math.min(index, 18)) }));
    const events = read('events', { ...page, limit: 20 });
    const stream = (creation: string) =>
      pageOf(20, bytes, (index) => ({
        guid: { creation_number: creation, account_address: '0xa' },
        sequence_number: String(5 + index),
      }));

    assert.deepEqual([from(600), from(601), from(600, 21), isContent(asked, lastTwice)], [true, false, false, false]);
    assert.deepEqual([isContent(events, stream('7')), isContent(events, stream('8'))], [true, false]);
  });
}

test('a large block is compared by its numbers', () => {
  const filler = 'x'.repeat(20_000);
  const body = (height: string) =>
    Buffer.from(`{"block_height":"${height}","first_version":"600","last_version":"601","transactions":["${filler}"]}`);
  assert.deepEqual(
    [isContent(read('block', block), body('60')), isContent(read('block', block), body('61'))],
    [true, false],
  );
});

// Equality of two final answers to one read.

function answer(status: number, text: string): FinalAnswer {
  const body = Buffer.from(text, 'latin1');
  return { status, body, json: new JsonBody(body) };
}

const ok = (text: string): FinalAnswer => answer(200, text);
const absent = (code: string, message: string): FinalAnswer => answer(404, errorBody(code, message));

const comparisons: readonly (readonly [what: string, one: FinalAnswer, other: FinalAnswer, AnswerComparison])[] = [
  ['the same bytes', ok('{"a":"1"}'), ok('{"a":"1"}'), 'equal'],
  ['no bytes', ok(''), ok(''), 'equal'],
  ['another value', ok('{"a":"1"}'), ok('{"a":"2"}'), 'disagreement'],
  ['a number that only a parser would call the same', ok('9007199254740993'), ok('9007199254740992'), 'disagreement'],
  ['a member more', ok('{"a":"1"}'), ok('{"a":"1","b":null}'), 'disagreement'],
  ['members in another order', ok('{"a":"1","b":2}'), ok('{"b":2,"a":"1"}'), 'other spelling'],
  ['other white space', ok('{"a":"1"}'), ok('{ "a": "1" }\n'), 'other spelling'],
  ['a list in another order', ok('[1,2]'), ok('[2,1]'), 'disagreement'],
  ['bytes that are no JSON', ok('\0\x01'), ok('\0\x02'), 'disagreement'],
  ['a start of the other', ok('[1]'), ok('[1'), 'disagreement'],
  ['there and not there', ok('{}'), absent('resource_not_found', 'm'), 'disagreement'],
  ['the same code in other words', absent('module_not_found', 'a'), absent('module_not_found', 'b'), 'equal'],
  ['another code', absent('module_not_found', 'a'), absent('resource_not_found', 'a'), 'disagreement'],
];

for (const [what, one, other, comparison] of comparisons) {
  test(`${what}: ${comparison}, in either order`, () => {
    assert.deepEqual([compareAnswers(one, other), compareAnswers(other, one)], [comparison, comparison]);
  });
}

test('the first difference is the first different byte, or the end of the shorter body', () => {
  const pairs = [
    ['abc', 'abd'],
    ['abc', 'ab'],
    ['', 'a'],
    ['xbc', 'abc'],
  ] as const;
  const offsets = pairs.map(([one, other]) => firstDifference(Buffer.from(one), Buffer.from(other)));
  assert.deepEqual(offsets, [2, 2, 0, 0]);
});
