/** Valid and invalid answers of nodes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import { Dialect, type HeaderValues } from '../../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { validateAnswer, type InvalidAnswerReason } from '../../../src/upstream/dispatch/classify.ts';
import type { PromisedForm } from '../../../src/upstream/dispatch/fleet-request.ts';
import type { Need } from '../../../src/upstream/select/ranking.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';

const node = new Dialect('node');
const at = (version: bigint): Need => ({ kind: 'version', version: LedgerVersion.of(version) });
const block = (height: bigint): Need => ({ kind: 'block', height });
const head: Need = { kind: 'head' };
const json = { 'content-type': 'application/json; charset=utf-8' };
const bcs = { 'content-type': 'application/x-bcs' };
const html = { 'content-type': 'text/html' };
/** Version 1000, block 100. */
const ledger = lowercase(ledgerHeaders({ version: 1000n, oldest: 100n }));
const framed = { 'content-length': '1' };

function lowercase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

interface Row {
  readonly what: string;
  readonly status?: number;
  readonly headers?: HeaderValues;
  /** Absent: still to come. */
  readonly body?: string | Buffer;
  readonly need?: Need;
  /** `null`: anything. */
  readonly promised?: PromisedForm | null;
  readonly isHead?: boolean;
  readonly isConditional?: boolean;
  readonly hasBody?: boolean;
  /** Default true. */
  readonly isIdempotent?: boolean;
  readonly fault: InvalidAnswerReason | undefined;
}

const large = 2 * 1024 * 1024;
const whole = { ...ledger, ...json, ...framed };

