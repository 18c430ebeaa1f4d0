import assert from 'node:assert/strict';
import { test } from 'node:test';
import { durationMs, findDurationMs, findSizeBytes, sizeBytes } from '../../../src/config/schema/schema-parts.ts';
import { loadText, problemsOf } from '../config-file.ts';

test('a duration is a whole number and a unit', () => {
  const table = { '0ms': 0, '200ms': 200, '5s': 5_000, '2m': 120_000, '3h': 10_800_000, '7d': 604_800_000 };
  for (const [text, ms] of Object.entries(table)) assert.equal(findDurationMs(text), ms, text);
});

test('a size is a whole number and a unit', () => {
  const table = { '0B': 0, '64KiB': 65_536, '256MiB': 268_435_456, '2GiB': 2_147_483_648, '1TiB': 1_099_511_627_776 };
  for (const [text, bytes] of Object.entries(table)) assert.equal(findSizeBytes(text), bytes, text);
});

test('other texts are neither', () => {
  for (const text of ['', '5', '5 s', 's', '-5s', '1.5s', '5S', '5sec', '0x5s', '5s\n', 5, null, undefined, ['5s']]) {
    assert.equal(findDurationMs(text), undefined, String(text));
  }
  for (const text of ['', '5', '5 MiB', '5MB', '5mib', '-5MiB', '1.5GiB', '5M', '9999999999TiB', 5, null]) {
    assert.equal(findSizeBytes(text), undefined, String(text));
  }
});

test('the functions for checked text refuse unchecked text', () => {
  assert.throws(() => durationMs('5'), RangeError);
  assert.throws(() => sizeBytes('5'), RangeError);
});

const fleet = (url: string): string => `upstreams: [{ name: a, url: ${JSON.stringify(url)} }]\n`;

test('valid base addresses are accepted, with or without a trailing slash', (t) => {
  const table = {
    'http://10.0.0.1:8080/v1': 'http://10.0.0.1:8080/v1',
    'http://10.0.0.1:8080/v1/': 'http://10.0.0.1:8080/v1',
    'https://node.example/a/key/v1': 'https://node.example/a/key/v1',
    'http://[::1]:8081/v1': 'http://[::1]:8081/v1',
    'http://node.example': 'http://node.example/',
    'http://node.example/': 'http://node.example/',
  };
  for (const [url, href] of Object.entries(table)) {
    assert.equal(loadText(t, fleet(url)).config.upstreams[0]?.url, href, url);
  }
});

test('others are refused with the reason, without a quote: they may contain a password', (t) => {
  const table = {
    'ftp://node/v1': 'expected a base address such as "http://10.0.0.1:8080/v1", got another address',
    '10.0.0.1:8080/v1': 'expected a base address such as "http://10.0.0.1:8080/v1", got "10.0.0.1:8080/v1"',
    'http:/node/v1': 'expected a base address such as "http://10.0.0.1:8080/v1", got "http:/node/v1"',
    'http://me:secret@node/v1': 'must not carry credentials',
    'http://secret@node/v1': 'must not carry credentials',
    'http://node/v1?': 'must end with its path: no "?" and no "#"',
    'http://node/v1?key=1': 'must end with its path: no "?" and no "#"',
    'http://node/v1#archival': 'must end with its path: no "?" and no "#"',
    'http://node:99999/v1': 'is not a valid address',
    'http://no de/v1': 'is not a valid address',
    'http://node\\v1': 'is not a valid address',
  };
  for (const [url, problem] of Object.entries(table)) {
    assert.deepEqual(problemsOf(t, fleet(url)), [`F:1:29: upstreams[0].url: ${problem}`], url);
  }
});

test("the gateway's own address is no upstream", (t) => {
  const problem = "is the gateway's own address: listen.port is 8080, too (give the gateway another port)";
  for (const url of ['http://127.0.0.1:8080/v1', 'http://localhost:8080', 'http://[::1]:8080/v1']) {
    assert.deepEqual(problemsOf(t, fleet(url)), [`F:1:29: upstreams[0].url: ${problem}`], url);
  }
  for (const url of ['http://127.0.0.1:8081/v1', 'http://10.0.0.1:8080/v1']) {
    assert.deepEqual(problemsOf(t, fleet(url)), [], url);
  }
  const elsewhere = 'listen: { host: 10.0.0.2 }\n';
  assert.deepEqual(problemsOf(t, fleet('http://127.0.0.1:8080/v1') + elsewhere), []);
});

function discovered(url: string): string {
  return `upstreams: [{ name: a, discover: dns, url: "${url}" }]\n`;
}

test('an upstream with discover: dns has a host name', (t) => {
  for (const url of ['http://10.0.0.1:8081/v1', 'http://[fd00::1]:8081/v1']) {
    const problem = 'F:1:34: upstreams[0].discover: needs a host name in url, not an address';
    assert.deepEqual(problemsOf(t, discovered(url)), [problem], url);
  }
  assert.deepEqual(problemsOf(t, discovered('https://nodes.ledger.svc:8081/v1')), []);
});

test('two names for one address are warned about', (t) => {
  const { warnings } = loadText(t, 'upstreams: [{ name: a, url: "http://n/v1" }, { name: b, url: "http://n/v1/" }]\n');

  assert.deepEqual(warnings, ['upstreams a and b have the same address: they are one node']);
});
