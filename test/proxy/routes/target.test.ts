import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { ownCopy } from '../../../src/proxy/http/target-cache.ts';
import { isAuthority, originForm } from '../../../src/proxy/http/target.ts';
import {
  numberParameter,
  versionParameter,
  hasParameter,
  knownParameters,
} from '../../../src/proxy/routes/parse-read.ts';
import { Router } from '../../../src/proxy/routes/router.ts';
import { pathBelow, foldedPaths, hasFoldedDots } from '../../../src/proxy/routes/target.ts';
import { fc } from '../../support/fast-check.ts';
import { keyOf, readModule, readResource, readTransaction, readView } from '../../support/reads.ts';

const router = new Router('/v1');
const match = (path: string, method = 'GET') => router.match(method, `/v1${path}`);

function statusOf(basePath: string, target: string): number {
  try {
    pathBelow(basePath, target);
    return 200;
  } catch (error) {
    assert.ok(error instanceof GatewayError, String(error));
    return error.status;
  }
}

const ordinary = [
  ['', '/', '/-/healthy', '/info', '/spec.yaml', '/spec', '/estimate_gas_price', '/transactions?limit=25&start=100'],
  ['?', '/?x=y', '/accounts/0x1', '/accounts/0x1/resources?limit=9999&start=0061&ledger_version=5'],
  ['/accounts/0x1/balance/0x1::aptos_coin::AptosCoin', '/accounts/0x1/balance/0x1::coin::Coin%3C0x1::a::B%3E'],
  ['/accounts/0x1/events/0x1::account::Account/coin_register_events', '/accounts/0x1/modules', '/blocks/by_height/1'],
  ['/tables/0x1b854694ae746cdbd8d44186ca4929b2b337df21d1c74633be19b2710552fdca/item', '/transactions/by_version/5'],
  ['/a..b/c.d/...', '/.well-known', '/a/.hidden', "/~a/b_c-d!$&'()*+,;=:@", '/a%20b', '/%E4', '/a?b=/../c'],
  ['/a?b=%2F..%00', '/a?next=http://h//x', '/a?b=c%25', '/a|b', '/a[0]'],
].flat();

test('an ordinary path passes as it is', () => {
  for (const path of ordinary) {
    assert.equal(pathBelow('/v1', `/v1${path}`), path);
    assert.equal(pathBelow('', path), path);
  }
});

const hostile = [
  ['/..', '/../', '/../admin', '/a/../b', '/a/..', '/./', '/.', '/a/./b', '/a/.', '/..?a=b', '/a/.?x'],
  ['/%2e%2e', '/%2E%2e/admin', '/.%2e/', '/%2e./', '/%2e', '/a/%2e%2E/b', '/a/%2E/b', '/%2e%2e?x=y'],
  ['/%2f', '/a%2Fb', '/..%2fadmin', '/%2f..%2f', '/%2F%2Fhost', '/a%5cb', '/..%5Cadmin', '/%5c', '/a\\b', '/..\\admin'],
  ['/%00', '/a%00.json', '/a%00/../b', '/\0', '/a\tb', '/a b', '/a\r\nX: y', '/a\u007f', '/\u00e4', '/a\u2215b'],
  ['/%252e%252e', '/%252f', '/%255c', '/%2500', '/a%25b', '/%25252e'],
  ['/%', '/%2', '/%zz', '/100%/a', '/%%32%65%%32%65/admin', '/a%%32%66b', '/%u002e'],
  ['//', '//host', '//host/path', '/a//b', '/a//', '///', '/..//', '/.//a'],
  ['/a#b', '/a?b#c', '/a?b=c d', '/a?b=\0', '/a?b=\u00e4', '/a"b', '/a<b>', '/a`b', '/a{b}', '/a^b', '/a?b="c"'],
].flat();

test('a path that a node may read as another one is refused', () => {
  for (const path of hostile) {
    assert.equal(statusOf('/v1', `/v1${path}`), 400, path);
    assert.equal(statusOf('', path), 400, path);
  }
});

const outside = [
  ['', '/', '/v', '/v2', '/v1x', '/v10/info', '/V1/info', '/v1%2finfo', '/v1;x', '/../v1', '//v1', '/./v1', '*'],
  ['http://host/v1/info', 'https://host/v1', 'host:443', '/admin', '/%76%31/info', '\\v1\\info', 'v1/info'],
].flat();

