/** Keys of views: one meaning, one key; two meanings, two keys. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cacheKey, keyText } from '../../../src/cache/key.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { isOfState } from '../../../src/proxy/reads/policy.ts';
import { Router } from '../../../src/proxy/routes/router.ts';
import { fc } from '../../support/fast-check.ts';
import {
  bodyOf,
  drawRequest,
  keptKinds,
  meaningOf,
  neighbourOf,
  spellRequest,
  type SpelledRequest,
} from '../../support/kept-spellings.ts';
import { keyOf, readResource, readView } from '../../support/reads.ts';
import { Draw } from '../../support/spellings.ts';

const runs = { numRuns: 1000 };

/** Argument lists. No two of them mean the same to every function. */
const distinctArguments = [
  ['1', '1.0', '1e0', '1E0', '10e-1', '-1', '"1"', '"01"', '"+1"', '" 1"', '"1 "'],
  ['0', '-0', '0.0', '18446744073709551615', '18446744073709551616', '1.8446744073709552e19'],
  ['null', '"null"', 'true', '"true"', 'false', '""', '[]', '{}', '"[]"', '[[]]', '[[],[]]', '[null]', '{"":null}'],
  ['"0x1"', '"0x01"', '"0X1"', '"0xA"', '"0xa"', '"a"', '"A"', '"\\u00e9"', '"e\\u0301"', '"\\ud800"', '"\\ufffd"'],
  ['["a","b"]', '["b","a"]', '["a,b"]', '["a\\",\\"b"]', '[["a"],"b"]', '[["a","b"]]', '["a",["b"]]'],
  ['{"a":"b"}', '{"b":"a"}', '{"a":["b"]}', '{"a":"b","c":"d"}', '{"a":{"b":"c"}}', '[{"a":"b"}]'],
]
  .flat()
  .map((text) => `[${text}]`);
distinctArguments.push('[]', '["a","b"]', '["b","a"]', '[1,2]', '[2,1]', '[12]', '[1,2,null]', '["1",2]', '[1,"2"]');

test('arguments that only look alike have keys of their own', () => {
  const keys = distinctArguments.map((list) => keyOf(readView(viewBody(list))));
  assert.equal(new Set(keys).size, distinctArguments.length);
});

test('the place of a text counts: function, type argument and argument are never confused', () => {
  const bodies = [
    '{"function":"0x1::m::f","type_arguments":["u8"],"arguments":[]}',
    '{"function":"0x1::m::f","type_arguments":[],"arguments":["u8"]}',
    '{"function":"0x1::m::f","type_arguments":["u8","u8"],"arguments":[]}',
    '{"function":"0x1::m::f","type_arguments":["vector<u8>"],"arguments":[]}',
    '{"function":"0x1::m::u8","type_arguments":[],"arguments":[]}',
    '{"function":"0x1::f::m","type_arguments":[],"arguments":[]}',
  ];
  assert.equal(new Set(bodies.map((body) => keyOf(readView(body)))).size, bodies.length);
});

/** Bound of a body at nodes (protocol 2.4). */
const largestBody = 8 * 1024 * 1024;

test('BCS bodies are compared whole, from the empty one to 8 MiB', () => {
  const contentType = 'application/x.aptos.view_function+bcs';
  const keyOfBytes = (bytes: Buffer): string => keyOf(readView(bytes, { contentType }));
  const large = Buffer.alloc(largestBody, 0xa5);
  assert.equal(keyOfBytes(large), keyOfBytes(Buffer.from(large)));
  for (const at of [0, 1000, largestBody / 2, largestBody - 1]) {
    assert.notEqual(keyOfBytes(large), keyOfBytes(withBitFlipped(large, at)), `byte ${at}`);
  }
  assert.notEqual(keyOfBytes(large), keyOfBytes(large.subarray(0, -1)));
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 600 }), fc.uint8Array({ maxLength: 600 }), (a, b) => {
      assert.equal(keyOfBytes(Buffer.from(a)) === keyOfBytes(Buffer.from(b)), Buffer.compare(a, b) === 0);
    }),
  );
});

