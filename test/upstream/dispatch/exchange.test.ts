import assert from 'node:assert/strict';
import { test } from 'node:test';
import { never, request, senderOf } from '../../support/sender.ts';

for (const [basePath, path, expected] of [
  ['/', '', '/'],
  ['/', '?x=1', '/?x=1'],
  ['/', '/a?x=1', '/a?x=1'],
  ['/v1/', '', '/v1'],
  ['/v1', '?x=1', '/v1?x=1'],
] as const) {
  test(`"${path}" below "${basePath}" is asked for as ${expected}`, async (t) => {
    const { sender } = await senderOf(t, ({ url }, response) => response.end(JSON.stringify(url)), {
      connections: 1,
      basePath,
    });
    assert.equal((await sender.whole(request(path), never)).body.toString(), JSON.stringify(expected));
  });
}

test('a request that cannot be sent is the client’s fault and no node’s', async (t) => {
  const { sender, upstream, failures } = await senderOf(t, (_request, response) => response.end('{}'), {
    connections: 4,
  });
  const wire = { ...request('/a').wire, headers: { expect: '100-continue' } };
  for (const way of ['whole', 'stream'] as const) {
    await assert.rejects(sender[way]({ ...request('/a'), wire }, never), { status: 400 });
  }
  assert.deepEqual([upstream.health, upstream.inFlight, await failures('connection')], ['usable', 0, 0]);
});

for (const [form, headers] of [
  ['in chunks of all sizes', {}],
  ['of a length that is told', { 'content-length': '3145728' }],
] as const) {
  test(`a large body ${form} is gathered as it is`, async (t) => {
    const body = Buffer.from(Array.from({ length: 3 * 1024 * 1024 }, (_, at) => (at * 31 + (at >> 8)) & 0xff));
    const { sender } = await senderOf(
      t,
      (_request, response) => {
        response.writeHead(200, headers);
        for (let from = 0, size = 1; from < body.length; from += size, size = (size * 7 + 3) % 50_021) {
          response.write(body.subarray(from, from + size));
        }
        response.end();
      },
      { connections: 1 },
    );

    assert.ok((await sender.whole(request('/a'), never)).body.equals(body));
  });
}