test('a target outside of the base path is not found', () => {
  for (const target of outside) assert.equal(statusOf('/v1', target), 404, target);
});

test('a refused path is named in the message, one that is not found is not', () => {
  assert.throws(() => pathBelow('/v1', '/v1/a/../b'), { message: 'the path "/a/../b" is not in plain form' });
  assert.throws(() => pathBelow('/v1', '/v2'), { message: 'not found' });
});

test('without a base path an absolute target is not found either', () => {
  for (const target of ['http://host/v1', 'host:443', '*']) assert.equal(statusOf('', target), 404);
});

test("an accepted path stays below a node's base path, however it is decoded", () => {
  const pieces = '/ . .. %2e %2E %2f %5C \\ % 25 2e %32 %65 %66 a : ; ? %00'.split(' ');
  const piece = fc.constantFrom(...pieces);
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const target = `/v1/${pieces.join('')}`;
      if (statusOf('/v1', target) !== 200) return;
      for (const text of [target, lenientDecode(target), lenientDecode(lenientDecode(target))]) {
        const { pathname } = new URL(text.split('?', 1)[0]?.replaceAll('\\', '/') ?? '', 'http://node');
        assert.ok(pathname.startsWith('/v1/'), `${target} becomes ${pathname}`);
      }
    }),
    { numRuns: 20_000 },
  );
});