test('chain, operation, version and form of the answer are part of the key', () => {
  const read = { operation: 'resource', subject: '0x1/a', version: LedgerVersion.of(5n), form: 'json' } as const;
  const parts = { chainId: 4, ...read };
  const keys = [
    keyText(cacheKey(parts)),
    keyText(cacheKey({ ...parts, chainId: 5 })),
    keyText(cacheKey({ ...parts, operation: 'module' })),
    keyText(cacheKey({ ...parts, subject: '0x1/b' })),
    keyText(cacheKey({ ...parts, version: LedgerVersion.of(6n) })),
    keyText(cacheKey({ ...parts, version: LedgerVersion.of(2n ** 64n - 1n) })),
    keyText(cacheKey({ ...parts, version: LedgerVersion.of(2n ** 64n - 2n) })),
    keyText(cacheKey({ ...parts, version: undefined })),
    keyText(cacheKey({ ...parts, form: 'bcs' })),
  ];
  assert.equal(new Set(keys).size, keys.length);
});

test('no subject can be written so that its key is that of another read', () => {
  const parts = { chainId: 4, operation: 'view', form: 'json' } as const;
  const piece = fc.constantFrom('|', '5', '|5|json', 'view', 'sha256:', '"', '{}', 'a'.repeat(200), '');
  const subject = fc.array(piece, { maxLength: 5 }).map((pieces) => `json:${pieces.join('')}`);
  const version = fc.constantFrom(5n, 55n, 4096n, 4101n).map((number) => LedgerVersion.of(number));
  const versioned = fc.record({ subject, version });
  fc.assert(
    fc.property(versioned, versioned, (a, b) => {
      const isOneRead = a.subject === b.subject && a.version === b.version;
      assert.equal(keyText(cacheKey({ ...parts, ...a })) === keyText(cacheKey({ ...parts, ...b })), isOneRead);
    }),
    runs,
  );
});

test('a key is short however long its subject is', () => {
  const body = viewBody(`["${'a'.repeat(100_000)}"]`);
  assert.ok(keyOf(readView(body)).length < 600);
  const type = `0x1::a::B<${'u8, '.repeat(30_000)}u8>`;
  assert.ok(keyOf(readResource('0x1', type)).length < 600);
});

function withBitFlipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = (copy[at] ?? 0) ^ 1;
  return copy;
}

function viewBody(list: string): string {
  return `{"function":"0x1::m::f","type_arguments":[],"arguments":${list}}`;
}

// The names under which kept and shared reads are found: one for all spellings of a request, another for each request
// next to it, whatever its kind. `LEDGERGATE_SPELLINGS`: the cases of each kind.

const keptRuns = { numRuns: Number(process.env['LEDGERGATE_SPELLINGS'] ?? 500) };
const router = new Router('/v1');
const keptSeed = fc.noShrink(fc.integer());

interface Named {
  /** Name in the cache or among the shares. */
  readonly name: string;
  /** The request to the node. */
  readonly wire: string;
  readonly body: Buffer | undefined;
}

/** `left`: a node answers the request, and nothing is kept. `refused`: no node gets it. */
function nameOf({ method, target, accept, body }: SpelledRequest): Named | 'left' | 'refused' {
  const match = router.match(method, target);
  if (match.route.parse === undefined && match.route.posted === undefined) return 'left';
  try {
    const contentType = 'application/json';
    const read =
      method === 'GET'
        ? match.parse(accept)
        : match.parseBody({ target, accept, contentType, body: Buffer.from(body) });
    if (read === undefined) return 'left';
    const { wire } = read;
    const sent = `${wire.method} ${wire.path} ${JSON.stringify(wire.headers)}`;
    if ('shared' in read) return { name: `shared|${read.form}|${wire.path}`, wire: sent, body: wire.body };
    const { operation, subject, version, form } = read;
    if (version === undefined && isOfState(operation)) return 'left';
    return { name: keyText(cacheKey({ chainId: 4, operation, subject, version, form })), wire: sent, body: wire.body };
  } catch (error) {
    if (error instanceof GatewayError) return 'refused';
    throw error;
  }
}

