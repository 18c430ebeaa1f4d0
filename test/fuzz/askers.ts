/** The parsers that decide rights: keys and their files, forwarded addresses, operations, plain heads and targets. */
import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { clientAddress, countedNetwork, Networks } from '../../src/access/keys/client-address.ts';
import { type AccessOperation, createKey, hashKey, holdsKey, Principals } from '../../src/access/keys/principals.ts';
import { findKey, readKeysFile } from '../../src/access/keys/file-keys.ts';
import { ConfigError } from '../../src/config/source/problem.ts';
import { HeaderBlocks, readHead } from '../../src/proxy/http/fast-path/request-head.ts';
import { GatewayError } from '../../src/ledger/errors.ts';
import { AdminFault } from '../../src/proxy/operations/admin-request.ts';
import { Router } from '../../src/proxy/routes/router.ts';
import { parseUsageQuery } from '../../src/proxy/operations/usage-report.ts';
import { fc } from '../support/fast-check.ts';
import { planConfig } from '../support/keys.ts';
import { changed, soup } from './soup.ts';
import { attempt, fuzzTarget } from './target.ts';

const hops = soup(...'10.0.0.1 203.0.113.7 ::1 2001:db8::1 ::ffff:10.0.0.1 %eth0 :80 [ ] ,'.split(' '), ' ');
const proxies = new Networks(['10.0.0.0/8', '::1/128']);

const { key } = createKey();
const principals = new Principals(
  { header: 'authorization', plans: { free: planConfig() }, anonymous: undefined, trustedProxies: [] },
  { file: true, redis: false },
);
principals.setKeys('file', [{ name: 'a', tenant: 'a', plan: 'free', sha256: hashKey(key) }]);

const sha256 = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad';
const keysFile = `keys:
  - name: wallet-a # unique
    tenant: acme
    plan: paid
    sha256: "${sha256}"
    operations: [read, view]
    origins: ["https://app.example"]
    expires: "2027-01-01T00:00:00Z"
  - name: b
    plan: free
    sha256: ${sha256.replace('b', 'c')}
`;
const keyWords = ['keys:', '  - ', 'name: ', 'plan: ', '"', "'", '[', ']', '{', '}', ' #', '#', '\n', '  ', '\t', '\r'];
const moreKeyWords = ['&a ', '*a', '${A}', '~', 'null', '0x1', '1e9', '\\', ',', ': ', '__proto__: a', 'read', '---\n'];
const keysTexts = fc.oneof(
  changed(fc.constant(keysFile), ...keyWords, ...moreKeyWords),
  soup(...keyWords, ...moreKeyWords),
);
const isConfigError = (error: unknown): boolean => error instanceof ConfigError && error.problems.length > 0;

const operations: Readonly<Record<string, AccessOperation>> = {
  'GET ': 'read',
  'GET /accounts/0x1/resource/0x1::a::B': 'read',
  'GET /transactions/wait_by_hash/0x1': 'read',
  'POST /view': 'view',
  'POST /transactions/encode_submission': 'encode',
  'POST /transactions': 'submit',
  'POST /transactions/batch': 'submit',
};
const strictest: readonly AccessOperation[] = ['submit', 'encode', 'view', 'pass', 'read'];

