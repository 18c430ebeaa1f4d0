/** Valid and invalid answers of nodes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import { Dialect, type HeaderValues } from '../../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { validateAnswer } from '../../../src/upstream/dispatch/classify.ts';
import type { PromisedForm } from '../../../src/upstream/dispatch/fleet-request.ts';
import type { Need } from '../../../src/upstream/select/ranking.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { rowsIn } from '../../support/tables.ts';

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

const large = 2 * 1024 * 1024;
const whole = { ...ledger, ...json, ...framed };

/** Headers by name; without one, all that a valid answer has. */
const sets: Readonly<Record<string, HeaderValues>> = {
  '': whole,
  none: {},
  json,
  html,
  framed: { ...json, ...framed },
  untyped: { ...ledger, ...framed },
  unframed: { ...ledger, ...json },
  'unframed bcs': { ...ledger, ...bcs },
  page: { ...whole, ...html },
  'unframed page': { ...ledger, ...html },
  bcs: { ...whole, ...bcs },
  upper: { ...whole, 'content-type': 'Application/JSON' },
  six: { ...whole, 'x-node-epoch': undefined },
  'edge above head': { ...whole, 'x-node-ledger-oldest-version': '1001' },
};

/** Parts of bodies. */
const escapes: Readonly<Record<string, string>> = {
  '\\s': ' ',
  '\\n': '\n',
  '\\r': '\r',
  '\\t': '\t',
  '\\0': '\0',
  '\\1': '\x01',
  '<many>': '1,'.repeat(large / 2),
  '<space>': ' '.repeat(large),
};

/**
 * Status, claim, headers, body (`to come`: of a stream), fault, and the request: its form (JSON, else `any`, `bcs` or
 * `either`), need (version 500, else `newest`, a version or a block), `HEAD`, `POST`, `conditional`, `submission`.
 */
