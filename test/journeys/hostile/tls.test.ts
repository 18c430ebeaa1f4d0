// TLS, and HTTP/2 under it: every answer equals the one over plain HTTP/1.1, byte for byte.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectH2 } from 'node:http2';
import { connect } from 'node:net';
import { after, test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { testGateway, type TestGateway, type TestGatewayOptions } from '../../support/gateway.ts';
import { frame, rawH2 } from '../../support/h2-frames.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { encodeRequest, submission } from '../../support/submission.ts';
import {
  askH1,
  askH2,
  authority,
  h2Session,
  replaceFiles,
  tlsSocket,
  type Asked,
  type Told,
} from '../../support/tls.ts';

const probe = '/v1/accounts/0x1/resource/0x1::ledgergate_sample::Probe';
const json = { 'content-type': 'application/json' };
const view = JSON.stringify({ function: '0x1::ledgergate_sample::version', type_arguments: [], arguments: [] });
const encoded = encodeRequest('0x1::aptos_account::transfer', ['0x2', '1']);

const node = await fakeNode({ after });
const ca = authority({ after });
const tls = ca.certify('gateway');
const usual = await testGateway({ after }, { full: [node], config: { listen: { tls } } });

/** A gateway whose certificate has an RSA key. */
const rsa = await testGateway({ after }, { full: [node], config: { listen: { tls: ca.certify('rsa', 30, 'rsa') } } });

/** Headers of one connection or moment. */
const ofTheWay = new Set(['connection', 'keep-alive', 'transfer-encoding', 'date']);

const cases: readonly (Asked & { readonly name: string; readonly status: number; readonly isWorded?: boolean })[] = [
  { name: 'miss', path: `${probe}?ledger_version=900`, status: 200 },
  { name: 'hit', path: `${probe}?ledger_version=900`, status: 200 },
  { name: 'HEAD of a hit', method: 'HEAD', path: `${probe}?ledger_version=900`, status: 200 },
  {
    name: 'hit, coded',
    path: '/v1/accounts/0x1/module/coin?ledger_version=900',
    headers: { 'accept-encoding': 'gzip' },
    status: 200,
  },
  { name: 'BCS', path: `${probe}?ledger_version=900`, headers: { accept: 'application/x-bcs' }, status: 200 },
  { name: 'latest', path: probe, status: 200 },
  { name: 'absolute demand', path: probe, headers: { 'ledgergate-min-version': '5' }, status: 200 },
  { name: 'unreadable demand', path: probe, headers: { 'ledgergate-min-version': 'x' }, status: 400 },
  { name: 'ledger info', path: '/v1', status: 200 },
  { name: 'above the head', path: `${probe}?ledger_version=99999999`, status: 404 },
  { name: 'no u64', path: `${probe}?ledger_version=0x10`, status: 400 },
  { name: 'passed through', path: '/v1/blocks/by_height/5?x=1', status: 200 },
  { name: 'HEAD passed through', method: 'HEAD', path: '/v1/blocks/by_height/5?x=1', status: 200 },
  { name: 'outside the base path', path: '/elsewhere', status: 404 },
  { name: 'not allowed', method: 'DELETE', path: probe, status: 405 },
  { name: 'too long a target', path: `/v1/${'a'.repeat(17_000)}`, status: 414 },
  {
    name: 'too many headers',
    isWorded: false,
    path: '/v1',
    headers: Object.fromEntries(Array.from({ length: 205 }, (_, at) => [`x-${at}`, 'x'])),
    status: 431,
  },
  { name: 'an expectation', path: '/v1', headers: { expect: 'the unexpected' }, status: 417 },
  { name: 'view', method: 'POST', path: '/v1/view?ledger_version=900', headers: json, body: view, status: 200 },
  {
    name: 'view without a body',
    method: 'POST',
    path: '/v1/view',
    headers: { ...json, 'content-length': '0' },
    status: 400,
  },
  // Over HTTP/2 its end is a frame of its own, in one piece with the head.
  { name: 'view of an empty body', method: 'POST', path: '/v1/view', headers: json, body: '', status: 400 },
  { name: 'view of nothing', method: 'POST', path: '/v1/view', headers: json, body: '{}', status: 400 },
  {
    name: 'encode',
    method: 'POST',
    path: '/v1/transactions/encode_submission',
    headers: json,
    body: encoded,
    status: 200,
  },
  {
    name: 'too large a body',
    method: 'POST',
    path: '/v1/view',
    headers: json,
    body: Buffer.alloc(9_000_000),
    status: 413,
  },
  {
    name: 'preflight',
    method: 'OPTIONS',
    path: '/v1/view',
    headers: { origin: 'https://a.example', 'access-control-request-method': 'POST' },
    status: 204,
  },
  { name: 'from a page', path: `${probe}?ledger_version=900`, headers: { origin: 'https://a.example' }, status: 200 },
];

test('answers over TLS and over HTTP/2 equal those over plain HTTP/1.1', async (t) => {
  // One gateway for each transport, with the same cached state.
  const plain = await testGateway(t, { full: [node] });
  const { session } = await overTls(t, {});
  for (const { name, status, isWorded = true, ...asked } of cases) {
    const expected = comparable(await askH1(plain.url, asked));
    const actual = comparable(await askH1(new URL(usual.url).origin, asked, ca.ca));
    const toldH2 = comparable(await askH2(session, asked));
    assert.equal(expected.status, status, name);
    assert.deepEqual(actual, expected, `${name}: HTTP/1.1 over TLS`);
    // Node's HTTP/1.1 parser may refuse first, with another text.
    if (isWorded) assert.deepEqual(toldH2, expected, `${name}: HTTP/2`);
    else assert.equal(toldH2.status, status, `${name}: HTTP/2`);
  }
  // No error ended the connection.
  assert.equal(session.destroyed || session.closed, false);
});

test('an entity tag of one protocol is valid over the other', async (t) => {
  const { secure, session } = await overTls(t);
  const asked = { path: `${probe}?ledger_version=900` };
  const first = await askH1(new URL(secure.url).origin, asked, ca.ca);
  const tag = new Map(first.headers).get('etag') ?? '';
  const again = await askH2(session, { ...asked, headers: { 'if-none-match': tag } });
  assert.deepEqual([again.status, again.body.length, new Map(again.headers).get('etag')], [304, 0, tag]);
});

const sixth = { when: ({ url }: { readonly url: string }): boolean => url.includes('by_height/6') };

test('a streamed answer that breaks is an error over HTTP/2, never a short body', async (t) => {
  const { session } = await overTls(t);
  // Above the size that the gateway reads whole before its answer.
  const body = JSON.stringify(' '.repeat(200_000));
  node.faults.add({ kind: 'answer', status: 200, body, headers: ledgerHeaders({ version: 900n, chainId: 1 }) }, sixth);
  node.faults.add({ kind: 'truncated body' }, sixth);
  await assert.rejects(askH2(session, { path: '/v1/blocks/by_height/6?x=1' }));
  assert.equal((await askH2(session, { path: '/v1/blocks/by_height/7?x=1' })).status, 200);
});

test('a submission reset or cut off before its end reaches no node', async (t) => {
  const { secure, session } = await overTls(t);
  const body = submission();
  for (const how of ['taken back', 'cut off']) {
    const { socket } = await rawH2(t, secure.port, ca.ca);
    // The submission is complete except for its END_STREAM.
    socket.write(Buffer.concat([frame(1, 4, 1, headOfPost('/v1/transactions')), frame(0, 0, 1, Buffer.from(body))]));
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (how === 'cut off') socket.destroy();
    else socket.write(frame(3, 0, 1, Buffer.from([0, 0, 0, 8])));
    await new Promise((resolve) => setTimeout(resolve, 50));
    for (let round = 0; round < 5; round += 1) await askH2(session, { path: '/v1' });
    assert.equal(node.log.countOf('submit'), 0, how);
  }
  const whole = await askH2(session, { method: 'POST', path: '/v1/transactions', headers: json, body });
  assert.deepEqual([whole.status, node.log.countOf('submit')], [202, 1]);
});

test('after a committed transaction, its connection reads no older state: over HTTP/2 too', async (t) => {
  const { session } = await overTls(t, { config: { latest: { maxStalenessMs: 60_000 } } });
  await askH2(session, { path: probe });
  const sent = await askH2(session, { method: 'POST', path: '/v1/transactions', headers: json, body: submission() });
  const { hash } = JSON.parse(sent.body.toString()) as { hash: string };
  node.clock.head = 1_005n;
  node.mempool.commitAll(1_003n);
  const committed = await askH2(session, { path: `/v1/transactions/by_hash/${hash}` });
  const read = await askH2(session, { path: probe });
  const version = BigInt(
    (JSON.parse(read.body.toString()) as { data: { ledger_version: string } }).data.ledger_version,
  );
  assert.equal(committed.status, 200);
  assert.ok(version >= 1_003n, `${version}`);
});

test('two hosts, or a malformed one, are refused over HTTP/2', async (t) => {
  const { session } = await overTls(t);
  const outcome = (headers: Record<string, string>): Promise<unknown> =>
    askH2(session, { path: '/v1', headers }).then(
      ({ status }) => status,
      (error: Error) => /PROTOCOL_ERROR/.exec(error.message)?.[0] ?? error,
    );
  assert.equal(await outcome({ ':authority': 'host.example' }), 200);
  const two: Record<string, string>[] = [
    { ':authority': 'host.example,other.example' },
    { ':authority': 'user@host.example' },
    { ':authority': 'host.example', host: 'other.example' },
  ];
  // Either the gateway or the HTTP/2 library refuses.
  for (const headers of two) assert.ok([400, 'PROTOCOL_ERROR'].includes((await outcome(headers)) as number));
});

test('CONNECT and unknown methods get the specified error over HTTP/2, and the connection stays', async (t) => {
  const { session } = await overTls(t);
  const connectStream = session.request({ ':method': 'CONNECT', ':authority': 'other.example:443' });
  const [actual] = (await once(connectStream, 'response')) as [Record<string, unknown>];
  assert.equal(actual[':status'], 405);
  connectStream.close();
  const trace = await askH2(session, { method: 'TRACE', path: '/v1' });
  assert.deepEqual([trace.status, JSON.parse(trace.body.toString()).error_code], [405, 'web_framework_error']);
  assert.equal((await askH2(session, { path: '/v1' })).status, 200);
});

test('a late body gets 408 over HTTP/2', async (t) => {
  const { session } = await overTls(t, { times: { headMs: 200, requestMs: 200 } });
  const stream = session.request({ ':method': 'POST', ':path': '/v1/view', ...json });
  stream.on('error', () => undefined);
  stream.write('{');
  const [actual] = (await once(stream, 'response')) as [Record<string, unknown>];
  assert.equal(actual[':status'], 408);
  stream.resume();
  await once(stream, 'close');
  assert.equal((await askH2(session, { path: '/v1' })).status, 200);
});

test('a connection without a request is closed at its deadline', async (t) => {
  const { secure } = await overTls(t, { times: { headMs: 500, checkMs: 50 } });
  const sockets = await Promise.all([
    tlsSocket(t, secure.port, { ca: ca.ca, ALPNProtocols: ['http/1.1'] }),
    tlsSocket(t, secure.port, { ca: ca.ca, ALPNProtocols: ['h2'] }),
    Promise.resolve(connect(secure.port, '127.0.0.1')),
  ]);
  await Promise.all(sockets.map((socket) => once(socket.resume(), 'close')));
});

for (const fastPath of [true, false]) {
  test(`an unread answer that is reset with NO_ERROR holds up no drain, fastPath: ${fastPath}`, async (t) => {
    const { secure, session } = await overTls(t, { config: { listen: { fastPath } } });
    const path = `${probe}?ledger_version=700`;
    await askH2(session, { path });
    session.close();
    const narrow = connectH2(new URL(secure.url).origin, { ca: ca.ca, settings: { initialWindowSize: 0 } });
    t.after(() => narrow.destroy());
    narrow.on('error', () => undefined);
    const stalled = narrow.request({ ':path': path });
    await once(stalled, 'response');
    stalled.close(0);
    await once(stalled, 'close');
    // Its answer comes behind the reset.
    narrow.settings({ initialWindowSize: 65_535 });
    assert.equal((await askH2(narrow, { path })).status, 200);
    const sinceMs = performance.now();
    await secure.close();
    // The drain's own bound is 10 s.
    assert.ok(performance.now() - sinceMs < 5_000);
  });
}

test('malformed bytes and plain HTTP on the TLS port are closed without an answer and counted, and other clients are served', async (t) => {
  const { secure, session } = await overTls(t);
  const before = await secure.metric('ledgergate_tls_handshake_failures_total');
  for (const bytes of [
    Buffer.from('GET /v1 HTTP/1.1\r\nHost: x\r\n\r\n'),
    Buffer.alloc(4096, 0xff),
    Buffer.from([22, 3, 1, 0, 5, 1, 0, 0, 1, 0]),
  ]) {
    const socket = connect(secure.port, '127.0.0.1');
    const received: Buffer[] = [];
    socket.on('data', (chunk) => received.push(chunk));
    socket.on('error', () => undefined);
    socket.write(bytes);
    await once(socket, 'close');
    assert.doesNotMatch(Buffer.concat(received).toString('latin1'), /HTTP\/1/);
  }
  assert.equal(await secure.metric('ledgergate_tls_handshake_failures_total'), before + 3);
  assert.equal((await askH2(session, { path: '/v1' })).status, 200);
});

test('malformed bytes after the handshake end that connection only', async (t) => {
  const { secure, session } = await overTls(t);
  const h2 = await tlsSocket(t, secure.port, { ca: ca.ca, ALPNProtocols: ['h2'] });
  h2.on('error', () => undefined);
  h2.write(Buffer.alloc(1000, 0x41));
  h2.resume();
  await once(h2, 'close');
  const h1 = await tlsSocket(t, secure.port, { ca: ca.ca, ALPNProtocols: ['http/1.1'] });
  h1.write('NOT HTTP\r\n\r\n');
  const [received] = (await once(h1, 'data')) as [Buffer];
  assert.match(received.toString(), /^HTTP\/1\.1 400 [^]*"error_code":"web_framework_error"/);
  assert.equal((await askH2(session, { path: '/v1' })).status, 200);
});

test('at the bound of connections an idle HTTP/2 connection is displaced, a busy one stays', async (t) => {
  const { secure, session } = await overTls(t, { config: { listen: { maxConnections: 2 } } });
  const origin = new URL(secure.url).origin;
  const release = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: release.promise }, { when: ({ url }) => url.includes('by_height') });
  const busy = askH2(session, { path: '/v1/blocks/by_height/1' });
  await node.log.next(({ url }) => url.includes('by_height'));
  const second = askH1(origin, { path: '/v1' }, ca.ca);
  assert.equal((await second).status, 200);
  const other = await h2Session(t, origin, ca.ca);
  assert.equal((await askH2(other, { path: '/v1' })).status, 200);
  // Both places are in use, one by a recent request: a newcomer gets 503.
  const refused = await h2Session(t, origin, ca.ca);
  assert.equal((await askH2(refused, { path: '/v1' })).status, 503);
  await once(refused, 'close');
  release.resolve();
  assert.equal((await busy).status, 200);
});

