import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { readPath, startCheapNode } from '../../bench/support/cheap-node.ts';
import { endOfRequest, requestsOf, shapes, wireText } from '../../bench/support/client-shapes.ts';
import { MixSource, type MixRequest } from '../../bench/support/mix-source.ts';
import { http2Figures } from '../../bench/support/shape-load.ts';
import { requestShapes, type Route } from '../../simulate/shapes.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { fakeNode } from '../support/fake-node.ts';
import { testGateway } from '../support/gateway.ts';
import { withoutNginx } from '../support/nginx.ts';

const head = 2_000_000n;
const ledger = { headAgo: (ms: number) => LedgerVersion.of(head - BigInt(Math.round(ms / 2))) };

function requests(count: number, seed: number, only?: Route): readonly MixRequest[] {
  const source = new MixSource({ seed, ledger, ...(only === undefined ? {} : { only }) });
  return Array.from({ length: count }, () => source.next());
}

test('one seed gives one sequence of requests, another seed another', () => {
  assert.deepEqual(requests(200, 1), requests(200, 1));
  assert.notDeepEqual(requests(200, 1), requests(200, 2));
});

test('routes come by their shares', () => {
  const all = requests(20_000, 3);
  for (const { route, share } of requestShapes) {
    const drawn = all.filter((request) => request.route === route).length / all.length;
    assert.ok(Math.abs(drawn - share) < 0.01, `${route}: ${drawn}`);
  }
});

for (const { route } of requestShapes) {
  test(`a sample node answers the mix's requests of ${route}`, async (t) => {
    const node = await fakeNode(t, { head });
    for (const { method, path, body, contentType } of requests(20, 4, route)) {
      const headers = contentType === undefined ? {} : { 'content-type': contentType };
      const bytes = body === undefined ? null : Buffer.from(body);
      const reply = await fetch(node.url + path, { method, headers, body: bytes });
      assert.equal(reply.status, route === 'submit' ? 202 : 200, `${path}: ${await reply.text()}`);
    }
  });
}

test('a shape has 2,000 different requests, and half of each kind where kinds mix', () => {
  for (const shape of shapes) {
    const requests = requestsOf(shape);
    assert.equal(new Set(requests.map(({ path, body }) => `${path} ${body}`)).size, 2_000, shape.title);
    const posts = requests.filter(({ method }) => method === 'POST').length;
    assert.equal(posts, { get: 0, view: 2_000, mixed: 1_000 }[shape.reads], shape.title);
  }
});

test('HTTP/2 has no shape with a body, because h2load sends one body for all targets', () => {
  for (const shape of shapes.filter(({ isHttp2 }) => isHttp2 === true)) {
    assert.equal(shape.reads, 'get');
    assert.equal(shape.hasTls, true);
  }
});

test('a request on the wire has one length of its body in bytes, and the key only where one is given', () => {
  const post = wireText({ method: 'POST', path: '/v1/view', body: '["é"]' }, 'host:1', 'Bearer key');
  const [head = '', body] = post.split('\r\n\r\n');
  assert.equal(body, '["é"]');
  assert.match(head, /^POST \/v1\/view HTTP\/1\.1\r\nhost: host:1\r\n/);
  assert.deepEqual(head.match(/content-length: .*/g), ['content-length: 6']);
  assert.match(head, /\r\nauthorization: Bearer key\r\n/);

  const get = wireText({ method: 'GET', path: '/v1' }, 'host:1');
  assert.ok(get.endsWith('\r\n\r\n'));
  assert.doesNotMatch(get, /authorization|content-/);
});

test('no request contains the mark that parts requests in the file of the load', () => {
  for (const shape of shapes) {
    const marked = requestsOf(shape).filter((request) => wireText(request, 'host').includes(endOfRequest));
    assert.deepEqual(marked, [], shape.title);
  }
});

test('lines of the HTTP/2 load give times in ms, and one answer that is not 200 fails the round', () => {
  const lines = ['1\t200\t1000', '2\t200\t3000', '3\t200\t2000'];
  assert.deepEqual(http2Figures(lines), { requests: 3, p50Ms: 2, p99Ms: 3 });
  assert.throws(() => http2Figures([...lines, '4\t503\t10']), /1 of 4 answers were not 200/);
  assert.throws(() => http2Figures(['5\t-1\t10']), /1 of 1 answers were not 200/);
});

// The node of the benchmarks gives answers that the gateway accepts, of the sizes that the tables name.

const cpu = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';

test('reads of the benchmarks are answered through a gateway', { skip: withoutNginx() }, async (t) => {
  const node = await startCheapNode({ cpu });
  t.after(() => node.server.stop());
  const [url = ''] = node.urls;
  const gateway = await testGateway(t, { full: [{ url }] });
  const bytesOf = async (path: string): Promise<readonly number[]> => {
    const { status, body } = await gateway.get(path.replace('/v1', '').replace('%A', `0x5a${'0'.repeat(62)}`));
    return [status, body.length];
  };

  assert.deepEqual(await bytesOf(readPath(400, '2400000000')), [200, 400]);
  assert.deepEqual(await bytesOf(readPath(4_000, '2400000000')), [200, 4_000]);
  assert.deepEqual(await bytesOf(readPath(60_000, '2400000000')), [200, 60_000]);
  const [status] = await bytesOf(readPath(400, '2400000000', '0x1::ab::Body400<0x1::ab::T,0x1::ab::TT>'));
  assert.equal(status, 200);
});
