// The time that a request's body, and the answer made of it, count as held.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import { nodeAndGateway } from '../../support/gateway.ts';
import { encodeRequest, submission } from '../../support/submission.ts';

const large = encodeRequest('0x1::account::rotate_authentication_key_call', [`0x${'00'.repeat(40_000)}`]);

function posted(target: string, body: string): string {
  const head = `POST /v1${target} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`;
  return `${head}Content-Length: ${body.length}\r\n\r\n${body}`;
}

/** A node that withholds answers to `route` until `release`, and the gateway's count of held bytes. */
async function world(t: TestContext, route: string, { shadow = 0, fastPath = true } = {}) {
  const { node, gateway } = await nodeAndGateway(t, { config: { encode: { shadow }, listen: { fastPath } } });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: released }, { when: (request) => request.route === route });
  const held = (): Promise<number> => gateway.metric('ledgergate_http_body_bytes');
  return { node, gateway, release, held };
}

test("an unsent signing message counts beside its request's body", async (t) => {
  const { gateway, release, held } = await world(t, 'tableItem', { fastPath: false });
  const message = (JSON.parse((await gateway.post('/transactions/encode_submission', large)).text) as string).length;
  assert.ok(message > 80_000);
  await until(async () => (await held()) === 0);
  const socket = connect(gateway.port, '127.0.0.1');
  t.after(() => socket.destroy());

  // Answers of the server's pipeline leave in order: this one waits for a node.
  socket.write(posted('/tables/0x1/item?ledger_version=5&x=1', '{}'));
  socket.write(posted('/transactions/encode_submission', large));
  await until(async () => (await held()) === large.length + message);

  release();
  await until(async () => (await held()) === 0);
});

test('the body of a signing request counts while a shadow check sends it', async (t) => {
  const { node, gateway, release, held } = await world(t, 'encodeSubmission', { shadow: 1 });

  const answered = await gateway.post('/transactions/encode_submission', large);
  assert.equal(answered.status, 200);
  await until(() => node.requestsTo('encodeSubmission') === 1);
  assert.ok((await held()) >= large.length);

  release();
  await until(async () => (await held()) === 0);
});

test('the body of a submission counts until its node answers, even after a hang-up', async (t) => {
  const { node, gateway, release, held } = await world(t, 'submit');
  const connections = (): Promise<number> => gateway.metric('ledgergate_http_connections');
  const idle = await connections();
  const socket = connect(gateway.port, '127.0.0.1');
  const body = submission() + ' '.repeat(50_000);
  socket.write(posted('/transactions', body));
  await until(() => node.requestsTo('submit') === 1);
  // A reset: after a half-close the gateway still answers a submission.
  socket.resetAndDestroy();
  await until(async () => (await connections()) === idle);
  assert.equal(await held(), body.length);

  release();
  await until(async () => (await held()) === 0);
});
