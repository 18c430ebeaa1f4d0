import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { FrontConnection, type FrontParts } from '../../src/front/front-connection.ts';
import { TurnEnd } from '../../src/upstream/wire/turn-end.ts';
import { until } from '../support/eventually.ts';

/** A connection of the front's on which nothing is asked, and its client. */
async function frontConnection(t: TestContext): Promise<{ connection: FrontConnection; client: Socket }> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [socket] = (await once(server, 'connection')) as [Socket];
  t.after(() => {
    client.destroy();
    server.close();
  });
  const parts: Pick<FrontParts, 'turnEnd' | 'onClose'> = { turnEnd: new TurnEnd(), onClose: () => undefined };
  return { connection: new FrontConnection(socket, parts as FrontParts), client };
}

test('a connection is quiet from the moment on when its answer has been taken, not when it was given', async (t) => {
  const { connection, client } = await frontConnection(t);
  connection.send('a'.repeat(32 * 1024 * 1024), 'latin1');
  connection.flush();
  assert.equal(connection.quietMs(0), 0);
  assert.equal(connection.quietMs(80_000), 0);

  client.resume();
  await until(() => connection.isIdle);

  assert.equal(connection.quietMs(82_500), 2_500);
  assert.equal(connection.quietMs(85_000), 5_000);
});
