/** Parsers of the routes: their refusals and their reads. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { parseTransactionHash, Submissions } from '../../../src/proxy/routes/submissions.ts';
import { resourceRead, tableItemRead, transactionRead, viewRead } from '../../../src/proxy/routes/parse-read.ts';
import { readModule } from '../../support/reads.ts';

function statusOf(parse: () => unknown): number {
  try {
    parse();
    return 200;
  } catch (error) {
    assert.ok(error instanceof GatewayError, String(error));
    return error.status;
  }
}

test('a module name that is no identifier is refused with 400', () => {
  for (const name of ['', '1a', 'a b', 'a-b', '..', 'a/b', '%61', 'a\0', '\u00e4']) {
    assert.equal(
      statusOf(() => readModule('0x1', name)),
      400,
      name,
    );
  }
});

test('a malformed version is refused ahead of a malformed body', () => {
  const target = '/view?ledger_version=abc';
  const request = { target, accept: undefined, contentType: 'application/json', body: Buffer.from('{') };
  assert.throws(() => viewRead(request), /ledger_version/);
  assert.throws(() => tableItemRead('table_item', { handle: '0x1' }, request), /ledger_version/);
});

const hash = `0x${'ab'.repeat(32)}`;
const taken = async (answer: { readonly status?: number; readonly body: string }): Promise<string | undefined> => {
  const submissions = new Submissions();
  const body = Buffer.from(answer.body);
  await submissions.recordAnswer('full-0', { status: answer.status ?? 202, body, json: new JsonBody(body) });
  const { need } = transactionRead(
    { hash: hash.toUpperCase().slice(2) },
    { target: '', accept: undefined },
    submissions,
  );
  return need.kind === 'transaction' ? need.submittedTo : undefined;
};

test('a read of a submitted hash goes first to the node that accepted it', async () => {
  assert.equal(await taken({ body: JSON.stringify({ hash }) }), 'full-0');
  // A transaction that publishes modules has more than a megabyte.
  assert.equal(await taken({ body: JSON.stringify({ payload: 'a'.repeat(2_000_000), hash }) }), 'full-0');
});

test('an answer other than an accepted submission records nothing', async () => {
  const bodies = ['', '{}', 'null', '[]', '{"hash":5}', '{"hash":"0x12"}', `{"hash":"${hash}"`, `{"hash":"${hash}0"}`];
  for (const body of bodies) assert.equal(await taken({ body }), undefined, body);
  for (const status of [200, 206, 400, 500]) {
    assert.equal(await taken({ status, body: JSON.stringify({ hash }) }), undefined);
  }
});

test('a hash is 64 hex digits, written lowercase with prefix', () => {
  const digits = 'Ab'.repeat(32);
  for (const text of [digits, `0x${digits}`]) assert.equal(parseTransactionHash(text), `0x${digits.toLowerCase()}`);
  for (const text of ['', '0x', `0X${digits}`, digits.slice(1), `${digits}0`, `0x${digits.slice(2)}`, ` ${digits}`])
    assert.equal(
      statusOf(() => parseTransactionHash(text)),
      400,
      text,
    );
});

function subjectOf(type: string): string {
  return resourceRead({ address: '0x1', type }, { target: '/', accept: undefined }).subject;
}

test('a type is the same read in each of its spellings, however often and after however many others', () => {
  const spellings = [
    '0x1::a::B<0x01::c::D,u8>',
    '0x1::a::B< 0x1::c::D , u8 >',
    `0x${'1'.padStart(64, '0')}::a::B<0x1::c::D, u8>`,
  ];
  const expected = '0x1/0x1::a::B<0x1::c::D, u8>';

  for (let round = 0; round < 2; round += 1) {
    for (const spelling of [...spellings, ...spellings]) assert.equal(subjectOf(spelling), expected);
    for (let other = 0; other < 2_500; other += 1) {
      assert.equal(subjectOf(`0x01::a::B${other}`), `0x1/0x1::a::B${other}`);
    }
  }
});

test('a malformed type is refused each time', () => {
  for (let time = 0; time < 2; time += 1) {
    assert.throws(() => subjectOf('0x1::a'), { status: 400 });
    assert.throws(() => subjectOf('constructor'), { status: 400 });
  }
});