function lenientDecode(text: string): string {
  return text.replace(/%([0-9a-f]{2})/gi, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}

/** Of the parameter that begins with a question mark, nodes know nothing. */
const versions = {
  'no version': [
    ['', '?', '?limit=5', '?LEDGER_VERSION=5', '?ledger_version2=5', '?x?ledger_version=5', '??ledger_version=5'],
  ].flat(),
  'version 5': [
    ['?ledger_version=5', '?ledger_version=005', '?ledger_version=%2B5', '?ledger_version=%35'],
    ['?ledger%5Fversion=5', '?limit=1&ledger_version=5', '?ledger_version=5&ledger_version=6'],
    ['?ledger_version=5&limit=1', '?&&ledger_version=5&'],
  ].flat(),
};

for (const [what, queries] of Object.entries(versions)) {
  test(`these queries ask for ${what}`, () => {
    const version = what === 'no version' ? undefined : 5n;
    for (const query of queries) assert.equal(versionParameter(`/v1/x${query}`), version, query);
  });
}

const badVersions = [
  ['', '-1', '+5', '%205', '5%20', 'latest', '0x5', '5.0', '1e3', '5_0', '18446744073709551616', '5?', '5%00'],
].flat();

test('a version that is no u64 is refused with 400, and is no number for routing', () => {
  for (const text of badVersions) {
    assert.throws(
      () => versionParameter(`/v1/x?ledger_version=${text}`),
      (error) => error instanceof GatewayError && error.status === 400,
      text,
    );
    assert.equal(numberParameter(`/v1/x?start=${text}`, 'start'), undefined, text);
  }
  assert.equal(versionParameter('/v1/x?ledger_version=18446744073709551615'), 18446744073709551615n);
});

test('the first of several versions wins, even a malformed one', () => {
  assert.throws(() => versionParameter('/v1/x?ledger_version=&ledger_version=5'), GatewayError);
  assert.equal(versionParameter('/v1/x?ledger_version=5&ledger_version='), 5n);
});

const needs = {
  'the head': [
    ['', '/accounts/0x1', '/transactions?limit=10', '/transactions', '/accounts/0x1/transactions?start=5'],
    ['/transactions/by_version/x', '/transactions/by_version/5/more'],
    ['/transactions/by_version/99999999999999999999', '/accounts/0x1?ledger_version=latest'],
    ['/transactions/by_version_hint?start=5', '/accounts/0x1?ledger_version=&ledger_version=6'],
    ['/accounts/0x1?x=ledger_version=5'],
  ].flat(),
  'version 5': [
    ['/accounts/0x1?ledger_version=5', '/accounts/0x1/resources?limit=10&ledger_version=5'],
    ['/tables/0x1/item?ledger_version=5', '/blocks/by_version/5', '/blocks/by_version/5?with_transactions=true'],
    ['/transactions/by_version/5', '/transactions?start=5&limit=10', '/accounts/0x1?ledger%5Fversion=5'],
    ['/accounts/0x1?ledger_version=%2B05', '/accounts/0x1?ledger_version=5&ledger_version=6'],
    ['/%61ccounts/0x1?ledger_version=5', '/transactions/by%5Fversion/%35'],
  ].flat(),
};

for (const [what, paths] of Object.entries(needs)) {
  test(`these paths are routed to ${what}`, () => {
    const need = what === 'the head' ? { kind: 'head' } : { kind: 'version', version: 5n };
    for (const path of paths) assert.deepEqual(match(path).need, need, path);
  });
}

test('a block is routed by its height', () => {
  for (const path of ['/blocks/by_height/5', '/blocks/by_height/5?with_transactions=true', '/blocks/by%5Fheight/%35']) {
    assert.deepEqual(match(path).need, { kind: 'block', height: 5n }, path);
  }
  for (const path of ['/blocks/by_height/x', '/blocks/by_height/99999999999999999999', '/blocks/by_height/5/more']) {
    assert.deepEqual(match(path).need, { kind: 'head' }, path);
  }
});

const ofLatest = [
  ['GET /accounts/0x1', 'GET /%61ccounts/0x1', 'HEAD /accounts/0x1/resources?limit=5'],
  ['GET /accounts/0x1?x=ledger_version', 'POST /view', 'POST /vie%77', 'POST /tables/0x1/item'],
].flat();
const ofAnother = [
  ['GET /accounts/0x1?ledger_version=', 'GET /accounts/0x1?ledger%5Fversion=5'],
  ['GET /accounts/0x1?x=1&ledger_version', 'POST /view?ledger_version=5', 'GET /view', 'POST /accounts/0x1'],
  ['GET /estimate_gas_price', 'GET /accounts/', 'GET /accounts/0x1/balance/'],
].flat();

test('a read of state without a version is one of the latest state', () => {
  for (const request of [...ofLatest, ...ofAnother]) {
    const [method, path = ''] = request.split(' ');
    assert.equal(match(path, method).isReadOfLatest, ofLatest.includes(request), request);
  }
});

test('a path with parameters ahead of its last segment is refused: routers read it in two ways', () => {
  const refused = ['/a;b/c', '/a/;b/c', '/a%3Bb/c', '/a%3Fb/c', '/a%23b/c', '/;/a'];
  for (const path of refused) {
    assert.throws(() => match(path).passedPath, /parameters ahead of its last segment/, path);
  }
  for (const path of ['/a/b;c', '/a/b;c/', '/a/b;c=d;e?f=;g', '/a/b%3Bc', '/a/b%3Fc', '/a?b;c/d', '/a;b']) {
    assert.equal(match(path).passedPath, path);
  }
});

test('a path with dot segments in another spelling is refused', () => {
  const refused = [
    ['/view/x/..%20', '/x/%20..', '/view/-/%EF%BC%8E%EF%BC%8E', '/a/%C2%A0./b', '/a/..%3F', '/a/.%C2%AD./b'],
  ].flat();
  for (const path of refused) assert.throws(() => match(path).passedPath, /dot segments/, path);
  for (const path of ['/a/...%20', '/a/%20', '/a/..b%20', '/a?b/..%20', '/a%20/.b'])
    assert.equal(match(path).passedPath, path);
});

test('the router recognises routes of node tests in every spelling', () => {
  const hidden = [
    ['/set_failpoint', '/set_failpoint?a=b', '/set%5ffailpoint', '/%73et_failpoint/', '/SET_failpoint'],
    ['/set_failpoint;x', '/set_failpoint;x/', '/set_failpoint/;x', '/;x/set_failpoint', '/set_failpoint;/x'],
    ['/SET_failpoint%3bx', '/set_failpoint%3Fx', '/set_failpoint%23', '/set_failpoint%20', '/set_failpoint.json'],
    ['/set_failpoint.', '/-/set_failpoint', '/set%ef%bc%bffailpoint', '/set_fa%C4%B1lpoint', '/set_fail%C2%ADpoint'],
    ['/experimental/state_values/raw;x', '/experimental;x/state_values/RAW', '/experimental/state_values/raw.json'],
  ].flat();
  const raw = ['/experimental/state_values/raw', '/e%78perimental/state%5Fvalues/r%61w?x=1'];
  for (const path of [...hidden, ...raw]) assert.throws(() => match(path).passedPath, { status: 404 }, path);
  for (const path of ['/set_failpoints', '/a/set_failpoint', '/experimental', '/accounts/set_failpoint', '']) {
    assert.equal(match(path).passedPath, path);
  }
});

// Spellings of request targets: absolute ones, authorities, parameters, folded paths.

const absolute: readonly (readonly [target: string, path: string])[] = [
  ['/v1/x?a=b', '/v1/x?a=b'],
  ['/http://host/v1', '/http://host/v1'],
  ['http://host/v1/x?a=b', '/v1/x?a=b'],
  ['HTTPS://host:8080/v1', '/v1'],
  ['http://[::1]:80/v1', '/v1'],
  ['http://host', '/'],
  ['http://host/', '/'],
  ['http://host?a=b', '/?a=b'],
  ['http://host#a', '/#a'],
];

for (const [target, path] of absolute) {
  test(`the target ${target} is for ${path}`, () => {
    assert.equal(originForm(target), path);
  });
}

test('a target without a plain authority stays, and matches no route', () => {
  const others = ['http:///v1', 'http://user@host/v1', 'http://a,b/v1', 'http://host:port/v1', 'ftp://host/v1'];
  for (const target of [...others, 'xhttp://host/v1', 'http:/host/v1', 'httpss://host/v1', 'host:443', '*', '']) {
    assert.equal(originForm(target), target);
  }
});

test('an authority is a name or an address, with or without a port, without a user', () => {
  const hosts = ['', 'host', 'HOST', 'host:', 'host:65535', '127.0.0.1:80', '[::1]', '[::FFFF:1.2.3.4]:80'];
  for (const text of [...hosts, "a.b-c_~!$&'()*+;=%41"]) assert.ok(isAuthority(text), text);
  const others = [
    ['user@host', 'a,b', 'a b', 'a/b', 'host:123456', 'host:b', '::1', '[::1', '::1]', '[g]', '[]', 'a[::1]'],
  ].flat();
  for (const text of [...others, '[::1]a', 'host:1:2']) assert.ok(!isAuthority(text), text);
});

const queries: readonly (readonly [query: string, expected: Readonly<Record<string, string>> | undefined])[] = [
  ['', {}],
  ['?', {}],
  ['?&', {}],
  ['?a=1&b=2', { a: '1', b: '2' }],
  ['?&a=1&&b=2&', { a: '1', b: '2' }],
  ['?%61=%31+2', { a: '1 2' }],
  ['?a', { a: '' }],
  ['?a=1?b=2', { a: '1?b=2' }],
  ['?a=1&a=1', undefined],
  ['?a=1&%61=1', undefined],
  ['?a=1&c=2', undefined],
  ['?A=1', undefined],
  ['?=1', undefined],
  ['?=', undefined],
  ['??a=1', undefined],
];

for (const [query, expected] of queries) {
  const claim = expected === undefined ? 'is left to nodes' : `has the parameters ${JSON.stringify(expected)}`;
  test(`the query ${JSON.stringify(query)} ${claim}`, () => {
    assert.deepEqual(knownParameters(`/v1/x${query}`, ['a', 'b']), expected);
  });
}

test('a version alone is a parameter as any other', () => {
  assert.deepEqual(knownParameters('/x?ledger_version=05', ['a', 'ledger_version']), { ledger_version: '05' });
  assert.equal(knownParameters('/x?ledger_version=5', ['a']), undefined);
});

test('a parameter is found by its name in any spelling, with any value', () => {
  for (const query of ['?a', '?a=', '?b=1&a=2', '?%61=1']) assert.ok(hasParameter(`/x${query}`, 'a'), query);
  for (const query of ['', '?b=a', '?aa=1', '??a=1']) assert.ok(!hasParameter(`/x${query}`, 'a'), query);
  assert.deepEqual(
    ['?a=5', '?a=%35', '?a=-5', '?a=', ''].map((query) => numberParameter(`/x${query}`, 'a')),
    [5n, 5n, undefined, undefined, undefined],
  );
});

test('a copy of a text is equal to it', () => {
  assert.equal(ownCopy('/v1/x?a=\u00e4'), '/v1/x?a=\u00e4');
});

/** A path, its folded form without parameters, and its form up to the first parameter where that is another one. */
const folded: readonly (readonly [path: string, whole: string, start?: string])[] = [
  ['/Set_Failpoint', '/set_failpoint'],
  ['/a1/b/?c/d', '/a1/b'],
  ['/a/b#c/d', '/a/b'],
  ['/%61/%2562/%25252562', '/a/b/b'],
  ['/a%2Fb%5Cc\\d', '/a/b/c/d'],
  ['/a;x=1/b;y', '/a/b', '/a'],
  ['/;xy/b', '/b', ''],
  ['/a%3Bx/b', '/a/b', '/a'],
  ['/a%3Fx/b', '/a/b', '/a'],
  ['/a%23x/b', '/a/b', '/a'],
  ['/a%00x/b', '/a/b', '/a'],
  ['//a///b/', '/a/b'],
  ['/-/a.json/%20b%20', '/a/b'],
  ['/x/../a/./b', '/a/b'],
  ['/x/%2E%2e/a', '/a'],
  ['/x/%EF%BC%8E%EF%BC%8E/a', '/a'],
  ['/../a', '/a'],
  ['/set%ef%bc%bffailpoint', '/set_failpoint'],
  ['/%EF%BC%A1', '/a'],
  ['/fa%C4%B1l/fa%C4%B0l', '/fail/fail'],
  ['/fa%C2%ADil', '/fail'],
  ['', ''],
];

for (const [path, whole, start = whole] of folded) {
  test(`the path ${path} folds to ${[...new Set([whole, start])].join(' or ')}`, () => {
    assert.deepEqual(foldedPaths(path), [whole, start]);
  });
}

test('a dot segment is found in spellings that only some routers read as one', () => {
  const dots = [
    ['/a/..%20', '/a/%20..', '/%EF%BC%8E%EF%BC%8E/a', '/a/%C2%A0./b', '/a/..%3Fb', '/a/.%3Bb', '/a/.%00'],
    ['/a/%2e%23'],
  ].flat();
  for (const path of dots) assert.ok(hasFoldedDots(path), path);
  for (const path of ['', '/a', '/a/...%20', '/a/..b%20', '/a/b..%20', '/a?%20/..', '/a%20#/..'])
    assert.ok(!hasFoldedDots(path), path);
});

// Spellings collected from the outside (test/vectors/canonical), put through the parsers of the routes.

type Kind = 'address' | 'struct_tag' | 'module' | 'view' | 'hash' | 'ledger_version';

type Vector = { readonly kind: Kind; readonly note?: string } & (
  | { readonly same: boolean; readonly a: string; readonly b: string }
  | { readonly refused: true; readonly status: number; readonly text: string }
);

const file = new URL('../../vectors/canonical/canonical.json', import.meta.url);
const vectors = JSON.parse(readFileSync(file, 'utf8')) as readonly Vector[];
const account = '0x1::account::Account';

/** Every key that the text has a part in: an address stands in two routes, a version in three. */
const keysOf: Readonly<Record<Kind, (text: string) => string[]>> = {
  address: (text) => [keyOf(readResource(text, account)), keyOf(readModule(text, 'coin'))],
  struct_tag: (text) => [keyOf(readResource('0x1', text))],
  module: (text) => {
    const [address = '', name = ''] = text.split('/');
    return [keyOf(readModule(address, name))];
  },
  view: (text) => [keyOf(readView(text))],
  hash: (text) => [keyOf(readTransaction(text))],
  ledger_version: (text) => {
    const query = `?ledger_version=${encodeURIComponent(text)}`;
    const view = '{"function":"0x1::m::f","type_arguments":[],"arguments":[]}';
    return [
      keyOf(readResource('0x1', account, { query })),
      keyOf(readModule('0x1', 'coin', { query })),
      keyOf(readView(view, { query })),
    ];
  },
};

test('the vectors are all here', () => {
  assert.equal(vectors.length, 64);
});

for (const [index, vector] of vectors.entries()) {
  const { kind, note } = vector;
  const place = `vector ${index + 1}, ${kind}${note === undefined ? '' : ` (${note})`}`;
  if ('refused' in vector) {
    test(`${place}: ${JSON.stringify(vector.text)} is refused with ${vector.status}`, () => {
      assert.throws(
        () => keysOf[kind](vector.text),
        (error) => error instanceof GatewayError && error.status === vector.status,
      );
    });
  } else {
    const claim = vector.same ? 'have one key' : 'have keys of their own';
    test(`${place}: ${JSON.stringify(vector.a)} and ${JSON.stringify(vector.b)} ${claim}`, () => {
      const [a, b] = [keysOf[kind](vector.a), keysOf[kind](vector.b)];
      for (const [at, key] of a.entries()) assert.equal(key === b[at], vector.same, `${key} and ${b[at]}`);
    });
  }
}