test('TLS below 1.2 is refused', async (t) => {
  const old = {
    ca: ca.ca,
    minVersion: 'TLSv1' as const,
    maxVersion: 'TLSv1.1' as const,
    ciphers: 'DEFAULT@SECLEVEL=0',
  };
  await assert.rejects(tlsSocket(t, usual.port, old));
  const socket = await tlsSocket(t, usual.port, { ca: ca.ca, maxVersion: 'TLSv1.2', ALPNProtocols: ['h2'] });
  assert.deepEqual([socket.getProtocol(), socket.alpnProtocol], ['TLSv1.2', 'h2']);
});

/** Over TLS, on the node of all tests; without `options` one gateway for all of them. And an HTTP/2 session of the test. */
async function overTls(t: TestContext, options?: TestGatewayOptions) {
  node.faults.clear();
  node.log.clear();
  const listen = { ...options?.config?.listen, tls };
  const secure =
    options === undefined
      ? usual
      : await testGateway(t, { full: [node], ...options, config: { ...options.config, listen } });
  return { secure, session: await h2Session(t, new URL(secure.url).origin, ca.ca) };
}

/** POST of JSON. */
function headOfPost(path: string): Buffer {
  const type = 'application/json';
  const head = [0x83, 0x87, 0x01, 1, 0x78, 0x04, path.length, ...Buffer.from(path), 0x0f, 0x10, type.length];
  return Buffer.concat([Buffer.from(head), Buffer.from(type)]);
}

