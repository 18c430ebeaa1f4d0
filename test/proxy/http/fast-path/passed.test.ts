// Requests that nodes answer, and those for signing messages, stay on the fast path.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { test, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { encodeVectors } from '../../../../src/sample/recorded.ts';
import { until } from '../../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../../support/fake-node.ts';
import { testGateway, type TestGateway } from '../../../support/gateway.ts';
import { ledgerHeaders } from '../../../support/ledger-info.ts';
import { listen } from '../../../support/listen.ts';
import { exchangeRaw } from '../../../support/raw-http.ts';
import { submission } from '../../../support/submission.ts';

const ledger = ledgerHeaders({ version: 900n, chainId: 1 });
const list = '/v1/transactions?start=5&limit=100&x=1';
/** Too large, also in its coding, to be read whole ahead of the answer's head. */
const page = JSON.stringify(Array.from({ length: 20_000 }, (_, index) => Math.imul(index, 2_654_435_761)));
const coin = encodeVectors.find(({ name, chainId }) => name === 'coin transfer' && chainId === 1)?.request ?? '';

function request(method: string, target: string, fields: readonly string[] = [], body?: string): string {
  const head = [`${method} ${target} HTTP/1.1`, 'Host: a', ...fields];
  if (body !== undefined) head.push('Content-Type: application/json', `Content-Length: ${body.length}`);
  return `${head.join('\r\n')}\r\n\r\n${body ?? ''}`;
}

const requests = {
  'a signing message': request('POST', '/v1/transactions/encode_submission', [], coin),
  'a signing message that a node refuses': request('POST', '/v1/transactions/encode_submission', [], '{}'),
  'a signing message in another type': request('POST', '/v1/transactions/encode_submission', [
    'Content-Type: a/b',
    'Content-Length: 0',
  ]),
  'a simulation': request('POST', '/v1/transactions/simulate', [], submission()),
  'a submission': request('POST', '/v1/transactions', [], submission()),
  'a batch': request('POST', '/v1/transactions/batch', [], `[${submission()}]`),
  'a passed list, decoded': request('GET', list),
  'a passed list in its coding': request('GET', list, ['Accept-Encoding: gzip']),
  'the head of a passed list': request('HEAD', list),
  'the head of a passed list in its coding': request('HEAD', list, ['Accept-Encoding: gzip']),
  'an empty answer': request('GET', '/v1/empty'),
  'an answer without change': request('GET', '/v1/unchanged', ['If-None-Match: "a"']),
  'ledger info in BCS': request('GET', '/v1', ['Accept: application/x-bcs']),
  'an unknown path': request('GET', '/nowhere'),
  'an unknown path with a body': request('POST', '/nowhere', [], '{}'),
  'a path in another form': request('POST', '/v1//transactions', [], submission()),
};

/** A node whose list is coded whatever the client accepts: the gateway decodes it, and sends it in chunks. */
async function codingNode(t: TestContext): Promise<FakeNode> {
  const node = await fakeNode(t, { head: 900n });
  const coded = { ...ledger, 'content-encoding': 'gzip' };
  const answers = [
    ['/transactions?', { kind: 'answer', status: 200, body: gzipSync(page), headers: coded }],
    ['/empty', { kind: 'answer', status: 204, body: '', headers: ledger }],
    ['/unchanged', { kind: 'answer', status: 304, body: '', headers: { ...ledger, etag: '"a"' } }],
  ] as const;
  for (const [part, answer] of answers) node.faults.add(answer, { when: ({ url }) => url.includes(part) });
  return node;
}

const gatewayOver = (t: TestContext, node: FakeNode, fastPath: boolean): Promise<TestGateway> =>
  testGateway(t, { full: [node], config: { listen: { fastPath }, latest: { maxStalenessMs: 3_600_000 } } });

/** Without the date and the sizes of chunks, which depend on the moment. */
function comparable(received: string): string {
  return received
    .replaceAll(/^Date: .*\r\n/gim, '')
    .replaceAll(/(?<=chunked\r\n\r\n)(?:[\da-f]+\r\n[^\r]*\r\n)+/g, (chunks) => dechunked(chunks));
}

function dechunked(chunks: string): string {
  let [rest, body] = [chunks, ''];
  while (rest !== '') {
    const from = rest.indexOf('\r\n') + 2;
    const end = from + Number.parseInt(rest, 16);
    assert.equal(rest.slice(end, end + 2), '\r\n');
    body += rest.slice(from, end);
    rest = rest.slice(end + 2);
  }
  return body;
}

test('nodes and the encoder answer on the fast path as on the server, and no connection is handed over', async (t) => {
  const node = await codingNode(t);
  const [fastPath, server] = [await gatewayOver(t, node, true), await gatewayOver(t, node, false)];
  for (const gateway of [fastPath, server]) await gateway.get('');

  for (const [what, bytes] of Object.entries(requests)) {
    await t.test(what, async () => {
      const closing = bytes.replace('Host', 'Connection: close\r\nHost');
      const received = await Promise.all(
        [fastPath, server].map(async ({ port }) => comparable(await exchangeRaw(port, bytes + closing))),
      );
      assert.equal(received[0], received[1]);
      assert.equal(received[0]?.match(/HTTP\/1\.1 \d{3} /g)?.length, 2);
    });
  }

  assert.equal(await fastPath.metric('ledgergate_fast_path_handovers_total'), 0);
});

test('a request that is refused whatever its body gets its answer ahead of the body', async (t) => {
  const gateway = await gatewayOver(t, await codingNode(t), true);
  const rows = [
    ['/nowhere', 'application/json', 404],
    ['/v1/view', 'text/html', 415],
    ['/v1/transactions/encode_submission', 'text/html', 415],
    ['/v1//transactions', 'application/json', 400],
  ] as const;
  for (const [target, type, status] of rows) {
    const socket = connect(gateway.port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.write(`POST ${target} HTTP/1.1\r\nHost: a\r\nContent-Type: ${type}\r\nContent-Length: 100\r\n\r\n{`);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    assert.match(answer.toString(), new RegExp(`^HTTP/1\\.1 ${status} `), target);
  }
});

test('a node waits while its client reads nothing, and ends its answer once the client is gone', async (t) => {
  let sent = 0;
  const left = Promise.withResolvers<void>();
  const megabyte = Buffer.alloc(1_000_000, 'a');
  const server = createServer((incoming, response) => {
    const isList = incoming.url?.includes('/transactions?') === true;
    const head = { ...ledger, 'content-type': 'application/json' };
    response.writeHead(200, isList ? { ...head, 'content-length': 200_000_000 } : head);
    if (!isList) {
      response.end('{}');
      return;
    }
    response.once('close', () => left.resolve());
    const pieces = Array.from({ length: 200 }, () => megabyte);
    Readable.from(pieces)
      .on('data', ({ length }: Buffer) => (sent += length))
      .pipe(response);
  });
  const url = `http://127.0.0.1:${await listen(t, server)}/v1`;
  const gateway = await testGateway(t, { full: [{ url }], config: { listen: { fastPath: true } } });
  const socket = connect(gateway.port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.write(request('GET', list));
  await once(socket, 'data');
  socket.pause();

  let before = -1;
  await until(async () => {
    const isStill = sent === before;
    before = sent;
    for (let count = 0; count < 3; count += 1) await gateway.get('/a//b');
    return isStill;
  });
  assert.ok(sent < 50_000_000, `${sent} bytes`);

  socket.destroy();
  await left.promise;
  assert.equal(await gateway.metric('ledgergate_fast_path_handovers_total'), 0);
});
