/** Clients that ask for large answers and do not read them. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import { startGateway } from '../../../src/gateway/gateway.ts';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { until } from '../../support/eventually.ts';
import { fetchReply, testConfig } from '../../support/gateway.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';
import { listen } from '../../support/listen.ts';

/** A node whose blocks never end. */
async function endlessNode(t: TestContext): Promise<{ url: string; blocks(): number }> {
  let blocks = 0;
  const server = createServer(({ url = '' }, response) => {
    const head = [...new Dialect('node').list(ledgerInfo({ version: 900n }))];
    response.writeHead(200, ['Content-Type', 'application/json', ...head]);
    if (url.startsWith('/v1/blocks/by_height/1')) {
      blocks += 1;
      pour(response);
    } else response.end('{"bytecode":"0x"}');
  });
  return { url: `http://127.0.0.1:${await listen(t, server)}/v1`, blocks: () => blocks };
}

function pour(response: ServerResponse): void {
  const block = Buffer.alloc(256 * 1024, ' ');
  const more = (): void => {
    while (!response.destroyed && response.write(block));
  };
  response.on('drain', more);
  more();
}

/** The answer of a client at another address: its turn comes before clients with many waiting requests. */
async function statusFor(localAddress: string, url: string): Promise<number | undefined> {
  const [response] = (await once(get(url, { localAddress }), 'response')) as [IncomingMessage];
  response.resume();
  return response.statusCode;
}

test('clients that do not read lose their answers; reads go on meanwhile, and others are served after', async (t) => {
  const node = await endlessNode(t);
  const config = testConfig({ full: [node], config: { upstream: { connections: 4, timeoutMs: 4_000 } } });
  const gateway = await startGateway(config, { stallMs: 500 });
  t.after(() => gateway.close());
  const slow = Array.from({ length: 6 }, () => {
    const socket = connect(gateway.port, '127.0.0.1');
    socket.write('GET /v1/blocks/by_height/1?x=1 HTTP/1.1\r\nHost: a\r\n\r\n');
    socket.on('error', () => undefined);
    return { socket, closed: once(socket, 'close') };
  });
  await until(() => node.blocks() >= 3);

  const read = await fetchReply(`${gateway.url}/accounts/0x1/module/coin?ledger_version=800`, { method: 'GET' });
  const blocksThen = node.blocks();
  const passed = await statusFor('127.0.0.2', `${gateway.url}/blocks/by_height/2?x=1`);

  assert.deepEqual([read.status, blocksThen, passed], [200, 3, 200]);
  assert.equal(gateway.fleet()[0]?.state, 'usable');
  // A client that reads again before the bound is served on.
  const metrics = () => fetchReply(`${gateway.operationsUrl}/metrics`, { method: 'GET' });
  await until(async () => /^ledgergate_upstream_in_flight_requests\{.*\} 0$/m.test((await metrics()).text));
  for (const { socket, closed } of slow) {
    socket.resume();
    await closed;
  }
});

/** A node whose resources have `bytes` bytes. */
async function largeNode(t: TestContext, bytes: number): Promise<{ url: string }> {
  const large = Buffer.from(JSON.stringify({ type: '0x1::a::B', data: 'a'.repeat(bytes) }));
  const server = createServer(({ url = '' }, response: ServerResponse) => {
    const head = [...new Dialect('node').list(ledgerInfo({ version: 900n }))];
    const body = url.includes('/resource/') ? large : Buffer.from('{"bytecode":"0x"}');
    response.writeHead(200, ['Content-Type', 'application/json', 'Content-Length', String(body.length), ...head]);
    response.end(body);
  });
  return { url: `http://127.0.0.1:${await listen(t, server)}/v1` };
}

for (const fastPath of [true, false]) {
  test(`large unread answers stay within their bound and make room (fast path: ${fastPath})`, async (t) => {
    const node = await largeNode(t, 40_000_000);
    const config = testConfig({ full: [node], config: { listen: { fastPath } } });
    const gateway = await startGateway(config);
    t.after(() => gateway.close());
    const metric = async (name: string): Promise<number> => {
      const { text } = await fetchReply(`${gateway.operationsUrl}/metrics`, { method: 'GET' });
      return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
    };
    const ask = async (version: number): Promise<string> => {
      const socket = connect(gateway.port, '127.0.0.1');
      t.after(() => socket.destroy());
      socket.on('error', () => undefined);
      socket.write(`GET /v1/accounts/0x1/resource/0x1::a::B?ledger_version=${version} HTTP/1.1\r\nHost: a\r\n\r\n`);
      const [chunk] = (await once(socket, 'data')) as [Buffer];
      socket.pause();
      return chunk.toString('latin1', 9, 12);
    };

    let mostHeld = 0;
    for (let version = 100; version < 108; version += 1) {
      await ask(version);
      mostHeld = Math.max(mostHeld, await metric('ledgergate_answers_held_bytes'));
    }
    const hit = await fetchReply(`${gateway.url}/accounts/0x1/module/coin?ledger_version=800`, { method: 'GET' });
    // Clients that have stood still for a second make room for one that has not.
    await until(async () => (await ask(200)) === '200');

    assert.ok(mostHeld > 200_000_000 && mostHeld <= 256 * 1024 * 1024, `${mostHeld} bytes`);
    assert.equal(hit.status, 200);
    assert.ok((await metric('ledgergate_http_slow_connections_ended_total')) >= 1);
  });
}