function comparable({ status, headers, body }: Told): { status: number; headers: readonly string[]; body: string } {
  const kept = headers.filter(([name]) => !ofTheWay.has(name)).map(([name, value]) => `${name}: ${value}`);
  const shown = body.length > 1_000 ? createHash('sha256').update(body).digest('hex') : body.toString('latin1');
  return { status, headers: kept, body: shown };
}

// The ciphers that TLS accepts: openssl's own client, one cipher at a time.

/** Default ciphers of TLS 1.2, for both kinds of keys. */
const forward = (key: 'ECDSA' | 'RSA') => [
  `ECDHE-${key}-AES128-GCM-SHA256`,
  `ECDHE-${key}-AES256-GCM-SHA384`,
  `ECDHE-${key}-CHACHA20-POLY1305`,
];
const cbc = (key: 'ECDSA' | 'RSA') => [
  `ECDHE-${key}-AES128-SHA`,
  `ECDHE-${key}-AES128-SHA256`,
  `ECDHE-${key}-AES256-SHA384`,
];
const ofTls13 = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256'];

test('TLS 1.3, and TLS 1.2 with forward secrecy and without CBC, is served', async () => {
  for (const name of ofTls13) assert.equal(await ask(usual, '-tls1_3', '-ciphersuites', name), `TLSv1.3 ${name}`);
  for (const name of forward('ECDSA')) assert.equal(await ask(usual, '-tls1_2', '-cipher', name), `TLSv1.2 ${name}`);
  for (const name of forward('RSA')) assert.equal(await ask(rsa, '-tls1_2', '-cipher', name), `TLSv1.2 ${name}`);
});

