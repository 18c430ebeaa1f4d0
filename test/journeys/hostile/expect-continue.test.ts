// RFC 9110 10.1.1: the gateway refuses a faulty head before it writes `100 Continue`.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, test, type TestContext } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { fakeNode } from '../../support/fake-node.ts';
import { testGateway, type TestGatewayOptions } from '../../support/gateway.ts';
import { accessConfig } from '../../support/keys.ts';
import { answersIn } from '../../support/raw-http.ts';
import { submission } from '../../support/submission.ts';
import type { Ending } from '../../support/temporary-folder.ts';
import { authority, h2Session } from '../../support/tls.ts';

const json = 'Content-Type: application/json\r\n';
const view = JSON.stringify({ function: '0x1::ledgergate_sample::version', type_arguments: [], arguments: [] });
const sized = (bytes: number): string => `Content-Length: ${bytes}\r\n`;
const chunked = 'Transfer-Encoding: chunked\r\n';

const head = (target: string, headers: string, method = 'POST'): string =>
  `${method} ${target} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n${headers}\r\n`;

/** Faults of the head: the gateway never requests the body. */
const refused: readonly (readonly [title: string, target: string, headers: string, status: number])[] = [
  ['a view that is too large', '/v1/view', json + sized(9_000_000), 413],
  ['a submission that is too large', '/v1/transactions', json + sized(9_000_000), 413],
  ['a view of another type', '/v1/view', `Content-Type: text/plain\r\n${sized(5)}`, 415],
  ['a view of no type, in chunks', '/v1/view', chunked, 415],
  ['a signing message of another type', '/v1/transactions/encode_submission', sized(5), 415],
  ['a path outside the base path', '/v2/view', json + sized(5), 404],
  ['a path for tests of nodes', '/v1/set_failpoint', json + sized(5), 404],
  ['a path that is not plain', '/v1/a%2fb', json + sized(5), 400],
];

type Way = 'plain' | 'TLS';
const root = authority({ after });

async function gatewayOf(t: Ending, way: Way, options: Pick<TestGatewayOptions, 'access'> = {}) {
  const node = await fakeNode(t, { head: 900n });
  const listen = way === 'plain' ? {} : { tls: root.certify('gateway') };
  return { node, gateway: await testGateway(t, { full: [node], config: { listen }, ...options }) };
}

/** For the tests without keys, one after the other. */
const open = { plain: await gatewayOf({ after }, 'plain'), TLS: await gatewayOf({ after }, 'TLS') } as const;

async function worldOf(t: TestContext, way: Way, options?: Pick<TestGatewayOptions, 'access'>) {
  const { node, gateway } = options === undefined ? open[way] : await gatewayOf(t, way, options);
  node.faults.clear();
  node.log.clear();
  const connectTo = (): Socket => {
    const to = { host: '127.0.0.1', port: gateway.port };
    const socket = way === 'plain' ? connect(to) : connectTls({ ...to, ca: root.ca });
    t.after(() => socket.destroy());
    return socket;
  };
  return {
    node,
    origin: new URL(gateway.url).origin,
    open: connectTo,
    /** Sends `bytes`; resolves with all bytes until the gateway ends the connection. */
    async sayAll(bytes: string): Promise<string> {
      const socket = connectTo();
      socket.write(bytes);
      let received = '';
      for await (const chunk of socket) received += String(chunk);
      return received;
    },
  };
}

for (const way of ['plain', 'TLS'] as const) {
  test(`over ${way} HTTP/1.1, a refusal precedes 100, ends the connection, and reaches no node`, async (t) => {
    const world = await worldOf(t, way);
    for (const [title, target, headers, status] of refused) {
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
      ['/v1/view?ledger_version=5', view, 200],
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
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  world.node.fault = { kind: 'hold', until: released };
  const socket = world.open();
  const asked = world.node.log.next();

  socket.write(`GET /v1/blocks/by_height/1 HTTP/1.1\r\nHost: a\r\n\r\n${head('/v1/view', json + sized(view.length))}`);
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
  assert.deepEqual(await ask('/v1/view?ledger_version=6', type, view), [200, 1]);
});

async function nextOf(socket: Socket): Promise<string> {
  return String((await once(socket, 'data'))[0]);
}

test('100 behind another answer precedes the answer to its own request', async (t) => {
  const world = await worldOf(t, 'plain');
  const module = 'GET /v1/accounts/0x1/module/coin?ledger_version=800 HTTP/1.1\r\nHost: a\r\n';

  const received = await world.sayAll(`${module}\r\n${module}Expect: 100-continue\r\nConnection: close\r\n\r\n`);

  const answers = answersIn(received);
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200],
  );
  assert.equal(answers[1]?.body.toString(), answers[0]?.body.toString());
});