const table = String.raw`
200 | a web page for a submission, which no other node may get | html | <p> | | submission
200 | an object | | {"a":1} | |
200 | a list between white space | | \s[1]\n | |
200 | a bare number | | 18446744073709551615 | |
200 | a text | | "0x00" | |
200 | null | | null | |
200 | nothing | | | not JSON |
200 | white space | | \s\n | not JSON |
200 | a web page said to be JSON | | <html></html> | not JSON |
200 | an object cut off after a comma | | {"a":1, | not JSON |
200 | an object cut off after a brace of its own | | {"a":{"b":1} | not JSON |
200 | two objects | | {}{} | not JSON |
200 | an object and a page | | {}<p> | not JSON |
200 | a very large list | | [<many>1] | |
200 | a very large list cut off | | [<many> | not JSON |
200 | a very large list between white space | | \s\n\r\t[<many>1]\t\r\n\s | |
200 | a very large page | | <p><many>1] | not JSON |
200 | very much white space | | <space> | not JSON |
200 | a web page | page | {} | other form |
200 | text without a content type | untyped | {} | other form |
200 | the other form | bcs | \0 | other form |
200 | JSON where BCS was asked | | {} | other form | bcs
200 | BCS | bcs | \0\1 | | bcs
200 | BCS where either will do | bcs | \0 | | either
200 | a media type in other letters | upper | {} | |
200 | no ledger headers | framed | {} | no ledger headers |
200 | six ledger headers | six | {} | no ledger headers |
200 | an oldest version above the head | edge above head | {} | head below oldest |
200 | a version that its node has got to just now | | {} | | 1000
200 | a version that its node has not got to | | {} | version not reached | 1001
200 | a block that its node has got to just now | | {} | | block 100
200 | a block that its node has not got to | | {} | version not reached | block 101
200 | an object that ends with the connection | unframed | {} | |
200 | a number that ends with the connection | unframed | 184467 | unframed body |
200 | a very large list that ends with the connection | unframed | [<many>1] | unframed body |
200 | BCS that ends with the connection | unframed bcs | \0 | unframed body | bcs
200 | the head of a stream | | to come | | either
200 | the head of a stream of a page | page | to come | other form | either
200 | the head of a stream that will end with the connection | unframed | to come | unframed body | either
200 | an answer to HEAD, which has no length | unframed | to come | | either, HEAD
200 | a page where anything will do | html | {} | | any, newest
200 | no JSON where anything will do, read whole | html | <html> | | any, newest
200 | a stream of anything | html | to come | | any, newest
202 | an accepted submission | | | | any, newest
206 | a part of a list | | [1, | other success |
103 | news of an answer | none | to come | |
300 | a choice of places | html | | no error of a node |
404 | an error whose body is still to come | json | to come | |
400 | a page where BCS was asked | html | <p> | no error of a node | bcs
400 | a page, for a read with a body | html | <p> | no error of a node | POST
500 | a page | html | <html> | |
404 | an error of a node | none | {"error_code":"x","message":"m"} | |
404 | a page | html | <html> | no error of a node |
404 | JSON of somebody else | json | {"error":"no route"} | no error of a node |
404 | a page where a client asked in its own words | html | <html> | | either, newest
404 | a page where a client named a version in its own words | html | <html> | no error of a node | either
400 | a page | html | <html> | no error of a node |
403 | a page | html | <html> | no error of a node |
400 | a page beside the ledger headers | unframed page | | no error of a node |
400 | a page beside the ledger headers, where a client asked in its own words | unframed page | | | either
405 | nothing | none | | no error of a node |
411 | nothing | none | | no error of a node |
415 | nothing | none | | no error of a node |
410 | nothing, for a block | | | no error of a node | either, block 50
404 | nothing, for HEAD | | | | either, HEAD
413 | a page | html | <html> | | POST
413 | a page, for a read without a body | html | <html> | no error of a node |
429 | a page | html | <html> | |
502 | a page | html | <html> | |
302 | a redirection | html | | no error of a node |
301 | a redirection | html | to come | no error of a node | either
304 | no condition | none | | no error of a node |
304 | no condition | none | to come | no error of a node | either
304 | a client's condition | none | to come | | either, conditional
401 | a demand for credentials, with a code | json | {"message":"m","error_code":"unauthorized"} | no error of a node |
407 | a demand for credentials | none | to come | no error of a node | either
403 | a page | html | to come | | either
401 | a page | html | | | any, newest
`;

function needIn(request: readonly string[]): Need {
  if (request.includes('newest')) return head;
  const named = request.find((word) => /\d/.test(word)) ?? '500';
  return named.startsWith('block ') ? block(BigInt(named.slice(6))) : at(BigInt(named));
}

for (const [status = '', claim = '', set = '', text = '', fault = '', words = ''] of rowsIn(table)) {
  test(`${status} with ${claim}: ${fault === '' ? 'valid' : fault}`, () => {
    const headers = sets[set];
    assert.ok(headers !== undefined, set);
    const request = words.split(', ');
    const bytes =
      text === 'to come'
        ? undefined
        : Buffer.from(text.replace(/\\.|<many>|<space>/g, (part) => escapes[part] ?? part));
    const answer = {
      status: Number(status),
      headers,
      info: node.findInfo(headers),
      ...(bytes === undefined ? {} : { body: bytes, json: new JsonBody(bytes) }),
    };
    const wire = {
      method: request.includes('HEAD') ? 'HEAD' : 'GET',
      path: '/',
      headers: request.includes('conditional') ? { 'if-none-match': '"1"' } : {},
      body: request.includes('POST') ? Buffer.from('{}') : undefined,
    } as const;
    const form = (['bcs', 'either'] as const).find((each) => request.includes(each)) ?? 'json';
    const promised: PromisedForm | undefined = request.includes('any') ? undefined : form;
    const asked = { need: needIn(request), promised, wire, isIdempotent: !request.includes('submission') };
    assert.equal(validateAnswer(answer, asked, node) ?? '', fault);
  });
}