test('a client with only CBC, or only RSA key exchange, is refused', async () => {
  // The gateway refuses what none of several is.
  assert.equal(await ask(usual, '-tls1_2', '-cipher', cbc('ECDSA').join(':')), 'refused');
  const exchanges = ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'AES128-SHA', 'AES256-SHA256'];
  for (const names of [cbc('RSA'), exchanges])
    assert.equal(await ask(rsa, '-tls1_2', '-cipher', names.join(':')), 'refused');
  // The gateway selects the best one offered.
  assert.match(await ask(rsa, '-tls1_2', '-cipher', 'ALL'), /^TLSv1\.2 ECDHE-RSA-.*(?:GCM|POLY1305)/);
});

test("the config's cipher list survives a certificate change", async (t) => {
  const ciphers = ['TLS_AES_256_GCM_SHA384', 'ECDHE-ECDSA-AES256-GCM-SHA384'];
  const certified = ca.certify('listed');
  const gateway = await testGateway(t, { full: [node], config: { listen: { tls: { ...certified, ciphers } } } });
  const assertListed = async (): Promise<void> => {
    assert.equal(
      await ask(gateway, '-tls1_2', '-cipher', 'ECDHE-ECDSA-AES256-GCM-SHA384'),
      'TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384',
    );
    assert.equal(await ask(gateway, '-tls1_2', '-cipher', 'ECDHE-ECDSA-AES128-GCM-SHA256'), 'refused');
    assert.equal(await ask(gateway, '-tls1_3', '-ciphersuites', 'TLS_AES_128_GCM_SHA256'), 'refused');
    assert.equal(await ask(gateway, '-tls1_3'), 'TLSv1.3 TLS_AES_256_GCM_SHA384');
  };
  await assertListed();
  replaceFiles(certified, ca.certify('renewed'));
  await until(async () => (await gateway.metric('ledgergate_tls_reloads_total{result="ok"}')) > 0);
  await assertListed();
});

/** Version and cipher of the connection, or `refused` for a handshake that the gateway ended. */
async function ask({ port }: TestGateway, ...options: readonly string[]): Promise<string> {
  const connect = ['s_client', '-connect', `127.0.0.1:${port}`, '-CAfile', ca.file, '-brief', '-no_ign_eof'];
  // A stricter bound of the client would refuse its own cipher.
  const args = [...connect, ...options.map((text) => (/^[A-Z0-9:-]+$/.test(text) ? `${text}:@SECLEVEL=0` : text))];
  const client = promisify(execFile)('openssl', args, { timeout: 20_000 });
  client.child.stdin?.end();
  const { stdout, stderr } = await client.catch((error: { stdout: string; stderr: string }) => error);
  const output = `${stdout}${stderr}`;
  if (/alert handshake failure|alert number 40/i.test(output)) return 'refused';
  const version = /^Protocol version: (\S+)$/m.exec(output)?.[1];
  const cipher = /^Ciphersuite: (\S+)$/m.exec(output)?.[1];
  assert.ok(version !== undefined && cipher !== undefined, output);
  return `${version} ${cipher}`;
}