const rows: readonly Row[] = [
  {
    what: 'a web page for a submission, which no other node may get',
    headers: html,
    body: '<p>',
    isIdempotent: false,
    fault: undefined,
  },
  { what: 'an object', body: '{"a":1}', fault: undefined },
  { what: 'a list between white space', body: ' [1]\n', fault: undefined },
  { what: 'a bare number', body: '18446744073709551615', fault: undefined },
  { what: 'a text', body: '"0x00"', fault: undefined },
  { what: 'null', body: 'null', fault: undefined },
  { what: 'nothing', body: '', fault: 'not JSON' },
  { what: 'white space', body: ' \n', fault: 'not JSON' },
  { what: 'a web page said to be JSON', body: '<html></html>', fault: 'not JSON' },
  { what: 'an object cut off after a comma', body: '{"a":1,', fault: 'not JSON' },
  { what: 'an object cut off after a brace of its own', body: '{"a":{"b":1}', fault: 'not JSON' },
  { what: 'two objects', body: '{}{}', fault: 'not JSON' },
  { what: 'an object and a page', body: '{}<p>', fault: 'not JSON' },
  { what: 'a very large list', body: `[${'1,'.repeat(large / 2)}1]`, fault: undefined },
  { what: 'a very large list cut off', body: `[${'1,'.repeat(large / 2)}`, fault: 'not JSON' },
  {
    what: 'a very large list between white space',
    body: ` \n\r\t[${'1,'.repeat(large / 2)}1]\t\r\n `,
    fault: undefined,
  },
  { what: 'a very large page', body: `<p>${'1,'.repeat(large / 2)}1]`, fault: 'not JSON' },
  { what: 'very much white space', body: ' '.repeat(large), fault: 'not JSON' },
  { what: 'a web page', headers: { ...whole, ...html }, body: '{}', fault: 'other form' },
  { what: 'text without a content type', headers: { ...ledger, ...framed }, body: '{}', fault: 'other form' },
  { what: 'the other form', headers: { ...whole, ...bcs }, body: '\0', fault: 'other form' },
  { what: 'JSON where BCS was asked', body: '{}', promised: 'bcs', fault: 'other form' },
  { what: 'BCS', headers: { ...whole, ...bcs }, body: '\0\x01', promised: 'bcs', fault: undefined },
  { what: 'BCS where either will do', headers: { ...whole, ...bcs }, body: '\0', promised: 'either', fault: undefined },
  {
    what: 'a media type in other letters',
    headers: { ...whole, 'content-type': 'Application/JSON' },
    body: '{}',
    fault: undefined,
  },
  { what: 'no ledger headers', headers: { ...json, ...framed }, body: '{}', fault: 'no ledger headers' },
  {
    what: 'six ledger headers',
    headers: { ...whole, 'x-node-epoch': undefined },
    body: '{}',
    fault: 'no ledger headers',
  },
  {
    what: 'an oldest version above the head',
    headers: { ...whole, 'x-node-ledger-oldest-version': '1001' },
    body: '{}',
    fault: 'head below oldest',
  },
  { what: 'a version that its node has got to just now', body: '{}', need: at(1000n), fault: undefined },
  {
    what: 'a version that its node has not got to',
    body: '{}',
    need: at(1001n),
    fault: 'version not reached',
  },
  { what: 'a block that its node has got to just now', body: '{}', need: block(100n), fault: undefined },
  { what: 'a block that its node has not got to', body: '{}', need: block(101n), fault: 'version not reached' },
  { what: 'an object that ends with the connection', headers: { ...ledger, ...json }, body: '{}', fault: undefined },
  {
    what: 'a number that ends with the connection',
    headers: { ...ledger, ...json },
    body: '184467',
    fault: 'unframed body',
  },
  {
    what: 'a very large list that ends with the connection',
    headers: { ...ledger, ...json },
    body: `[${'1,'.repeat(large / 2)}1]`,
    fault: 'unframed body',
  },
  {
    what: 'BCS that ends with the connection',
    headers: { ...ledger, ...bcs },
    body: '\0',
    promised: 'bcs',
    fault: 'unframed body',
  },
  { what: 'the head of a stream', promised: 'either', fault: undefined },
  {
    what: 'the head of a stream of a page',
    headers: { ...whole, ...html },
    promised: 'either',
    fault: 'other form',
  },
  {
    what: 'the head of a stream that will end with the connection',
    headers: { ...ledger, ...json },
    promised: 'either',
    fault: 'unframed body',
  },
  {
    what: 'an answer to HEAD, which has no length',
    headers: { ...ledger, ...json },
    promised: 'either',
    isHead: true,
    fault: undefined,
  },
  { what: 'a page where anything will do', headers: html, body: '{}', promised: null, need: head, fault: undefined },
  {
    what: 'no JSON where anything will do, read whole',
    headers: html,
    body: '<html>',
    promised: null,
    need: head,
    fault: undefined,
  },
  { what: 'a stream of anything', headers: html, promised: null, need: head, fault: undefined },
  { what: 'an accepted submission', status: 202, body: '', promised: null, need: head, fault: undefined },
  { what: 'a part of a list', status: 206, body: '[1,', fault: 'other success' },
  { what: 'news of an answer', status: 103, headers: {}, fault: undefined },
  { what: 'a choice of places', status: 300, headers: html, body: '', fault: 'no error of a node' },
  { what: 'an error whose body is still to come', status: 404, headers: json, fault: undefined },
  {
    what: 'a page where BCS was asked',
    status: 400,
    headers: html,
    body: '<p>',
    promised: 'bcs',
    fault: 'no error of a node',
  },
  {
    what: 'a page, for a read with a body',
    status: 400,
    headers: html,
    body: '<p>',
    hasBody: true,
    fault: 'no error of a node',
  },
  { what: 'a page', status: 500, headers: html, body: '<html>', fault: undefined },
  { what: 'an error of a node', status: 404, headers: {}, body: '{"error_code":"x","message":"m"}', fault: undefined },
  { what: 'a page', status: 404, headers: html, body: '<html>', fault: 'no error of a node' },
  {
    what: 'JSON of somebody else',
    status: 404,
    headers: json,
    body: '{"error":"no route"}',
    fault: 'no error of a node',
  },
  {
    what: 'a page where a client asked in its own words',
    status: 404,
    headers: html,
    body: '<html>',
    need: head,
    promised: 'either',
    fault: undefined,
  },
  {
    what: 'a page where a client named a version in its own words',
    status: 404,
    headers: html,
    body: '<html>',
    promised: 'either',
    fault: 'no error of a node',
  },
  { what: 'a page', status: 400, headers: html, body: '<html>', fault: 'no error of a node' },
  { what: 'a page', status: 403, headers: html, body: '<html>', fault: 'no error of a node' },
  {
    what: 'a page beside the ledger headers',
    status: 400,
    headers: { ...ledger, ...html },
    body: '',
    fault: 'no error of a node',
  },
  {
    what: 'a page beside the ledger headers, where a client asked in its own words',
    status: 400,
    headers: { ...ledger, ...html },
    body: '',
    promised: 'either',
    fault: undefined,
  },
  { what: 'nothing', status: 405, headers: {}, body: '', fault: 'no error of a node' },
  { what: 'nothing', status: 411, headers: {}, body: '', fault: 'no error of a node' },
  { what: 'nothing', status: 415, headers: {}, body: '', fault: 'no error of a node' },
  {
    what: 'nothing, for a block',
    status: 410,
    body: '',
    need: block(50n),
    promised: 'either',
    fault: 'no error of a node',
  },
  { what: 'nothing, for HEAD', status: 404, body: '', promised: 'either', isHead: true, fault: undefined },
  { what: 'a page', status: 413, headers: html, body: '<html>', hasBody: true, fault: undefined },
  {
    what: 'a page, for a read without a body',
    status: 413,
    headers: html,
    body: '<html>',
    fault: 'no error of a node',
  },
  { what: 'a page', status: 429, headers: html, body: '<html>', fault: undefined },
  { what: 'a page', status: 502, headers: html, body: '<html>', fault: undefined },
  { what: 'a redirection', status: 302, headers: html, body: '', fault: 'no error of a node' },
  { what: 'a redirection', status: 301, headers: html, promised: 'either', fault: 'no error of a node' },
  { what: 'no condition', status: 304, headers: {}, body: '', fault: 'no error of a node' },
  { what: 'no condition', status: 304, headers: {}, promised: 'either', fault: 'no error of a node' },
  {
    what: "a client's condition",
    status: 304,
    headers: {},
    promised: 'either',
    isConditional: true,
    fault: undefined,
  },
  {
    what: 'a demand for credentials, with a code',
    status: 401,
    headers: json,
    body: '{"message":"m","error_code":"unauthorized"}',
    fault: 'no error of a node',
  },
  { what: 'a demand for credentials', status: 407, headers: {}, promised: 'either', fault: 'no error of a node' },
  { what: 'a page', status: 403, headers: html, promised: 'either', fault: undefined },
  { what: 'a page', status: 401, headers: html, body: '', promised: null, need: head, fault: undefined },
];

for (const row of rows) {
  const { what, status = 200, headers = whole, body, need = at(500n), promised = 'json', fault } = row;
  const { isHead = false, isConditional = false, hasBody = false, isIdempotent = true } = row;
  test(`${status} with ${what}: ${fault ?? 'valid'}`, () => {
    const bytes = body === undefined ? undefined : Buffer.from(body);
    const answer = {
      status,
      headers,
      info: node.findInfo(headers),
      ...(bytes === undefined ? {} : { body: bytes, json: new JsonBody(bytes) }),
    };
    const wire = {
      method: isHead ? 'HEAD' : 'GET',
      path: '/',
      headers: isConditional ? { 'if-none-match': '"1"' } : {},
      body: hasBody ? Buffer.from('{}') : undefined,
    } as const;
    const asked = { need, promised: promised ?? undefined, wire, isIdempotent };
    assert.equal(validateAnswer(answer, asked, node), fault);
  });
}
