// Headers, hosts and targets: none redirects a request to another node, path or method, or carries a secret there.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, testGateway, twoTiers } from '../../support/gateway.ts';
import { assertWellFormed, testHostile } from '../../support/hostile.ts';

let version = 0;
/** A passed path: a well-formed request reaches the node with its headers. */
const account = (): string => `/v1/accounts/0x1?ledger_version=${(version += 1)}&x=1`;
const get = (target: string, headers: string): string => `GET ${target} HTTP/1.1\r\n${headers}\r\n`;

const withHeaders = (title: string, headers: string) => {
  const target = account();
  return [title, get(target, `Host: a\r\n${headers}`), 200, 'kept', `GET ${target}`] as const;
};
const broken = (title: string, headers: string) =>
  [title, get(account(), `Host: a\r\n${headers}`), 400, 'closed'] as const;
const numbered = (count: number): string => Array.from({ length: count }, (_, index) => `x${index}: y\r\n`).join('');

testHostile('headers', [
  withHeaders('199 headers and the host', numbered(199)),
  ['200 headers and the host', get(account(), `Host: a\r\n${numbered(200)}`), 431, 'closed'],
  ['3,000 headers', get(account(), `Host: a\r\n${numbered(3_000)}`), 431, 'closed'],
  ['3,000 headers before the host', get(account(), `${numbered(3_000)}Host: a\r\n`), 431, 'closed'],
  ['one name 1,000 times', get(account(), `Host: a\r\n${'x: y\r\n'.repeat(1_000)}`), 431, 'closed'],
  ['a header of 60 kB', get(account(), `Host: a\r\nX-A: ${'b'.repeat(60_000)}\r\n`), 431, 'closed'],
  withHeaders('Connection of 1,024 characters', `Connection: ${'a,'.repeat(512)}\r\n`),
  ['Connection of 1,025 characters', get(account(), `Host: a\r\nConnection: ${'a,'.repeat(512)}b\r\n`), 431, 'closed'],
  broken('a blank in a name', 'X A: b\r\n'),
  broken('a blank behind a name', 'X-A : b\r\n'),
  broken('a tab behind a name', 'X-A\t: b\r\n'),
  broken('no name', ': b\r\n'),
  broken('no colon', 'X-A\r\n'),
  broken('a NUL in a name', 'X\0A: b\r\n'),
  broken('a NUL in a value', 'X-A: b\0c\r\n'),
  broken('a control character in a value', 'User-Agent: b\x01c\r\n'),
  broken('DEL in a value', 'User-Agent: b\x7fc\r\n'),
  broken('a name that is not ASCII', 'X\xe4: b\r\n'),
  withHeaders('a value that is not ASCII', 'User-Agent: \xff\x80\r\nX-Node-Client: \xc3\xa4\r\n'),
  withHeaders('names with underscores', 'X_Forwarded_For: b\r\nContent_Length: 5\r\nTransfer_Encoding: chunked\r\n'),
  withHeaders('names of Object', '__proto__: x\r\nconstructor: x\r\nhasOwnProperty: x\r\ntoString: x\r\n'),
  withHeaders(
    'credentials',
    'Authorization: secret\r\nCookie: secret\r\nX-Api-Key: secret\r\nX-Auth-Token: secret\r\n',
  ),
  withHeaders('where it came from', 'X-Forwarded-For: b\r\nForwarded: for=b;host=c\r\nX-Real-IP: b\r\nVia: b\r\n'),
  withHeaders(
    'another host',
    'X-Forwarded-Host: b\r\nX-Host: b\r\nX-Forwarded-Server: b\r\nX-HTTP-Host-Override: b\r\n',
  ),
  withHeaders('another target', 'X-Original-URL: /admin\r\nX-Rewrite-URL: /admin\r\nX-Forwarded-Prefix: /admin\r\n'),
  withHeaders('another method', 'X-HTTP-Method-Override: DELETE\r\nX-Method-Override: PUT\r\nX-HTTP-Method: PUT\r\n'),
  withHeaders('a proxy’s header', 'Proxy: b\r\nProxy-Authorization: secret\r\n'),
  withHeaders('a part of the answer', 'Range: bytes=0-1\r\nIf-Range: "x"\r\n'),
  withHeaders(
    'end-to-end headers named as hop-by-hop',
    'Connection: host, accept, content-length, cookie\r\nCookie: secret\r\n',
  ),
  ['another expectation', get(account(), 'Host: a\r\nExpect: 200-maybe\r\n'), 417, 'kept'],
  [
    'two content types',
    `POST ${account()} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}`,
    400,
    'kept',
  ],
]);

