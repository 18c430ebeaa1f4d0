// Order of answers, names of requests and headers of hits at the edges of the fast path.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { startServing } from '../../../../src/gateway/serving.ts';
import { until } from '../../../support/eventually.ts';
import { fakeNode } from '../../../support/fake-node.ts';
import { fetchReply, nodeAndGateway, testConfig } from '../../../support/gateway.ts';
import { accessConfig, keysFile, planConfig } from '../../../support/keys.ts';
import { answersIn } from '../../../support/raw-http.ts';
import { submission } from '../../../support/submission.ts';

const hit = '/v1/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded400?ledger_version=800';
const view = '/v1/view?ledger_version=800';

function post(target: string, length: number): string {
  return `POST ${target} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
}

/** Statuses of the answers to `bytes`, which the client's FIN follows. */
async function statusesOf(port: number, bytes: string): Promise<readonly number[]> {
  const socket = connect({ port, host: '127.0.0.1' });
  socket.end(bytes, 'latin1');
  return answersIn(await text(socket)).map(({ status }) => status);
}

for (const fastPath of [true, false]) {
  const by = fastPath ? 'with' : 'without';
  const options = { config: { listen: { fastPath } } };

  // A read of 64 kB fills Node's buffer, so the FIN behind it is read in the same turn.
  test(`the refusal of a body that ends early follows the answers ahead of it, ${by} the fast path`, async (t) => {
    const { gateway } = await nodeAndGateway(t, options);
    await gateway.get(hit.slice(3));
    const ahead = `GET ${hit} HTTP/1.1\r\nHost: a\r\n\r\n${post(view, 65_500)}`;

    assert.deepEqual(await statusesOf(gateway.port, ahead.padEnd(65_536, 'x')), [200, 400]);
  });

  test(`a line feed moved from the body into the target is no name of a cached view, ${by} the fast path`, async (t) => {
    const { gateway } = await nodeAndGateway(t, options);
    const rest = '"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';
    const cached = `{\n${rest}`;
    for (let count = 0; count < 3; count += 1) {
      const headers = { 'content-type': 'application/json' };
      assert.equal((await gateway.send('POST', view.slice(3), { headers, body: cached })).status, 200);
    }
    assert.deepEqual(await statusesOf(gateway.port, post(view, cached.length) + cached), [200]);

    assert.deepEqual(await statusesOf(gateway.port, post(`${view}\n{`, rest.length) + rest), [400]);
  });
}

/** `Connection` of the answers to `bytes`, whose end is followed by a FIN once the node has the last request. */
async function connectionsOf(fastPath: boolean, t: TestContext, bytes: string, isHalfClosed: boolean) {
  const { node, gateway } = await nodeAndGateway(t, { config: { listen: { fastPath } } });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: released }, { when: ({ route }) => route === 'submit' });
  const socket = connect({ port: gateway.port, host: '127.0.0.1', allowHalfOpen: true });
  t.after(() => socket.destroy());
  let received = '';
  const first = node.log.next(({ route }) => route === 'submit');
  socket.on('data', (chunk) => (received += String(chunk)));
  socket.write(bytes, 'latin1');
  if (isHalfClosed) {
    await first;
    socket.end();
    // The gateway has read the FIN by the end of these.
    for (let count = 0; count < 3; count += 1) await gateway.get('/a//b');
  }
  release();
  const expected = bytes.split('HTTP/1.1').length - 1;
  await until(() => answersIn(received).length === expected);
  return answersIn(received).map(({ head }) => /^Connection: (.*)\r$/im.exec(head)?.[1]);
}

test('the answer to a submission behind whose bytes the client ends its side: close, and keep-alive of the server', async (t) => {
  const body = submission({ sequenceNumber: 1 });
  const bytes = post('/v1/transactions', body.length) + body;

  const [fast, server] = [await connectionsOf(true, t, bytes, true), await connectionsOf(false, t, bytes, true)];

  assert.deepEqual([fast, server], [['close'], ['keep-alive']]);
});

test('a prepared hit lists the header of keys that is in force', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const { path: file } = keysFile(t, []);
  const configOf = (header: string) => {
    const plans = { free: planConfig() };
    const access = accessConfig({ header, keys: { file, redis: false }, plans, anonymous: 'free' });
    return testConfig({ full: [node], config: { listen: { fastPath: true } }, access });
  };
  const serving = await startServing(configOf('x-one'), {
    isOverloaded: () => false,
  });
  t.after(() => serving.close());
  const vary = async (): Promise<string | undefined> =>
    (await fetchReply(`http://127.0.0.1:${serving.port}${hit}`, { method: 'GET' })).headers['vary'];
  // Asked of the node, put into the target cache, prepared.
  for (let count = 0; count < 3; count += 1) await vary();
  assert.match((await vary()) ?? '', /, x-one$/);

  await serving.apply(configOf('x-two'));

  assert.match((await vary()) ?? '', /, x-two$/);
});
