import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { findHostRefusal, type AccessRules, findOperator } from '../../../src/proxy/operations/operations-access.ts';

const usual: AccessRules = { host: '0.0.0.0' };
const named: AccessRules = { host: 'Gateway.Example', hosts: ['metrics.example', '*.svc.prod.example'] };

/** Claim, Host header, status or `undefined` where it passes; `usual` rules and an origin-form target. */
const hosts: readonly (readonly [string, string | undefined, number | undefined])[] = [
  ['an IPv4 address', '10.1.2.3', undefined],
  ['an IPv4 address and a port', '10.1.2.3:9090', undefined],
  ['an IPv6 address', '[::1]', undefined],
  ['an IPv6 address and a port', '[fd00::12]:9090', undefined],
  ['an IPv6 address with its zone', '[fe80::1%eth0]:9090', undefined],
  ['the loopback name', 'localhost:9090', undefined],
  ['the loopback name in capitals, with its root', 'LOCALHOST.:9090', undefined],
  ['a name below localhost', 'gateway.localhost', undefined],
  ['a name of one label, as of a Service or a container', 'ledgergate-operations:9090', undefined],
  ['a Service of a cluster', 'ledgergate-operations.ledger.svc:9090', undefined],
  ['a Service by its whole name', 'ledgergate-operations.ledger.svc.cluster.local.', undefined],
  ['a pod of a Service', '10-0-0-1.ledgergate-operations.ledger.svc.cluster.local:9090', undefined],
  ['a machine of a cloud', 'ip-10-0-0-1.ec2.internal:9090', undefined],
  ['a port that is empty', 'localhost:', undefined],
  ['a public name', 'evil.example', 421],
  ['a public name with the usual port', 'evil.example:9090', 421],
  ['a public name with its root', 'evil.example.', 421],
  ['a name that only begins like an address', '127.0.0.1.evil.example', 421],
  ['a name that only begins like loopback', 'localhost.evil.example', 421],
  ['a name that only ends like a safe one', 'evilsvc.example', 421],
  ['a domain that is called like a safe one', 'svc.example', 421],
  ['a domain whose last label ends like a safe one', 'evil.notinternal', 421],
  ['a number that is no address', '127.0.0.256', 421],
  ['no host in HTTP/1.1', undefined, 400],
  ['an empty host', '', 400],
  ['a port alone', ':9090', 400],
  ['two hosts, joined', 'localhost, evil.example', 400],
  ['a user', 'evil@localhost', 400],
  ['an encoded dot', 'evil%2eexample', 400],
  ['an IPv6 address without brackets', '::1', 400],
  ['brackets around a name', '[evil.example]', 400],
  ['brackets around an IPv4 address', '[127.0.0.1]', 400],
  ['empty labels', 'evil..example', 400],
  ['a port that is none', 'localhost:http', 400],
];

function refusalOf(
  rules: AccessRules,
  { host, ...request }: { host?: string | undefined; url?: string; httpVersion?: string },
) {
  return findHostRefusal(rules, { headers: { host }, url: '/readyz', httpVersion: '1.1', ...request });
}

function statusOfHost(...given: Parameters<typeof refusalOf>): number | undefined {
  return refusalOf(...given)?.status;
}

for (const [claim, host, expected] of hosts) {
  test(`${expected ?? 'passes'}: ${claim}`, () => {
    assert.equal(statusOfHost(usual, { host }), expected);
  });
}

test('names of the config pass, whatever their case, port and root, and no others', () => {
  const expected: Readonly<Record<string, number | undefined>> = {
    'metrics.example': undefined,
    'Metrics.Example.:9090': undefined,
    'gateway.example:9090': undefined,
    'gw.ledger.svc.prod.example': undefined,
    'svc.prod.example': 421,
    'evilsvc.prod.example': 421,
    'other.example': 421,
    'a.metrics.example': 421,
  };
  const met = Object.keys(expected).map((host) => [host, statusOfHost(named, { host })]);
  assert.deepEqual(Object.fromEntries(met), expected);
});

test('a request of HTTP/1.0 needs no host, but a given one is checked', () => {
  assert.equal(statusOfHost(usual, { httpVersion: '1.0' }), undefined);
  assert.equal(statusOfHost(usual, { httpVersion: '1.0', host: 'evil.example' }), 421);
});

test('the authority of an absolute target is checked as well as the Host', () => {
  const expected: readonly (readonly [string, string, number | undefined])[] = [
    ['http://127.0.0.1:9090/status.json', '127.0.0.1:9090', undefined],
    ['http://evil.example/status.json', '127.0.0.1:9090', 421],
    ['HTTPS://evil.example?/status.json', '127.0.0.1:9090', 421],
    ['http://127.0.0.1/status.json', 'evil.example', 421],
    ['http://evil@127.0.0.1/status.json', '127.0.0.1', 400],
    ['http:///status.json', '127.0.0.1', 400],
  ];
  for (const [url, host, status] of expected) assert.equal(statusOfHost(usual, { url, host }), status, url);
});

test('a refusal names the host and the key, and cuts a long host', () => {
  assert.match(refusalOf(usual, { host: 'gw.example' })?.message ?? '', /gw\.example.*operations\.hosts/);
  const long = `${'a'.repeat(10_000)}.example`;
  assert.ok((refusalOf(usual, { host: long })?.message.length ?? 0) < 400);
});

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
function statusOfCall(...call: Parameters<typeof findOperator>): number | undefined {
  const found = findOperator(...call);
  return 'status' in found ? found.status : undefined;
}

for (const [name, host, token, facts, expected] of cases) {
  test(`${expected === undefined ? 'open' : expected}: ${name}`, () => {
    assert.equal(statusOfCall({ host, token }, facts), expected);
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
    assert.equal(statusOfCall({ host: '127.0.0.1', tokens }, facts), 401);
    assert.equal(statusOfCall({ host: '127.0.0.1', tokens: hashOfNothing }, facts), 401);
    assert.equal(statusOfCall({ host: '127.0.0.1', tokens: [] }, facts), 401);
  }
});
