// Request framing: every form in which two readers of one connection find different ends.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { after, test, type TestContext } from 'node:test';
import { nodeAndGateway, type TestGatewayOptions, statusesOf } from '../../support/gateway.ts';
import { testHostile } from '../../support/hostile.ts';
import { accessConfig } from '../../support/keys.ts';
import { answersIn, rawClient, type RawClient } from '../../support/raw-http.ts';
import { submission } from '../../support/submission.ts';
import type { Ending } from '../../support/temporary-folder.ts';
import { authority, h2Session } from '../../support/tls.ts';

const body = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';
const size = body.length;
const hex = size.toString(16);
const chunks = `${hex}\r\n${body}\r\n0\r\n\r\n`;

let version = 0;
/** A new version each time, so that a well-formed request reaches the node. */
function view(headers: string, bytes: string, protocol = 'HTTP/1.1'): [string, string] {
  version += 1;
  const target = `/v1/view?ledger_version=${version}`;
  const head = `POST ${target} ${protocol}\r\nHost: a\r\nContent-Type: application/json\r\n${headers}\r\n`;
  return [head + bytes, `POST ${target}`];
}

const refused = (title: string, headers: string, bytes = body, protocol?: string, status = 400) =>
  [title, view(headers, bytes, protocol)[0], status, 'closed'] as const;
const chunked = (title: string, bytes: string, status = 400) =>
  refused(title, 'Transfer-Encoding: chunked\r\n', bytes, 'HTTP/1.1', status);
const taken = (title: string, headers: string, bytes = body) => {
  const [sent, seen] = view(headers, bytes);
  return [title, sent, 200, 'kept', seen] as const;
};
const coding = (value: string): string => `Transfer-Encoding:${value}\r\n`;

testHostile('lengths', [
  taken('one length', `Content-Length: ${size}\r\n`),
  taken('a length between blanks', `Content-Length: \t ${size} \t\r\n`),
  taken('a length with zeros in front', `Content-Length: 000${size}\r\n`),
  refused('a length, then chunks', `Content-Length: ${size}\r\nTransfer-Encoding: chunked\r\n`, chunks),
  refused('chunks, then a length', `Transfer-Encoding: chunked\r\nContent-Length: ${size}\r\n`, chunks),
  refused('a length of the canary, then chunks', `Content-Length: 5\r\nTransfer-Encoding: chunked\r\n`, '0\r\n\r\n'),
  refused('two equal lengths', `Content-Length: ${size}\r\nContent-Length: ${size}\r\n`),
  refused('two lengths', `Content-Length: ${size}\r\nContent-Length: 3\r\n`),
  refused('a list of equal lengths', `Content-Length: ${size}, ${size}\r\n`),
  refused('a length with a plus', `Content-Length: +${size}\r\n`),
  refused('a negative length', 'Content-Length: -1\r\n'),
  refused('a hexadecimal length', `Content-Length: 0x${hex}\r\n`),
  refused('a fraction of a length', `Content-Length: ${size}.0\r\n`),
  refused('a length with a blank in it', 'Content-Length: 8 1\r\n'),
  refused('a length of nothing', 'Content-Length:\r\n'),
  refused('a length beyond 64 bits', `Content-Length: 18446744073709551${616 + size}\r\n`),
  refused('a blank behind the name', `Content-Length : ${size}\r\n`),
  refused('a folded length', `Content-Length:\r\n ${size}\r\n`),
]);

testHostile('transfer codings', [
  taken('chunks', coding(' chunked'), chunks),
  taken('chunks in capitals', coding(' CHUNKED'), chunks),
  taken('chunks behind a tab', coding('\tchunked'), chunks),
  refused('another coding', coding(' xchunked'), chunks),
  refused('a coding like it', coding(' chunkedx'), chunks),
  refused('chunks and then as it is', coding(' chunked, identity'), chunks),
  refused('as it is and then chunks', coding(' identity, chunked'), chunks),
  refused('compressed and then chunks', coding(' gzip, chunked'), chunks),
  refused('as it is', coding(' identity'), body),
  refused('chunks of chunks', coding(' chunked, chunked'), chunks),
  refused('chunks twice', coding(' chunked') + coding(' chunked'), chunks),
  refused('two codings', coding(' chunked') + coding(' identity'), chunks),
  refused('two codings the other way', coding(' identity') + coding(' chunked'), chunks),
  refused('no coding', coding(''), chunks),
  refused('a vertical tab before it', coding(' \x0bchunked'), chunks),
  refused('a form feed behind it', coding(' chunked\x0c'), chunks),
  refused('a NUL behind it', coding(' chunked\0'), chunks),
  refused('in quotes', coding(' "chunked"'), chunks),
  refused('with a parameter', coding(' chunked;q=1'), chunks),
  refused('a blank behind the name', `Transfer-Encoding : chunked\r\n`, chunks),
  refused('folded', coding('\r\n chunked'), chunks),
  refused('in HTTP/1.0', coding(' chunked'), chunks, 'HTTP/1.0'),
  refused('in HTTP/1.0 with a length', `${coding(' chunked')}Content-Length: 5\r\n`, chunks, 'HTTP/1.0'),
]);

