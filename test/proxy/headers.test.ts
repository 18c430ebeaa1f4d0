import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dialectOf } from '../../src/ledger/ledger-headers.ts';
import { requestHeaders, ResponseHeaders } from '../../src/proxy/headers.ts';

test('what nodes need to know of what a client said reaches them, headers of the interface that are not known yet included', () => {
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
  ['traceparent', 'tracestate', 'baggage'],
  ['x-original-url', 'x-rewrite-url', 'x-http-method-override', 'x-host', 'x_forwarded_for', 'content_length', 'proxy'],
  [
    'range',
    'if-range',
    'origin',
    'referer',
    'sec-websocket-key',
    'cf-connecting-ip',
    'x-nodexyz',
    'x-node_x',
    '__proto__',
  ],
].flat();

for (const name of withheld) {
  test(`${name} does not reach the node`, () => {
    assert.deepEqual(
      requestHeaders(
        Object.fromEntries([
          ['accept', 'a'],
          [name, 'x'],
        ]),
      ),
      { accept: 'a' },
    );
  });
}

test('what Connection names is of this connection only, in both directions', () => {
  const connection = 'close, X-One ,x-two';
  const others = { 'x-one': '1', 'x-two': '2', 'x-three': '3' };
  const kept = new ResponseHeaders(dialectOf('node')).keep({ connection, ...others });
  assert.deepEqual(kept, ['x-three', '3']);
  const told = { accept: 'a', 'user-agent': 'b', 'x-node-client': 'c' };
  const named = requestHeaders({ connection: 'close, Accept ,x-node-client', ...told });
  assert.deepEqual(named, { 'user-agent': 'b' });
});

test('a header without a value is left out', () => {
  assert.deepEqual(requestHeaders({ accept: undefined, 'x-node-empty': '' }), { 'x-node-empty': '' });
});

for (const name of ['node', 'aptos'] as const) {
  test(`the seven ledger headers of a node are not handed on (${name}); its other headers are`, () => {
    const prefix = `x-${name}-`;
    const seven = ['chain-id', 'ledger-version', 'ledger-oldest-version', 'ledger-timestampusec', 'epoch'];
    seven.push('block-height', 'oldest-block-height');
    const others = { [`${prefix}gas-used`]: '9', [`${prefix}cursor`]: 'ab', [`${prefix}txn-encryption-key`]: 'cd' };
    const ledger = Object.fromEntries(seven.map((word) => [prefix + word, '1']));

    const kept = new ResponseHeaders(dialectOf(name)).keep({ ...ledger, ...others });

    assert.deepEqual(kept, Object.entries(others).flat());
  });
}

test('an answer keeps its length, type, coding and repeated headers, and loses what the gateway answers for', () => {
  const end = { 'content-length': '2', 'content-type': 'application/json', 'content-encoding': 'gzip', etag: '"x"' };
  const own = { date: 'd', server: 's', 'set-cookie': ['a=b'], vary: 'Origin', 'cache-status': 'x', 'alt-svc': 'h3' };
  const claims = { 'ledgergate-served-version': '5', 'ledgergate-anything': 'x', refresh: '0; url=http://10.0.0.1' };
  const hop = { 'keep-alive': 'timeout=5', 'transfer-encoding': 'chunked', trailer: 'x', upgrade: 'h2c', te: 'x' };
  const cors = { 'access-control-allow-origin': '*', 'access-control-allow-credentials': 'true' };

  const kept = new ResponseHeaders(dialectOf('node')).keep({
    ...end,
    ...own,
    ...claims,
    ...hop,
    ...cors,
    link: ['a', 'b'],
  });

  assert.deepEqual(kept, [...Object.entries(end).flat(), 'link', 'a', 'link', 'b']);
});

const keep = (location: string | string[]): string[] => new ResponseHeaders(dialectOf('node')).keep({ location });

test('a redirection is handed on only where it stays below this gateway', () => {
  for (const relative of ['/v1/x', 'x?y=http://a', './x', '?y'])
    assert.deepEqual(keep(relative), ['location', relative]);
  const foreign = ['http://10.0.0.1:8080/v1', 'HTTPS://a', '//a/v1', '/\\a', '\\\\a', 'http:a', 'x:y', '', ' http://a'];
  for (const location of foreign) assert.deepEqual(keep(location), [], location);
  assert.deepEqual(keep(['/a', '/b']), []);
});
