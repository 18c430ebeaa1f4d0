// The read of a body may share received bytes: a later request of the connection must not change them.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { until } from '../../../support/eventually.ts';
import { testGateway } from '../../../support/gateway.ts';
import { ledgerHeaders } from '../../../support/ledger-info.ts';
import { listen } from '../../../support/listen.ts';
import { answersIn, rawClient } from '../../../support/raw-http.ts';

const ledger = { ...ledgerHeaders({ version: 900n, chainId: 1 }), 'content-type': 'application/json' };

/** A view in BCS, whose bytes a node gets as they are. */
function view(letter: string, bytes: number): string {
  const type = 'application/x.aptos.view_function+bcs';
  return `POST /v1/view?ledger_version=800 HTTP/1.1\r\nHost: a\r\nContent-Type: ${type}\r\nContent-Length: ${bytes}\r\n\r\n${letter.repeat(bytes)}`;
}

async function ask(socket: Socket, request: string): Promise<string | undefined> {
  socket.write(request);
  const [answer] = (await once(socket, 'data')) as [Buffer];
  return answersIn(answer.toString('latin1'))[0]?.body;
}

for (const bytes of [300, 20_000]) {
  test(`a node that is asked again gets the ${bytes} bytes of that request, whatever has come since`, async (t) => {
    const bodies: string[] = [];
    const { promise: failed, resolve: fail } = Promise.withResolvers<void>();
    t.after(() => fail());
    /** Answers a view by the first byte of its body; the first one fails. */
    const server = createServer((request, response) => {
      void buffer(request).then(async (received) => {
        if (request.method !== 'POST') return response.writeHead(200, ledger).end('{}');
        bodies.push(received.toString('latin1'));
        if (bodies.length > 1)
          return response.writeHead(200, ledger).end(`["${String.fromCharCode(received[0] ?? 0)}"]`);
        await failed;
        return response.destroy();
      });
    });
    const url = `http://127.0.0.1:${await listen(t, server)}/v1`;
    const gateway = await testGateway(t, { full: [{ url }, { url }], config: { listen: { fastPath: true } } });
    const { socket, text } = rawClient(t, gateway.port);

    socket.write(view('A', bytes));
    await until(() => bodies.length === 1);
    for (const letter of ['B', 'C'])
      await new Promise<void>((resolve) => socket.write(view(letter, bytes), () => resolve()));
    // By then the gateway has read them.
    for (let count = 0; count < 3; count += 1) await gateway.get('/a//b');
    fail();
    await until(() => text().split('HTTP/1.1 200').length === 4 && text().endsWith('"]'));

    const first = bodies.map((body) => [body.length, ...new Set(body)]);
    assert.deepEqual(
      first,
      ['A', 'A', 'B', 'C'].map((letter) => [bytes, letter]),
    );
    assert.deepEqual(
      answersIn(text()).map(({ body }) => body),
      ['["A"]', '["B"]', '["C"]'],
    );
    // The keys of memory and of the target cache are of the same bytes.
    for (const letter of ['C', 'A', 'B', 'A']) assert.equal(await ask(socket, view(letter, bytes)), `["${letter}"]`);
    assert.equal(bodies.length, 4);
    assert.equal(await gateway.metric('ledgergate_fast_path_handovers_total'), 0);
  });
}
