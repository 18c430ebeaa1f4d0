import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endOfRequest, requestsOf, shapes, wireText } from '../../bench/support/client-shapes.ts';
import { http2Figures } from '../../bench/support/shape-load.ts';

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
