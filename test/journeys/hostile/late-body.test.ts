import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import { nodeAndGateway } from '../../support/gateway.ts';
import { submission } from '../../support/submission.ts';

test('a submission whose body ends after its 408 reaches no node', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { times: { headMs: 100, requestMs: 150, checkMs: 20 } });
  const { hostname, port } = new URL(gateway.url);
  const body = submission();
  const client = connect(Number(port), hostname);
  t.after(() => client.destroy());
  client.write('POST /v1/transactions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n');
  client.write(`Content-Length: ${body.length}\r\n\r\n${body.slice(0, -1)}`);

  const [answer] = (await once(client, 'data')) as [Buffer];
  client.write(body.slice(-1));
  await sleep(300);

  assert.match(answer.toString(), /^HTTP\/1.1 408 /);
  assert.equal(node.requestsTo('submit'), 0);
});
