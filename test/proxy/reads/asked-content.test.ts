/** Successes that are of the read that was asked, and others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isContentOf, type AskedRead } from '../../../src/proxy/reads/asked-content.ts';
import { JsonBody, type AnswerForm } from '../../../src/ledger/answer-body.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import moduleRows from '../../../src/sample/data/modules.json' with { type: 'json' };
import resourceRows from '../../../src/sample/data/resources.json' with { type: 'json' };
import transactionRows from '../../../src/sample/data/transactions.json' with { type: 'json' };
import viewRows from '../../../src/sample/data/views.json' with { type: 'json' };
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
  // Too large to be parsed: the first member alone.
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
    ];
    assert.deepEqual(
      ends.map((end) => isBlock(bare, [...numbers, ...end])),
      [true, true, false, false, false, false],
    );
    assert.deepEqual(
      ends.map((end) => isBlock(block, [...numbers, ...end])),
      [false, false, true, false, false, false],
    );
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
  ];

  assert.deepEqual(
    lists.map((count) => isContent(asked, Buffer.concat([count, u64(600n)]))),
    [true, false, false, false],
  );
  assert.equal(isContent(asked, Buffer.concat([Buffer.of(0x80 | 44, 2), u64(601n)])), false);
});

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