/** Ways in which lenient routers read a path, alone or one after the other. */
const habits: readonly ((path: string) => string)[] = [
  (path) => path.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
  (path) => path.toLowerCase(),
  (path) => path.replaceAll(/;[^/]*/g, ''),
  (path) => path.replace(/[;?#].*$/s, ''),
  (path) => path.replaceAll(/\/+/g, '/'),
  (path) => path.replace(/\/+$/, ''),
  (path) => path.trim(),
  (path) => path.replace(/\.json$/, ''),
];
const places =
  'accounts resource 0x1 0x1::a::B transactions wait_by_hash encode_submission batch view set_failpoint'.split(' ');
const spelledPaths = fc.oneof(
  changed(
    fc.constantFrom(...Object.keys(operations).map((row) => row.split(' ')[1] ?? ''), '/set_failpoint'),
    '/',
    '%2f',
    '%76',
    '%3b',
    ';a',
    '%20',
    '.json',
    '%3F',
    'V',
    'T',
    '%C3',
  ),
  soup('/', ';', '%', '%3b', '%41', '%20', '.', 'a', 'VIEW', ...places),
);

const router = new Router('/v1');
const heads = changed(
  fc.constantFrom(
    'GET /v1 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n',
    'HEAD /v1?a HTTP/1.1\r\nHost: a\r\nX-A: b c\r\nConnection: close\r\n\r\nGET /',
  ),
  '\r\n',
  '\n',
  '\r',
  ' ',
  ':',
  '\t',
  '\0',
  'Host: b\r\n',
  'Content-Length: 5\r\n',
  '\u00e4',
  'HTTP/1.1',
  '#',
);

export const askerTargets = [
  fuzzTarget('X-Forwarded-For', fc.tuple(hops, fc.constantFrom('10.0.0.1', '203.0.113.7', '::1')), ([text, from]) => {
    const address = clientAddress(from, text, proxies);
    assert.notEqual(isIP(address), 0);
    assert.equal(countedNetwork(countedNetwork(address).replace(/\/64$/, '')), countedNetwork(address));
    if (!proxies.holds(from)) assert.equal(address, from);
    else if (!proxies.holds(address)) assert.ok(text.length > 0);
  }),
  fuzzTarget(
    'a key in a header',
    soup('Bearer', 'bearer', ' ', key, key.slice(0, 20), 'lgk_', ',', '\t', 'a'),
    (text) => {
      const found = principals.find({ authorization: text }, undefined, 0);
      assert.equal(typeof found === 'object', new RegExp(`^Bearer +${key} *$`, 'i').test(text) && text.includes(key));
      if (text.includes(key)) assert.ok(holdsKey(text));
    },
  ),
  fuzzTarget('file of keys', keysTexts, (text) => {
    const read = attempt(() => readKeysFile(text, 'keys.yaml'), isConfigError);
    for (const found of read?.keys ?? []) assert.match(found.sha256, /^[\da-f]{64}$/);
  }),
  fuzzTarget(
    'key in Redis',
    changed(fc.constant('{"name":"a","plan":"paid"}'), '"tenant":', '{', '}', ',', 'null'),
    (text) => {
      const found = findKey(sha256, text);
      if (found !== undefined) assert.equal(found.sha256, sha256);
    },
  ),
  fuzzTarget(
    'operation',
    fc.tuple(spelledPaths, fc.constantFrom('GET', 'POST'), fc.shuffledSubarray([...habits])),
    (input) => {
      const [path, method, taken] = input;
      const match = router.match(method, `/v1${path}`);
      const counted = match.operation;
      const passed = attempt(
        () => match.passedPath,
        (error) => error instanceof GatewayError,
      );
      if (passed === undefined) return;
      const read = taken.reduce((text, habit) => habit(text), passed.split('?', 1)[0] ?? '');
      const meant = operations[`${method} ${read}`];
      if (meant !== undefined)
        assert.ok(strictest.indexOf(counted) <= strictest.indexOf(meant), `${counted}, ${meant}`);
      assert.notEqual(read, '/set_failpoint');
    },
  ),
  fuzzTarget('head on the fast path', heads, (text) => {
    const head = readHead(text, 0, new HeaderBlocks());
    if (head === undefined) return;
    assert.match(head.target, /^\/[^ ]*$/);
    assert.ok(text.slice(0, head.end).endsWith('\r\n\r\n'));
    for (const [name, value] of Object.entries(head.block.headers)) {
      assert.match(name, /^[!#$%&'*+.^`|~\w-]+$/);
      assert.equal(name, name.toLowerCase());
      assert.match(String(value), /^[\t -~]*$/);
    }
  }),
  fuzzTarget(
    'query for usage',
    fc.dictionary(
      fc.constantFrom('from', 'to', 'key', 'format', 'x'),
      soup('2027-01-31', 'T08:00', 'Z', 'csv', '-', '9'),
    ),
    (given) => {
      const query = attempt(
        () => parseUsageQuery(given, Date.UTC(2027, 0, 31)),
        (error) => error instanceof AdminFault && error.status === 400,
      );
      if (query !== undefined) assert.ok(query.fromMs < query.toMs);
    },
  ),
];
