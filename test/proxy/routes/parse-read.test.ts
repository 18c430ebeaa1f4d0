import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resourceRead } from '../../../src/proxy/routes/parse-read.ts';

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