for (const kind of keptKinds) {
  test(`${kind}: all spellings of a request have one name and one request of their meaning to the node, its neighbours others`, () => {
    let spelledOtherwise = 0;
    let neighbours = 0;
    fc.assert(
      fc.property(keptSeed, (keptSeed) => {
        const draw = new Draw(keptSeed);
        const request = drawRequest(draw, kind);
        const [one, other] = [spellRequest(draw, request), spellRequest(draw, request)];
        const named = nameOf(one);
        assert.ok(typeof named === 'object', `${one.target} ${one.body}: ${JSON.stringify(named)}`);
        assert.deepEqual(nameOf(other), named, `${one.target} ${other.target} ${one.body} ${other.body}`);
        assert.deepEqual(named.body && JSON.parse(String(named.body)), bodyOf(request));
        if (other.target !== one.target || other.body !== one.body) spelledOtherwise += 1;

        const next = neighbourOf(draw, request);
        if (next === undefined || meaningOf(next) === meaningOf(request)) return;
        neighbours += 1;
        const spelled = spellRequest(draw, next);
        const found = nameOf(spelled);
        assert.ok(typeof found === 'string' || found.name !== named.name, `${one.target} ${spelled.target}`);
      }),
      keptRuns,
    );
    assert.ok(spelledOtherwise > keptRuns.numRuns / 2, `${spelledOtherwise} pairs of spellings`);
    assert.ok(neighbours > keptRuns.numRuns / 4, `${neighbours} neighbours`);
  });
}

test('a parameter that the gateway does not know, or a second one of a name, leaves a request to nodes', () => {
  for (const kind of keptKinds.filter((name) => !name.endsWith('lenient'))) {
    fc.assert(
      fc.property(keptSeed, (keptSeed) => {
        const draw = new Draw(keptSeed);
        const request = drawRequest(draw, kind);
        const { target, ...rest } = spellRequest(draw, request);
        const known = request.query[0]?.[0];
        const repeated = known === undefined ? 'b=1' : `${known}=1`;
        const more = draw.pick('b=', 'Limit=1', 'ledger%5Fversions=1', 'start%20=1', repeated);
        const asked = { ...rest, target: `${target}${target.includes('?') ? '&' : '?'}${more}` };
        assert.ok(typeof nameOf(asked) === 'string', asked.target);
      }),
      { numRuns: Math.ceil(keptRuns.numRuns / 10) },
    );
  }
});

test('a balance is found under one name with the repetitions of the public SDK, and left to nodes with others', () => {
  const path = '/v1/accounts/0x0a/balance/0x1::a::B?ledger_version=5';
  const asked = (more: string) => nameOf({ method: 'GET', target: path + more, accept: undefined, body: '' });
  const plain = asked('');
  assert.ok(typeof plain === 'object');
  assert.deepEqual(asked('&accountAddress=0x0a&asset=0x1%3A%3Aa%3A%3AB'), plain);
  for (const more of ['&accountAddress=0x0b', '&asset=0x1::a::C', '&asset=', '&asset=0x1::a::B&asset=0x1::a::B']) {
    assert.equal(asked(more), 'left', more);
  }
});

test('no two requests of any kinds share a name, unless they mean the same', () => {
  const meanings = new Map<string, string>();
  let again = 0;
  fc.assert(
    fc.property(fc.constantFrom(...keptKinds), keptSeed, (kind, keptSeed) => {
      // A few seeds, so that requests come again and are close to each other.
      const draw = new Draw(keptSeed % 500);
      const request = drawRequest(draw, kind);
      const named = nameOf(spellRequest(new Draw(keptSeed), request));
      assert.ok(typeof named === 'object');
      // The wait for a transaction is for the same answer as its look-up.
      const meaning = meaningOf(request).replace('wait_by_hash', 'by_hash');
      const known = meanings.get(named.name);
      if (known !== undefined) again += 1;
      assert.equal(known ?? meaning, meaning);
      meanings.set(named.name, meaning);
    }),
    { numRuns: keptRuns.numRuns * 10 },
  );
  assert.ok(again > 100, `${again} requests came again`);
});
