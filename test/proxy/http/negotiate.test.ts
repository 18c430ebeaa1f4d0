import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CachedResponse } from '../../../src/cache/index.ts';
import {
  answerForm,
  chooseCoding,
  conditionalTag,
  matchesTag,
  readAccept,
  wantsEvents,
} from '../../../src/proxy/http/negotiate.ts';
import { cpuMs } from '../../support/cpu-time.ts';
import { heldBytes } from '../../support/heap.ts';

/** Protocol 2.3: the first entry that equals one of two types, without parameters; JSON otherwise. By form. */
const accepts = {
  json: [
    [undefined, '', '*/*', 'text/html', 'application/*', 'application/json', 'application/json, application/x-bcs'],
    ['application/x-bcs;q=0.9', 'application/x-bcs;q=1', 'application/x-bcs ; charset=utf-8'],
    ['application/x-bcs;q=0.9, application/json', 'application/x-bcs2', 'xapplication/x-bcs'],
    ['application/x.aptos.signed_transaction+bcs'],
  ].flat(),
  bcs: [
    ['application/x-bcs', 'APPLICATION/X-BCS', '  application/x-bcs  ', 'application/x-bcs, application/json'],
    ['text/html,application/x-bcs,*/*', '*/*, application/x-bcs', 'application/json;q=0.1, application/x-bcs'],
    ['application/json;charset=utf-8, application/x-bcs'],
  ].flat(),
};

for (const [form, values] of Object.entries(accepts)) {
  test(`these values of Accept are answered in ${form}`, () => {
    for (const accept of values) assert.equal(answerForm(accept), form, accept);
  });
}

/** RFC 9110 12.5.3. By coding. */
const encodings = {
  plain: [
    [undefined, '', 'identity', 'deflate', 'gzip;q=0', '*;q=0', 'identity, gzip;q=0.5', 'identity;q=0'],
    ['gzip;q=nonsense', 'gzip;q=', 'gzip;q=-1', 'gzipped, x-br'],
  ].flat(),
  gzip: [
    ['gzip', 'GZip', 'gzip;q=1.0, br;q=0.5', 'gzip ; q=0.2 , br ; q=0.1', 'br;Q=0.1, gzip;Q=0.2', '*;q=0, gzip'],
    ['zstd;q=0, br;q=0, *;q=0.1', 'identity;q=0.5, gzip', 'identity;q=0.5, gzip;q=0.5', 'gzip;level=9', ',, gzip ,,'],
  ].flat(),
  br: ['br', 'gzip, deflate, br', 'gzip;q=0.2, br;q=0.3, zstd;q=0.25', 'gzip;q=0.000, br;q=0.001', 'zstd;q=0, *'],
  zstd: ['zstd', 'gzip, deflate, br, zstd', '*', 'gzip;q=0.5, *;q=0.8'],
};

for (const [coding, values] of Object.entries(encodings)) {
  test(`these values of Accept-Encoding are answered in ${coding}, asked again too`, () => {
    for (const value of [...values, ...values]) assert.equal(chooseCoding(value) ?? 'plain', coding, value);
  });
}

test('ten thousand different Accept-Encoding values get the right coding, cached ones included', () => {
  for (let index = 0; index < 10_000; index += 1) assert.equal(chooseCoding(`x-${index}, gzip;q=0.5`), 'gzip');
  assert.equal(chooseCoding('gzip, br'), 'br');
});

/** RFC 9110 13.1.2. */
const conditions = {
  'do not name': [
    [undefined, '', '"*"', 'abc', '"ab"', '"abcd"', '"ABC"', '"abc-gzip"', '"x", "y"', 'w/"abc"', 'W/ "abc"'],
    ['xW/"abc"', 'W/W/"abc"', '"abc""abc"', '"abc" "abc"', '"x" "abc"', '/"abc"'],
  ].flat(),
  name: [
    ['"abc"', ' "abc" ', 'W/"abc"', '"x", "abc"', '"x","abc","y"', '"x", W/"abc"', '*', ' * ', '"x"\t,\t"abc"\t,"y"'],
    [' W/"abc" ,', ',"abc",', '"abc"x, "abc"', `${'"x", '.repeat(9_000)}"abc"`],
  ].flat(),
};

for (const [what, values] of Object.entries(conditions)) {
  test(`these values of If-None-Match ${what} the tag "abc"`, () => {
    for (const value of values) assert.equal(matchesTag(value, '"abc"'), what === 'name', value?.slice(0, 60));
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
  const texts = Array.from({ length: 1_000 }, (_, at) =>
    `${at},${member.repeat(length / member.length)}`.slice(0, length),
  );
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

test('an event stream is wanted where it is the first of the known media types', () => {
  const values = [
    ['text/event-stream', true],
    ['text/html, Text/Event-Stream, application/json', true],
    ['application/json, text/event-stream', false],
    ['application/x-bcs,text/event-stream', false],
    ['text/event-stream;q=1', false],
    [undefined, false],
  ] as const;
  for (const [accept, wants] of values) assert.equal(wantsEvents(accept), wants, accept);
});

test('what a client accepts is its Accept up to 1,024 characters, and its codings', () => {
  assert.deepEqual(readAccept({}), { accept: '', codings: [] });
  const [longest, codings] = ['a'.repeat(1_024), ['br', 'gzip']];
  assert.deepEqual(readAccept({ accept: longest, 'accept-encoding': 'gzip, br' }), { accept: longest, codings });
  assert.deepEqual(readAccept({ accept: `${longest}a` }), { accept: undefined, codings: [] });
});

test('each coding has a tag of its own, and only a success with a digest is compared by it', () => {
  const entry = { digest: 'abc', status: 200 } as CachedResponse;
  assert.deepEqual([conditionalTag(entry, undefined), conditionalTag(entry, 'br')], ['"abc"', '"abc-br"']);
  for (const other of [{ digest: '' }, { status: 404 }])
    assert.equal(conditionalTag({ ...entry, ...other }, undefined), undefined);
  assert.deepEqual([matchesTag('*', undefined), matchesTag(undefined, '"abc"')], [false, false]);
});
