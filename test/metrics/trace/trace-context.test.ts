import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Tracer } from '../../../src/metrics/trace/span.ts';

const parent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

const parents: readonly (readonly [why: string, text: string | undefined, isTaken: boolean])[] = [
  ['of version 00', parent, true],
  ['not sampled', parent.replace(/01$/, '00'), true],
  ['of a later version', parent.replace(/^00/, '01'), true],
  ['absent', undefined, false],
  ['of no version', parent.replace(/^00/, 'ff'), false],
  ['of no trace', `00-${'0'.repeat(32)}-b7ad6b7169203331-01`, false],
  ['without a parent', `00-0af7651916cd43dd8448eb211c80319c-${'0'.repeat(16)}-01`, false],
  ['in capitals', parent.toUpperCase(), false],
  ['with more behind it', `${parent}-00`, false],
  ['twice', `${parent}, ${parent}`, false],
  ['with a space', ` ${parent}`, false],
  ['with a line behind it', `${parent}\n`, false],
];

for (const [why, traceparent, isTaken] of parents) {
  test(`a traceparent ${why} is ${isTaken ? 'handed on as it came' : 'left out'}`, () => {
    assert.deepEqual(Tracer.passedOn({ traceparent })?.headers(), isTaken ? { traceparent } : undefined);
  });
}

const states: readonly (readonly [why: string, text: string, isTaken: boolean])[] = [
  ['of two vendors', 'rojo=00f067aa0ba902b7,congo@t61rc=WkwpQ', true],
  ['with spaces and an empty member', 'a=1 , ,b=2', true],
  ['as long as may be', `a=${'x'.repeat(254)},b=${'y'.repeat(253)}`, true],
  ['longer', `a=${'x'.repeat(255)},b=${'y'.repeat(253)}`, false],
  ['of 33 members', Array.from({ length: 33 }, (_, index) => `a${index}=1`).join(','), false],
  ['without a value', 'a', false],
  ['with two equals signs', 'a=b=c', false],
  ['with a key in capitals', 'A=1', false],
  ['that is not ASCII', 'a=é', false],
  ['that is empty', '', false],
];

for (const [why, tracestate, isTaken] of states) {
  test(`a tracestate ${why} is ${isTaken ? 'handed on' : 'left out'}, and the trace goes on`, () => {
    const expected = isTaken ? { traceparent: parent, tracestate } : { traceparent: parent };
    assert.deepEqual(Tracer.passedOn({ traceparent: parent, tracestate })?.headers(), expected);
  });
}