const chunksOf = (line: string, end = '\r\n0\r\n\r\n'): string => `${line}\r\n${body}${end}`;

testHostile('chunks', [
  taken('zeros before a size', coding(' chunked'), chunksOf(`${'0'.repeat(30)}${hex}`)),
  taken('an extension', coding(' chunked'), chunksOf(`${hex};a="b"`)),
  taken('a trailer', coding(' chunked'), chunksOf(hex, '\r\n0\r\nX-Checksum: 5\r\n\r\n')),
  chunked('a size with a plus', chunksOf(`+${hex}`)),
  chunked('a negative size', chunksOf('-1')),
  chunked('a size with 0x', chunksOf(`0x${hex}`)),
  chunked('a blank before a size', chunksOf(` ${hex}`)),
  chunked('a blank behind a size', chunksOf(`${hex} `)),
  chunked('a size beyond 64 bits', chunksOf(`100000000000000${hex}`)),
  chunked('no size', chunksOf('')),
  chunked('a size with a bare LF', `${hex}\n${body}\r\n0\r\n\r\n`),
  chunked('bare LFs', `${hex}\n${body}\n0\n\n`),
  chunked('a size with a bare CR', `${hex}\r${body}\r\n0\r\n\r\n`),
  chunked('no line end behind a chunk', chunksOf(hex, '0\r\n\r\n')),
  chunked('a chunk longer than its size', chunksOf((size - 1).toString(16))),
  chunked('an extension with a bare LF', chunksOf(`${hex};a\nb`)),
  chunked('an extension with a bare CR', chunksOf(`${hex};a\rb`)),
  chunked('an extension of 20 kB', chunksOf(`${hex};a=${'b'.repeat(20_000)}`), 413),
  chunked('a length in the trailer', chunksOf(hex, '\r\n0\r\nContent-Length: 3\r\n\r\n')),
  chunked('a coding in the trailer', chunksOf(hex, '\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n')),
  chunked('12,000 trailers', chunksOf(hex, `\r\n0\r\n${'a: b\r\n'.repeat(12_000)}\r\n`), 431),
]);

const account = (lines: string): string => `GET /v1/accounts/0x1?ledger_version=5&x=1 ${lines}`;
const line = (title: string, lines: string) => [title, account(lines), 400, 'closed'] as const;

