/** Spellings of request targets: absolute ones, authorities, parameters, folded paths. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownCopy } from '../../../src/proxy/http/target-cache.ts';
import { isAuthority, originForm } from '../../../src/proxy/http/target.ts';
import { hasParameter, knownParameters, numberParameter } from '../../../src/proxy/routes/parse-read.ts';
import { foldedPaths, hasFoldedDots } from '../../../src/proxy/routes/target.ts';

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
