/** Equality of two final answers to one read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import {
  compareAnswers,
  firstDifference,
  type AnswerComparison,
  type FinalAnswer,
} from '../../../src/proxy/reads/audits.ts';
import { errorBody } from '../../support/error-body.ts';

function answer(status: number, text: string): FinalAnswer {
  const body = Buffer.from(text, 'latin1');
  return { status, body, json: new JsonBody(body) };
}

const ok = (text: string): FinalAnswer => answer(200, text);
const absent = (code: string, message: string): FinalAnswer => answer(404, errorBody(code, message));

const rows: readonly (readonly [what: string, one: FinalAnswer, other: FinalAnswer, AnswerComparison])[] = [
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

for (const [what, one, other, comparison] of rows) {
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
