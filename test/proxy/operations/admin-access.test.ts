import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { findOperator } from '../../../src/proxy/operations/operations-access.ts';

const token = 'correct horse'.replace(' ', '-battery-');
type Headers = Parameters<typeof findOperator>[1];

const cases: readonly (readonly [string, string, string | undefined, Headers, number | undefined])[] = [
  ['loopback, from this machine', '127.0.0.1', undefined, { host: '127.0.0.1:9090' }, undefined],
  ['loopback, by name', '127.0.0.1', undefined, { host: 'localhost:9090' }, undefined],
  ['loopback, without a port', '::1', undefined, { host: '[::1]' }, undefined],
  ['loopback of version 6', '::1', undefined, { host: '[::1]:9090' }, undefined],
  ['a name that was bound to loopback', '127.0.0.1', undefined, { host: 'evil.example:9090' }, 403],
  ['a name that only begins like loopback', '127.0.0.1', undefined, { host: '127.0.0.1.evil.example' }, 403],
  ['no Host at all', '127.0.0.1', undefined, {}, 403],
  ['a web page', '127.0.0.1', undefined, { host: 'localhost', origin: 'https://evil.example' }, 403],
  ['a web page without a name', '127.0.0.1', undefined, { host: 'localhost', origin: 'null' }, 403],
  ['every address, without a token', '0.0.0.0', undefined, { host: '127.0.0.1' }, 403],
  ['every address of version 6, without a token', '::', undefined, { host: '[::1]' }, 403],
  ['a private address, without a token', '10.0.0.1', undefined, { host: '10.0.0.1' }, 403],
  ['the token, anywhere', '0.0.0.0', token, { authorization: `Bearer ${token}`, host: 'gateway.example' }, undefined],
  ['the token, the scheme in small letters', '0.0.0.0', token, { authorization: `bearer ${token}` }, undefined],
  ['the token between spaces', '0.0.0.0', token, { authorization: `Bearer  ${token} ` }, undefined],
  ['the token with a comma', '0.0.0.0', 'one,two-and-more', { authorization: 'Bearer one,two-and-more' }, undefined],
  ['no token where one is asked for', '0.0.0.0', token, {}, 401],
  ['no token on loopback where one is asked for', '127.0.0.1', token, { host: 'localhost' }, 401],
  ['another token', '0.0.0.0', token, { authorization: `Bearer ${token}x` }, 401],
  ['the beginning of the token', '0.0.0.0', token, { authorization: `Bearer ${token.slice(0, -1)}` }, 401],
  ['another scheme', '0.0.0.0', token, { authorization: `Basic ${token}` }, 401],
  ['an empty token', '0.0.0.0', token, { authorization: 'Bearer ' }, 401],
];

/** The status of the refusal; `undefined`: access is granted. */
function statusOf(...call: Parameters<typeof findOperator>): number | undefined {
  const found = findOperator(...call);
  return 'status' in found ? found.status : undefined;
}

for (const [name, host, token, facts, expected] of cases) {
  test(`${expected === undefined ? 'open' : expected}: ${name}`, () => {
    assert.equal(statusOf({ host, token }, facts), expected);
  });
}

const [ana, ben] = ['token-of-ana-4711', 'token-of-ben-4712'];
const tokens = [
  { name: 'ana', role: 'admin', sha256: hash('sha256', ana).toUpperCase() },
  { name: 'ben', role: 'read', sha256: hash('sha256', ben) },
] as const;
const by = (text: string): Headers => ({ authorization: `Bearer ${text}` });

test('each token has the name and the role of its entry, the single one the name token', () => {
  const rules = { host: '0.0.0.0', token, tokens };

  assert.deepEqual(findOperator(rules, by(ana)), { name: 'ana', role: 'admin' });
  assert.deepEqual(findOperator(rules, by(ben)), { name: 'ben', role: 'read' });
  assert.deepEqual(findOperator(rules, by(token)), { name: 'token', role: 'admin' });
  assert.deepEqual(findOperator({ host: '::1' }, { host: 'localhost' }), { name: 'loopback', role: 'admin' });
});

test('without a token of the list the port stays closed, on loopback, too', () => {
  const hashOfNothing = [{ name: 'ana', role: 'admin', sha256: hash('sha256', '') }] as const;

  for (const facts of [by('x'.repeat(17)), by(hash('sha256', ana)), by(''), { host: 'localhost' }]) {
    assert.equal(statusOf({ host: '127.0.0.1', tokens }, facts), 401);
    assert.equal(statusOf({ host: '127.0.0.1', tokens: hashOfNothing }, facts), 401);
    assert.equal(statusOf({ host: '127.0.0.1', tokens: [] }, facts), 401);
  }
});
