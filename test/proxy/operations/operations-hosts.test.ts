import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findHostRefusal, type AccessRules } from '../../../src/proxy/operations/operations-access.ts';

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

function statusOf(...given: Parameters<typeof refusalOf>): number | undefined {
  return refusalOf(...given)?.status;
}

for (const [claim, host, expected] of hosts) {
  test(`${expected ?? 'passes'}: ${claim}`, () => {
    assert.equal(statusOf(usual, { host }), expected);
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
  const met = Object.keys(expected).map((host) => [host, statusOf(named, { host })]);
  assert.deepEqual(Object.fromEntries(met), expected);
});

test('a request of HTTP/1.0 needs no host, but a given one is checked', () => {
  assert.equal(statusOf(usual, { httpVersion: '1.0' }), undefined);
  assert.equal(statusOf(usual, { httpVersion: '1.0', host: 'evil.example' }), 421);
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
  for (const [url, host, status] of expected) assert.equal(statusOf(usual, { url, host }), status, url);
});

test('a refusal names the host and the key, and cuts a long host', () => {
  assert.match(refusalOf(usual, { host: 'gw.example' })?.message ?? '', /gw\.example.*operations\.hosts/);
  const long = `${'a'.repeat(10_000)}.example`;
  assert.ok((refusalOf(usual, { host: long })?.message.length ?? 0) < 400);
});
