// A connection that repeats its headers is refused as soon as its key is revoked, expired or of another plan.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { testGateway } from '../../support/gateway.ts';
import { accessConfig, keysFile, planConfig, testKey } from '../../support/keys.ts';
import { answersIn } from '../../support/raw-http.ts';

const target = '/v1/accounts/0x1/module/coin?ledger_version=5';

/** A gateway with one key, and a connection that asks with it whenever `ask` is called. */
async function keyed(t: TestContext, fastPath: boolean) {
  const node = await fakeNode(t, { head: 900n });
  const key = testKey('wallet');
  const file = keysFile(t, [key]);
  const plans = { free: planConfig(), other: planConfig({ operations: ['view'] }) };
  const access = accessConfig({ keys: { file: file.path, redis: false }, plans });
  const gateway = await testGateway(t, { full: [node], access, config: { listen: { fastPath } } });
  const socket = connect(gateway.port, '127.0.0.1');
  t.after(() => socket.destroy());
  let received = '';
  socket.on('data', (chunk) => (received += String(chunk)));
  const request = `GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key.text}\r\n\r\n`;
  const ask = async (times = 1): Promise<readonly number[]> => {
    received = '';
    socket.write(request.repeat(times));
    await eventually(
      () => Promise.resolve(answersIn(received).length),
      (count) => count === times,
    );
    return answersIn(received).map(({ status }) => status);
  };
  return { key, file, ask };
}

for (const fastPath of [true, false]) {
  test(`a revoked key, and one of another plan, are refused on an open connection (fast path: ${fastPath})`, async (t) => {
    const { key, file, ask } = await keyed(t, fastPath);
    assert.deepEqual([...(await ask()), ...(await ask(2))], [200, 200, 200]);

    file.write([{ ...key, entry: { ...key.entry, plan: 'other' } }]);
    await eventually(ask, ([status]) => status === 403);
    file.write([testKey('another')]);
    await eventually(ask, ([status]) => status === 401);
    assert.deepEqual(await ask(2), [401, 401]);

    file.write([key]);
    await eventually(ask, ([status]) => status === 200);
  });

  test(`a key that expires is refused on an open connection (fast path: ${fastPath})`, async (t) => {
    const { key, file, ask } = await keyed(t, fastPath);
    const expires = new Date(Date.now() + 1_500).toISOString();
    file.write([{ ...key, entry: { ...key.entry, expires } }]);
    assert.deepEqual(await ask(), [200]);

    await eventually(ask, ([status]) => status === 401);
    assert.ok(Date.now() >= Date.parse(expires));
  });
}