testHostile('lines', [
  line('a bare LF behind the request line', 'HTTP/1.1\nHost: a\r\n\r\n'),
  line('bare LFs', 'HTTP/1.1\nHost: a\n\n'),
  line('a bare LF behind a header', 'HTTP/1.1\r\nHost: a\nX-A: b\r\n\r\n'),
  line('a bare LF at the end', 'HTTP/1.1\r\nHost: a\r\n\n'),
  line('a bare CR in a header', 'HTTP/1.1\r\nHost: a\r\nX-A: b\rX-C: d\r\n\r\n'),
  line('bare CRs', 'HTTP/1.1\rHost: a\r\r'),
  line('two CRs', 'HTTP/1.1\r\r\nHost: a\r\n\r\n'),
  line('a folded header', 'HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n'),
  line('a folded header of blanks', 'HTTP/1.1\r\nHost: a\r\nX-A: b\r\n \t\r\n\r\n'),
  line('a blank before the first header', 'HTTP/1.1\r\n X: y\r\nHost: a\r\n\r\n'),
  line('another version', 'HTTP/1.2\r\nHost: a\r\n\r\n'),
  line('a version in small letters', 'http/1.1\r\nHost: a\r\n\r\n'),
  line('a version that is spoken otherwise', 'HTTP/2.0\r\nHost: a\r\n\r\n'),
  line('something behind the version', 'HTTP/1.1 x\r\nHost: a\r\n\r\n'),
  ['no version', 'GET /v1/accounts/0x1\r\n\r\n', 400, 'closed'],
  ['a blank before the method', ' GET /v1 HTTP/1.1\r\nHost: a\r\n\r\n', 400, 'closed'],
  ['a method in small letters', 'get /v1 HTTP/1.1\r\nHost: a\r\n\r\n', 400, 'closed'],
  ['tabs for blanks', 'GET\t/v1\tHTTP/1.1\r\nHost: a\r\n\r\n', 400, 'closed'],
  ['a blank in the target', 'GET /v1/a b HTTP/1.1\r\nHost: a\r\n\r\n', 400, 'closed'],
  ['a preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 400, 'closed'],
  ['the hello of TLS', `\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03${'a'.repeat(200)}`, 400, 'closed'],
  ['a proxy’s announcement', 'PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET /v1 HTTP/1.1\r\nHost: a\r\n\r\n', 400, 'closed'],
  ['a command of Redis', '*1\r\n$8\r\nFLUSHALL\r\n', 400, 'closed'],
  [
    'empty lines before a request',
    `\r\n\r\n${account('HTTP/1.1\r\nHost: a\r\n\r\n')}`,
    200,
    'kept',
    'GET /v1/accounts/0x1?ledger_version=5&x=1',
  ],
]);

const inner = 'GET /v1/smuggled HTTP/1.1\r\nHost: b\r\n\r\n';
const held = '/v1/accounts/0x1/module/coin?ledger_version=5';
const withBody = (target: string): string =>
  `GET ${target} HTTP/1.1\r\nHost: a\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`;

testHostile('a request within the body of a GET is a body, and no node sees it', [
  ['of a read', withBody(held), 200, 'kept', `GET ${held}`],
  ['of a hit', withBody(held), 200, 'kept'],
  [
    'of a passed read',
    withBody('/v1/accounts/0x1?ledger_version=6&x=1'),
    200,
    'kept',
    'GET /v1/accounts/0x1?ledger_version=6&x=1',
  ],
  ['of a refused one', withBody('/v1/a//b'), 400, 'kept'],
  ['of an unknown method', withBody('/v1').replace('GET', 'QUERY'), 405, 'kept'],
]);

// RFC 9110 10.1.1: the gateway refuses a faulty head before it writes `100 Continue`.

const json = 'Content-Type: application/json\r\n';
const viewBody = JSON.stringify({ function: '0x1::ledgergate_sample::version', type_arguments: [], arguments: [] });
const sized = (bytes: number): string => `Content-Length: ${bytes}\r\n`;
const inChunks = 'Transfer-Encoding: chunked\r\n';

const head = (target: string, headers: string, method = 'POST'): string =>
  `${method} ${target} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n${headers}\r\n`;

/** Faults of the head: the gateway never requests the body. */
const refusals: readonly (readonly [title: string, target: string, headers: string, status: number])[] = [
  ['a view that is too large', '/v1/view', json + sized(9_000_000), 413],
  ['a submission that is too large', '/v1/transactions', json + sized(9_000_000), 413],
  ['a view of another type', '/v1/view', `Content-Type: text/plain\r\n${sized(5)}`, 415],
  ['a view of no type, in chunks', '/v1/view', inChunks, 415],
  ['a signing message of another type', '/v1/transactions/encode_submission', sized(5), 415],
  ['a path outside the base path', '/v2/view', json + sized(5), 404],
  ['a path for tests of nodes', '/v1/set_failpoint', json + sized(5), 404],
  ['a path that is not plain', '/v1/a%2fb', json + sized(5), 400],
];

type Way = 'plain' | 'TLS';
const root = authority({ after });

function gatewayOf(t: Ending, way: Way, options: Pick<TestGatewayOptions, 'access'> = {}) {
  const listen = way === 'plain' ? {} : { tls: root.certify('gateway') };
  return nodeAndGateway(t, { config: { listen }, ...options });
}

/** For the tests without keys, one after the other. */
const open = { plain: await gatewayOf({ after }, 'plain'), TLS: await gatewayOf({ after }, 'TLS') } as const;

async function worldOf(t: TestContext, way: Way, options?: Pick<TestGatewayOptions, 'access'>) {
  const { node, gateway } = options === undefined ? open[way] : await gatewayOf(t, way, options);
  node.faults.clear();
  node.log.clear();
  const client = (): RawClient => rawClient(t, gateway.port, way === 'plain' ? undefined : root.ca);
  return {
    node,
    origin: new URL(gateway.url).origin,
    open: () => client().socket,
    /** Sends `bytes`; resolves with all bytes until the gateway ends the connection. */
    sayAll(bytes: string): Promise<string> {
      const { socket, received } = client();
      socket.write(bytes);
      return received;
    },
  };
}

for (const way of ['plain', 'TLS'] as const) {
  test(`over ${way} HTTP/1.1, a refusal precedes 100, ends the connection, and reaches no node`, async (t) => {
    const world = await worldOf(t, way);
    for (const [title, target, headers, status] of refusals) {
      // The bytes behind may be the body, so they must not be served as a request.
      const received = await world.sayAll(`${head(target, headers)}GET /v1/-/healthy HTTP/1.1\r\nHost: a\r\n\r\n`);
      assert.match(received, new RegExp(`^HTTP/1\\.1 ${status} `), title);
      assert.match(received, /\r\nConnection: close\r\n/, title);
      assert.equal(received.match(/HTTP\/1\.1/g)?.length, 1, title);
    }
    assert.equal(world.node.reads, 0);
  });

  test(`over ${way} HTTP/1.1, 100 is written once for a valid head, and the connection stays open`, async (t) => {
    const world = await worldOf(t, way);
    const socket = world.open();
    const bodies = [
      ['/v1/view?ledger_version=5', viewBody, 200],
      ['/v1/transactions', submission(), 202],
      ['/v1/tables/0x1/item?ledger_version=5', '{}', 400],
    ] as const;
    for (const [target, body, status] of bodies) {
      socket.write(head(target, json + sized(body.length)));
      assert.equal(await nextOf(socket), 'HTTP/1.1 100 Continue\r\n\r\n', target);
      socket.write(body);
      const answer = await nextOf(socket);
      assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `), target);
      assert.match(answer, /\r\nConnection: keep-alive\r\n/, target);
    }
  });
}

test('100 follows the answers to earlier requests', async (t) => {
  const world = await worldOf(t, 'plain');
  const release = world.node.hold();
  const socket = world.open();
  const asked = world.node.log.next();

  socket.write(
    `GET /v1/blocks/by_height/1 HTTP/1.1\r\nHost: a\r\n\r\n${head('/v1/view', json + sized(viewBody.length))}`,
  );
  await asked;
  release();
  let received = '';
  while (!received.includes(' 100 Continue')) received += await nextOf(socket);

  assert.match(received, /^HTTP\/1\.1 200 [^]*HTTP\/1\.1 100 Continue\r\n\r\n$/);
});

test('a request without a body does not cost its client the connection', async (t) => {
  const world = await worldOf(t, 'plain');
  const socket = world.open();
  socket.write(head('/v1/a//b', '', 'GET'));
  let received = '';
  while (!received.includes('"vm_error_code"')) received += await nextOf(socket);

  assert.match(received, /^HTTP\/1\.1 400 [^]*\r\nConnection: keep-alive\r\n/);
});

test('a client without a valid key is refused ahead of 100', async (t) => {
  const world = await worldOf(t, 'plain', { access: accessConfig() });
  for (const key of ['', 'Authorization: Bearer wrong\r\n']) {
    assert.match(await world.sayAll(head('/v1/transactions', key + json + sized(5))), /^HTTP\/1\.1 401 /);
  }
});

test('over HTTP/2, a refusal precedes 100, and a valid head gets 100', async (t) => {
  const world = await worldOf(t, 'TLS');
  const session = await h2Session(t, world.origin, root.ca);
  const ask = (path: string, headers: Record<string, string>, body: string) => {
    const stream = session.request({ ':method': 'POST', ':path': path, expect: '100-continue', ...headers });
    let continued = 0;
    stream.on('continue', () => {
      continued += 1;
      stream.end(body);
    });
    return new Promise<readonly [status: number, continued: number]>((resolve, reject) => {
      stream.on('error', reject);
      stream.once('response', (headers) => {
        stream.resume();
        resolve([Number(headers[':status']), continued]);
      });
    });
  };
  const type = { 'content-type': 'application/json' };

  assert.deepEqual(await ask('/v1/view', { ...type, 'content-length': '9000000' }, ''), [413, 0]);
  assert.deepEqual(await ask('/v1/view', { 'content-type': 'text/plain' }, ''), [415, 0]);
  assert.deepEqual(await ask('/v2/view', type, ''), [404, 0]);
  assert.deepEqual(await ask('/v1/view?ledger_version=6', type, viewBody), [200, 1]);
});

async function nextOf(socket: Socket): Promise<string> {
  return String((await once(socket, 'data'))[0]);
}

test('100 behind another answer precedes the answer to its own request', async (t) => {
  const world = await worldOf(t, 'plain');
  const module = 'GET /v1/accounts/0x1/module/coin?ledger_version=800 HTTP/1.1\r\nHost: a\r\n';

  const received = await world.sayAll(`${module}\r\n${module}Expect: 100-continue\r\nConnection: close\r\n\r\n`);

  const answers = answersIn(received);
  assert.deepEqual(statusesOf(answers), [200, 200]);
  assert.equal(answers[1]?.body.toString(), answers[0]?.body.toString());
});