const host = (title: string, lines: string) => [title, get(account(), lines), 400, 'kept'] as const;
const hostTaken = (title: string, lines: string) => {
  const target = account();
  return [title, get(target, lines), 200, 'kept', `GET ${target}`] as const;
};

testHostile('hosts', [
  host('none', ''),
  host('two', 'Host: a\r\nHost: b\r\n'),
  host('two equal ones', 'Host: a\r\nX: y\r\nHost: a\r\n'),
  host('a list', 'Host: a, b\r\n'),
  host('with a path', 'Host: a/b\r\n'),
  host('with a query', 'Host: a?b\r\n'),
  host('with a user', 'Host: u@b\r\n'),
  host('with a backslash', 'Host: a\\b\r\n'),
  host('with a blank', 'Host: a b\r\n'),
  host('with a word for a port', 'Host: a:b\r\n'),
  host('with two ports', 'Host: a:1:2\r\n'),
  host('not ASCII', 'Host: \xe4\r\n'),
  host('half in brackets', 'Host: [::1\r\n'),
  hostTaken('of nobody', 'Host:\r\n'),
  hostTaken('of somebody else', 'Host: evil.example:99\r\n'),
  hostTaken('of the operations port', 'Host: 127.0.0.1:9090\r\n'),
  hostTaken('an address', 'Host: [::1]:80\r\n'),
]);

const targetRow = (title: string, target: string, status: number, ends: 'kept' | 'closed' = 'kept') =>
  [title, get(target, 'Host: a\r\n'), status, ends] as const;
const absolute = (title: string, authority: string) => {
  const target = account();
  return [title, get(`http://${authority}${target}`, 'Host: a\r\n'), 200, 'kept', `GET ${target}`] as const;
};
const asItCame = (title: string, target: string, status: number) =>
  [title, get(target, 'Host: a\r\n'), status, 'kept', `GET ${target}`] as const;

testHostile('targets', [
  absolute('with another authority', 'evil.example'),
  absolute('with the address of the operations port', '127.0.0.1:9090'),
  targetRow('with a user', `http://u:p@evil${account()}`, 404),
  targetRow('of a read, with a user', 'http://u:p@evil/v1/accounts/0x1/module/coin', 404),
  targetRow('of a read, with two authorities', 'http://a,b/v1/accounts/0x1/module/coin', 404),
  targetRow('of the ledger info, with a user', 'http://u:p@evil/v1', 404),
  targetRow('with no authority', `http://${account()}`, 400),
  targetRow('with a port that is none', `http://a:b${account()}`, 400),
  targetRow('with backslashes', `http:\\\\evil${account()}`, 400, 'closed'),
  targetRow('of another scheme', 'file:///etc/passwd', 404),
  targetRow('without a scheme', `//evil${account()}`, 404),
  targetRow('an authority', 'evil:443', 400, 'closed'),
  targetRow('a name', 'evil', 400, 'closed'),
  targetRow('an asterisk', '*', 404),
  ['an asterisk for OPTIONS', 'OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n', 405, 'kept'],
  targetRow('dots', '/v1/../admin', 400),
  targetRow('dots within', '/v1/blocks/../../admin/purge', 400),
  targetRow('encoded dots', '/v1/%2e%2E/admin', 400),
  targetRow('half encoded dots', '/v1/.%2e/admin', 400),
  targetRow('dots with a parameter', '/v1/..;/admin', 400),
  targetRow('dots with an encoded parameter', '/v1/..%3bx/admin', 400),
  targetRow('dots encoded twice', '/v1/%252e%252e/admin', 400),
  targetRow('an encoded slash', '/v1/a%2fb', 400),
  targetRow('an encoded slash in a read', '/v1/accounts/0x1%2f..%2f0x2/resource/0x1::a::B', 400),
  targetRow('a slash encoded twice', '/v1/a%252fb', 400),
  targetRow('a backslash', '/v1/..\\admin', 400),
  targetRow('an encoded backslash', '/v1/..%5cadmin', 400),
  targetRow('an encoded NUL', '/v1/a%00.json', 400),
  targetRow('an encoded NUL in a read', '/v1/accounts/0x1%00/module/coin', 400),
  targetRow('an encoded line end', '/v1/a%0d%0aX-A:%20b', 400),
  targetRow('an encoded DEL', '/v1/a%7f', 400),
  targetRow('a NUL', '/v1/a\0b', 400, 'closed'),
  targetRow('overlong dots', '/v1/%c0%ae%c0%ae/admin', 400),
  targetRow('an overlong slash', '/v1/a%c0%afb', 400),
  targetRow('half of a character', '/v1/a%c3', 400),
  targetRow('half of a pair', '/v1/a%ed%a0%80', 400),
  targetRow('a stray percent sign', '/v1/100%/a', 400),
  targetRow('another way to encode', '/v1/%u002e%u002e/admin', 400),
  targetRow('bytes that are not ASCII', '/v1/\xc3\xa4', 400, 'closed'),
  targetRow('empty segments', '/v1//admin', 400),
  targetRow('a fragment', '/v1/a#b', 400),
  targetRow('what nodes test with', '/v1/set%5Ffailpoint?name=x', 404),
  targetRow('the base path encoded', '/%76%31/other', 404),
  targetRow('the base path in capitals', '/V1/info', 404),
  targetRow('the operations port’s', '/metrics', 404),
  asItCame('a parameter of a segment', '/v1/accounts/0x1;a=b?ledger_version=5&x=1', 400),
  targetRow('full-width dots', '/v1/%ef%bc%8e%ef%bc%8e/admin', 400),
  targetRow('dots with a blank', '/v1/..%20/admin', 400),
]);

