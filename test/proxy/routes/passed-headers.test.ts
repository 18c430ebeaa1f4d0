import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { test } from 'node:test';
import { GatewayError } from '../../../src/ledger/index.ts';
import { mergedVary, requestHeaders, responseHeaders } from '../../../src/proxy/routes/pass-through.ts';
import { parseStream } from '../../../src/proxy/routes/push.ts';

test('the request headers that nodes use reach them, unknown headers of the interface included', () => {
  const headers = {
    accept: 'application/json',
    'content-type': 'application/json',
    'content-encoding': 'gzip',
    'user-agent': 'x',
    'x-node-anything': 'y',
    'x-aptos-client': 'aptos-typescript-sdk/7.3.1',
    'x-request-id': '7',
    'if-none-match': '"x"',
  };
  assert.deepEqual(requestHeaders(headers as Parameters<typeof requestHeaders>[0]), headers);
});

const withheld = [
  ['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer'],
  ['transfer-encoding', 'upgrade', 'content-length', 'expect', 'host', 'authorization', 'cookie', 'forwarded', 'via'],
  ['x-real-ip', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host', 'x-forwarded-anything', 'http2-settings'],
  ['ledgergate-min-version', 'ledgergate-anything', 'accept-encoding', 'x-api-key', 'x-auth-token', 'x-anything'],
  ['traceparent', 'tracestate', 'baggage', 'x-original-url', 'x-rewrite-url', 'x-http-method-override', 'x-host'],
  ['x_forwarded_for', 'content_length', 'proxy', 'range', 'if-range', 'origin', 'referer', 'sec-websocket-key'],
  ['cf-connecting-ip', 'x-nodexyz', 'x-node_x', '__proto__'],
].flat();

test('other headers do not reach the node', () => {
  for (const name of withheld) {
    const headers = Object.fromEntries([...Object.entries({ accept: 'a' }), [name, 'x']]);
    assert.deepEqual(requestHeaders(headers), { accept: 'a' }, name);
  }
});

test('Connection names headers of this connection only, in both directions', () => {
  const connection = 'close, X-Node-One ,x-node-two';
  const others = { 'x-node-one': '1', 'x-node-two': '2', 'x-node-three': '3' };
  assert.deepEqual(responseHeaders({ connection, ...others }), ['x-node-three', '3']);
  const sent = { accept: 'a', 'user-agent': 'b', 'x-node-client': 'c', 'accept-encoding': 'gzip' };
  const named = requestHeaders({ connection: 'close, Accept ,x-node-client, accept-encoding', ...sent });
  assert.deepEqual(named, { 'user-agent': 'b' });
});

test('a header without a value is left out', () => {
  assert.deepEqual(requestHeaders({ accept: undefined, 'x-node-empty': '' }), { 'x-node-empty': '' });
});

const sent = (headers: IncomingHttpHeaders): unknown => requestHeaders(headers);

/** What a client accepts, and what its node is asked for, the preferred coding first. */
const codings: readonly (readonly [given: string, sent: string | undefined])[] = [
  ['GZIP ;q=0.3,  br, x-own', 'br, gzip'],
  ['gzip, deflate, br, zstd', 'zstd, br, gzip'],
  ['gzip;q=1.0, br;q=0.5, *;q=0', 'gzip, br'],
  ['*', 'zstd, br, gzip'],
  ['identity;q=0.6, gzip, br;q=0.5', 'gzip'],
  ...['', 'identity', 'deflate', 'gzip;q=0', 'identity, gzip;q=0.5', ' '.repeat(300), `gzip, ${'x,'.repeat(200)}`].map(
    (given) => [given, undefined] as const,
  ),
];

test('a node gets the accepted codings in one spelling, and only an Accept that the gateway reads too', () => {
  for (const [given, asked] of codings)
    assert.deepEqual(
      sent({ 'accept-encoding': given }),
      asked === undefined ? {} : { 'accept-encoding': asked },
      given,
    );
  assert.deepEqual(sent({ accept: 'application/x-bcs'.padEnd(1024) }), { accept: 'application/x-bcs'.padEnd(1024) });
  assert.deepEqual(sent({ accept: 'application/x-bcs'.padEnd(1025) }), {});
});

for (const name of ['node', 'aptos'] as const) {
  test(`of the interface's headers (${name}) all but the live ones reach clients`, () => {
    const prefix = `x-${name}-`;
    const live = ['chain-id', 'ledger-version', 'ledger-oldest-version', 'ledger-timestampusec', 'epoch'];
    live.push('block-height', 'oldest-block-height', 'txn-encryption-key');
    const others = { [`${prefix}gas-used`]: '9', [`${prefix}cursor`]: 'ab', [`${prefix}later`]: 'cd' };
    const ledger = Object.fromEntries(live.map((word) => [prefix + word, '1']));

    assert.deepEqual(responseHeaders({ ...ledger, ...others }), Object.entries(others).flat());
  });
}

/** RFC 9110 8, 9111 5, 9530, draft-ietf-httpapi-ratelimit-headers, W3C Trace Context. */
const passed = [
  ['content-type', 'content-length', 'content-language', 'content-disposition', 'content-digest', 'repr-digest'],
  ['x-content-type-options', 'cache-control', 'expires', 'pragma', 'age', 'etag', 'last-modified', 'allow'],
  ['retry-after', 'traceparent', 'ratelimit', 'ratelimit-policy', 'ratelimit-remaining', 'x-ratelimit-reset'],
].flat();

test('headers about content, caches, limits and the trace reach clients', () => {
  for (const name of passed) assert.deepEqual(responseHeaders({ [name]: 'x' }), [name, 'x']);
  assert.deepEqual(responseHeaders({ 'cache-control': ['a', 'b'] }), ['cache-control', 'a', 'cache-control', 'b']);
});

const kept = [
  ['link', 'content-location', 'refresh', 'alt-svc', 'server', 'via', 'x-powered-by', 'forwarded', 'report-to'],
  ['nel', 'reporting-endpoints', 'content-security-policy', 'x-forwarded-host', 'x-real-ip', 'x-served-by'],
  ['x-backend', 'x-request-id', 'server-timing', 'warning', 'www-authenticate', 'proxy-authenticate', 'set-cookie'],
  ['sourcemap', 'x-accel-redirect', 'x-accel-expires', 'x-sendfile', 'x-lighttpd-send-file', 'x-reproxy-url'],
  ['surrogate-control', 'cdn-cache-control', 'cloudflare-cdn-cache-control', 'edge-control', 'cache-status'],
  ['x-cache', 'access-control-allow-origin', 'access-control-allow-credentials', 'ledgergate-served-version'],
  ['ledgergate-anything', 'strict-transport-security', 'clear-site-data', 'service-worker-allowed', 'accept-ranges'],
  ['content-range', 'content-encoding', 'vary', 'date', 'connection', 'keep-alive', 'transfer-encoding', 'trailer'],
  ['upgrade', 'te', 'anything', 'x-anything', '__proto__', 'x-nodexyz', 'x-node_x', 'x-ratelimit_by', 'host'],
  ['age-of', 'constructor'],
].flat();

test('other headers of a node reach no client', () => {
  for (const name of kept) {
    assert.deepEqual(responseHeaders(Object.fromEntries([[name, 'http://10.0.0.1']])), [], name);
  }
});

test('limit headers of a node do not reach a client with limits of its own', () => {
  const limits = { ratelimit: '"a";r=1', 'x-ratelimit-limit': '5', 'retry-after': '1' };
  assert.deepEqual(responseHeaders(limits, {}, true), ['retry-after', '1']);
});

test("an answer header named like a node's credential reaches no client", () => {
  assert.deepEqual(responseHeaders({ 'x-node-key': 'k', etag: '"x"' }, { 'x-node-key': 'k' }), ['etag', '"x"']);
});

const location = (value: string | string[]): string[] => responseHeaders({ location: value });

test('a redirection reaches a client only if it stays below this gateway', () => {
  for (const relative of ['/v1/x', 'x?y=a:b', './x', '?y']) {
    assert.deepEqual(location(relative), ['location', relative]);
  }
  const foreign = ['http://10.0.0.1:8080/v1', 'HTTPS://a', '//a/v1', '/\\a', '\\\\a', 'http:a', 'x:y', '', ' http://a'];
  for (const value of foreign) assert.deepEqual(location(value), [], value);
  for (const value of ['/login?to=http://10.0.0.1', '/x?to=http%3A%2f%2F10.0.0.1', 'x?y=http:%2F/a']) {
    assert.deepEqual(location(value), [], value);
  }
  assert.deepEqual(location(['/a', '/b']), []);
});

const own = 'Accept, Accept-Encoding, Origin';

test("the gateway merges a node's Vary with its own", () => {
  const merged: readonly (readonly [string | string[] | undefined, string])[] = [
    [undefined, own],
    ['', own],
    ['origin, ACCEPT', own],
    ['X-Node-Client', `${own}, X-Node-Client`],
    [['Origin', 'x-one, X-One,, x-two '], `${own}, x-one, x-two`],
  ];
  for (const [given, vary] of merged) assert.equal(mergedVary(own, given), vary);
});

test('a Vary that cannot be merged yields none', () => {
  const bad = ['*', 'Origin, *', ['Origin', '*'], 'a b', 'a\u00e9', 'a;b', 'x,'.repeat(600)];
  for (const given of bad) assert.equal(mergedVary(own, given), undefined, String(given));
});

// The start and the filters of a stream of transactions.

const path = '/v1/transactions';
const transfer = {
  sender: '0xa1',
  function: '0x1::aptos_account::transfer',
  events: ['0x1::coin::WithdrawEvent', '0x1::object::Moved<0x1::coin::Coin<u8>, u64>'],
};
const checkpoint = { sender: undefined, function: undefined, events: [] };

function filterOf(query: string) {
  return parseStream(`${path}?${query}`, undefined).filter;
}

test('a stream begins at start, and behind Last-Event-ID, which is ahead of it', () => {
  const starts: readonly [query: string, id: string | undefined, cursor: bigint | undefined, isResumed: boolean][] = [
    ['', undefined, undefined, false],
    ['?start=7', undefined, 7n, false],
    ['?start=0', undefined, 0n, false],
    ['?start=7', '41', 42n, true],
    ['', '9007199254740993', 9007199254740994n, true],
    // A client whose last id was emptied by a rollback to the genesis.
    ['?start=7', '', 7n, false],
  ];
  for (const [query, id, cursor, isResumed] of starts) {
    const found = parseStream(path + query, id);
    assert.deepEqual([found.cursor, found.isResumed, found.filter], [cursor, isResumed, undefined]);
  }
});

test('malformed and unknown parts are refused', () => {
  const refused: readonly [query: string, id?: string][] = [
    ['?start=x'],
    ['?start=18446744073709551616'],
    ['?start=1&start=2'],
    ['?limit=10'],
    ['?sender=alice'],
    ['?function=transfer'],
    ['?function=0x1::*'],
    ['?function=*'],
    ['?event_type=0x1::coin'],
    ['', 'x'],
    ['', '1, 2'],
    ['', '18446744073709551615'],
  ];
  for (const [query, id] of refused) {
    assert.throws(
      () => parseStream(path + query, id),
      (error) => error instanceof GatewayError && error.status === 400 && error.code === 'invalid_input',
      `${query} ${id}`,
    );
  }
});

test('filters compare canonical spellings, and all have to pass', () => {
  const passed = [
    'sender=0x00a1',
    'sender=a1',
    'function=0x01::aptos_account::transfer',
    'function=0x1::aptos_account::*',
    'event_type=0x01::coin::WithdrawEvent',
    'event_type=0x1::object::Moved%3C0x1::coin::Coin%3Cu8%3E,u64%3E',
    'sender=0xa1&function=0x1::aptos_account::*&event_type=0x1::coin::WithdrawEvent',
  ];
  const stopped = [
    'sender=0xa2',
    'function=0x1::aptos_account::transfe',
    'function=0x1::aptos::*',
    'function=0x1::coin::*',
    'event_type=0x1::coin::DepositEvent',
    'sender=0xa1&function=0x1::coin::*',
    'sender=0xa2&event_type=0x1::coin::WithdrawEvent',
  ];
  for (const query of passed) assert.equal(filterOf(query)?.matches(transfer), true, query);
  for (const query of stopped) assert.equal(filterOf(query)?.matches(transfer), false, query);
  for (const query of [...passed, ...stopped]) assert.equal(filterOf(query)?.matches(checkpoint), false, query);
});

test('filters in two spellings have one key', () => {
  assert.equal(filterOf('sender=0x01&function=1::coin::*')?.key, filterOf('function=0x1::coin::*&sender=0x1')?.key);
  assert.notEqual(filterOf('function=0x1::coin::any')?.key, filterOf('function=0x1::coin::*')?.key);
});
