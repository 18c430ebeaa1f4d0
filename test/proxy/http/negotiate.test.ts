import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerForm, chooseCoding, matchesTag } from '../../../src/proxy/http/negotiate.ts';
import { cpuMs } from '../../support/cpu-time.ts';
import { heldBytes } from '../../support/heap.ts';

/** Protocol 2.3: the first entry that equals one of two types, without parameters; JSON otherwise. */
const accepts: readonly (readonly [string | undefined, 'json' | 'bcs'])[] = [
  [undefined, 'json'],
  ['', 'json'],
  ['*/*', 'json'],
  ['text/html', 'json'],
  ['application/*', 'json'],
  ['application/json', 'json'],
  ['application/x-bcs', 'bcs'],
  ['APPLICATION/X-BCS', 'bcs'],
  ['  application/x-bcs  ', 'bcs'],
  ['application/x-bcs, application/json', 'bcs'],
  ['application/json, application/x-bcs', 'json'],
  ['text/html,application/x-bcs,*/*', 'bcs'],
  ['*/*, application/x-bcs', 'bcs'],
  ['application/json;q=0.1, application/x-bcs', 'bcs'],
  ['application/json;charset=utf-8, application/x-bcs', 'bcs'],
  ['application/x-bcs;q=0.9', 'json'],
  ['application/x-bcs;q=1', 'json'],
  ['application/x-bcs ; charset=utf-8', 'json'],
  ['application/x-bcs;q=0.9, application/json', 'json'],
  ['application/x-bcs2', 'json'],
  ['xapplication/x-bcs', 'json'],
  ['application/x.aptos.signed_transaction+bcs', 'json'],
];

for (const [accept, form] of accepts) {
  test(`Accept ${JSON.stringify(accept)} is answered in ${form}`, () => {
    assert.equal(answerForm(accept), form);
  });
}

/** RFC 9110 12.5.3. */
const encodings: readonly (readonly [string | undefined, 'gzip' | 'br' | 'zstd' | undefined])[] = [
  [undefined, undefined],
  ['', undefined],
  ['identity', undefined],
  ['deflate', undefined],
  ['gzip', 'gzip'],
  ['GZip', 'gzip'],
  ['br', 'br'],
  ['zstd', 'zstd'],
  ['gzip, deflate, br, zstd', 'zstd'],
  ['gzip, deflate, br', 'br'],
  ['gzip;q=1.0, br;q=0.5', 'gzip'],
  ['gzip;q=0.2, br;q=0.3, zstd;q=0.25', 'br'],
  ['gzip ; q=0.2 , br ; q=0.1', 'gzip'],
  ['br;Q=0.1, gzip;Q=0.2', 'gzip'],
  ['gzip;q=0', undefined],
  ['gzip;q=0.000, br;q=0.001', 'br'],
  ['*', 'zstd'],
  ['*;q=0', undefined],
  ['*;q=0, gzip', 'gzip'],
  ['gzip;q=0.5, *;q=0.8', 'zstd'],
  ['zstd;q=0, *', 'br'],
  ['zstd;q=0, br;q=0, *;q=0.1', 'gzip'],
  ['identity, gzip;q=0.5', undefined],
  ['identity;q=0.5, gzip', 'gzip'],
  ['identity;q=0.5, gzip;q=0.5', 'gzip'],
  ['identity;q=0', undefined],
  ['gzip;q=nonsense', undefined],
  ['gzip;q=', undefined],
  ['gzip;q=-1', undefined],
  ['gzip;level=9', 'gzip'],
  [',, gzip ,,', 'gzip'],
  ['gzipped, x-br', undefined],
];

for (const [value, coding] of encodings) {
  test(`Accept-Encoding ${JSON.stringify(value)} is answered ${coding ?? 'plain'}, asked again too`, () => {
    assert.equal(chooseCoding(value), coding);
    assert.equal(chooseCoding(value), coding);
  });
}