const method = (name: string, target = account()) =>
  [name, `${name} ${target} HTTP/1.1\r\nHost: a\r\nCookie: secret\r\n\r\n`, 405, 'kept'] as const;

testHostile('methods', [
  ...['TRACE', 'PURGE', 'PROPFIND', 'QUERY', 'SEARCH', 'MKCOL', 'LINK', 'SUBSCRIBE', 'M-SEARCH'].map((name) =>
    method(name),
  ),
  ['CONNECT', 'CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n\r\n', 405, 'closed'],
  ['CONNECT to a path', `CONNECT ${account()} HTTP/1.1\r\nHost: a\r\n\r\n`, 405, 'closed'],
  ['one that is none', `FOO ${account()} HTTP/1.1\r\nHost: a\r\n\r\n`, 400, 'closed'],
]);

test('an upgrade is ignored: the request is answered, and the connection stays HTTP/1.1', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const offers = [
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n',
    'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n',
  ];
  for (const offer of offers) {
    const socket = connect(gateway.port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.write(get(account(), `Host: a\r\n${offer}`));
    const [first] = (await once(socket, 'data')) as [Buffer];
    assert.match(first.toString(), /^HTTP\/1\.1 200 /);

    // The gateway ignores bytes ahead of its answer: a client must wait for the answer to its upgrade.
    socket.write(get('/v1', 'Host: a\r\n'));
    const [second] = (await once(socket, 'data')) as [Buffer];
    assert.match(second.toString(), /^HTTP\/1\.1 200 /);
  }
  for (const request of node.log.received) assertWellFormed(request, new URL(node.url).host);
});

const origin = (length: number): string => 'https://'.padEnd(length, 'a');

test('an Origin or header list above its bound is not echoed', async (t) => {
  const gateway = await testGateway(t, { full: [await fakeNode(t)] });
  const path = '/accounts/0x1/module/coin?ledger_version=5';
  for (const round of ['miss', 'hit']) {
    const [usual, long] = [
      await gateway.get(path, { origin: origin(512) }),
      await gateway.get(path, { origin: origin(513) }),
    ];
    assert.equal(usual.headers['access-control-allow-origin'], origin(512), round);
    assert.deepEqual([long.status, long.headers['access-control-allow-origin']], [200, undefined], round);
  }
  const preflight = (from: string, asked: string) => {
    const headers = { origin: from, 'access-control-request-method': 'GET', 'access-control-request-headers': asked };
    return gateway.send('OPTIONS', path, { headers });
  };
  const [echoed, tooMany, noPage] = [
    await preflight('https://a', 'a'.repeat(4_096)),
    await preflight('https://a', 'a'.repeat(4_097)),
    await preflight(origin(513), 'a'),
  ];
  assert.equal(echoed.headers['access-control-allow-headers'], 'a'.repeat(4_096));
  assert.deepEqual([tooMany.status, tooMany.headers['access-control-allow-headers']], [204, undefined]);
  assert.deepEqual([noPage.status, noPage.headers['access-control-allow-origin']], [204, undefined]);
});

const pinned = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=800';

test('a version on a path that ignores it neither stops the gateway nor moves a window', async (t) => {
  const { gateway } = await twoTiers(t, {}, { head: 1_000n });

  for (const version of ['999999999999', '1000', '999']) {
    await gateway.get(`/blocks/by_height/1?ledger_version=${version}`);
  }
  const reply = await gateway.get(pinned);

  assert.equal(reply.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-0');
});

test('a health check that no node can pass takes no node out', async (t) => {
  const { gateway } = await nodeAndGateway(t, {}, { head: 1_000n });

  const statuses = [];
  for (let round = 0; round < 3; round += 1) {
    statuses.push((await gateway.get('/-/healthy?duration_secs=0')).status);
  }

  assert.deepEqual(statuses, [503, 503, 503]);
  assert.equal(gateway.fleet()[0]?.state, 'usable');
});