test('ten thousand different Accept-Encoding values get the right coding, cached ones included', () => {
  for (let index = 0; index < 10_000; index += 1) assert.equal(chooseCoding(`x-${index}, gzip;q=0.5`), 'gzip');
  assert.equal(chooseCoding('gzip, br'), 'br');
});

/** RFC 9110 13.1.2. */
const conditions: readonly (readonly [string | undefined, boolean])[] = [
  [undefined, false],
  ['', false],
  ['"abc"', true],
  [' "abc" ', true],
  ['W/"abc"', true],
  ['"x", "abc"', true],
  ['"x","abc","y"', true],
  ['"x", W/"abc"', true],
  ['*', true],
  [' * ', true],
  ['"*"', false],
  ['abc', false],
  ['"ab"', false],
  ['"abcd"', false],
  ['"ABC"', false],
  ['"abc-gzip"', false],
  ['"x", "y"', false],
  ['w/"abc"', false],
  ['W/ "abc"', false],
  ['"x"\t,\t"abc"\t,"y"', true],
  [' W/"abc" ,', true],
  [',"abc",', true],
  ['xW/"abc"', false],
  ['W/W/"abc"', false],
  ['"abc""abc"', false],
  ['"abc" "abc"', false],
  ['"abc"x, "abc"', true],
  ['"x" "abc"', false],
  ['/"abc"', false],
  [`${'"x", '.repeat(9_000)}"abc"`, true],
];

for (const [value, isMatch] of conditions) {
  test(`If-None-Match ${JSON.stringify(value)?.slice(0, 60)} ${isMatch ? 'names' : 'does not name'} the tag "abc"`, () => {
    assert.equal(matchesTag(value, '"abc"'), isMatch);
  });
}

test('a cached value does not keep the text around it in memory', () => {
  const before = heldBytes();

  for (let index = 0; index < 200; index += 1) {
    const value = `gzip;q=0.${1_000 + index}, identity;q=0`;
    const text = Buffer.from(value.padEnd(64 * 1024)).toString('latin1');
    assert.equal(chooseCoding(text.slice(0, value.length)), 'gzip');
  }

  const taken = heldBytes() - before;
  // The whole texts would take 13 MB.
  assert.ok(taken < 2_000_000, `${taken} bytes`);
});

const padded = (value: string, length: number): string => `${','.repeat(length - value.length)}${value}`;

test('Accept-Encoding is read up to 256 characters, and Accept up to 1,024; beyond, the default form is given', () => {
  assert.equal(chooseCoding(padded('gzip', 256)), 'gzip');
  assert.equal(chooseCoding(padded('gzip', 257)), undefined);
  assert.equal(answerForm(padded('application/x-bcs', 1_024)), 'bcs');
  assert.equal(answerForm(padded('application/x-bcs', 1_025)), 'json');
});

/** CPU time of a thousand calls, each with a different text of this length. */
function costMs(read: (text: string) => unknown, member: string, length: number): number {
  const texts = Array.from({ length: 1_000 }, (_, at) => `${at},${member.repeat(length)}`.slice(0, length));
  let best = Infinity;
  for (let goes = 0; goes < 3; goes += 1) {
    const startedMs = cpuMs();
    for (const text of texts) read(text);
    best = Math.min(best, cpuMs() - startedMs);
  }
  return best;
}

const bounded = [
  ['Accept-Encoding', chooseCoding, 'gzip;q=0.5,', 256],
  ['Accept', answerForm, 'application/x-bcs;q=1,', 1_024],
] as const;

for (const [name, read, member, longest] of bounded) {
  test(`${name} of 46 kB costs no more than one of ${longest} characters, and one of 23 kB as little`, () => {
    // The kernel counts in steps of some milliseconds.
    const usual = costMs(read, member, longest) + 4;
    for (const length of [23_000, 46_000]) {
      const cost = costMs(read, member, length);
      assert.ok(cost <= usual, `${length} characters: ${cost} ms; ${longest} characters: ${usual} ms`);
    }
  });
}
