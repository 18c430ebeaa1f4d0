import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { get, isAlive, metric, noWorker } from '../../support/workers.ts';

const path = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=600';

function connection(t: TestContext, url: string): Socket {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  t.after(() => socket.destroy());
  socket.on('error', () => undefined);
  return socket;
}

test('a hung worker is killed and replaced, and its connections close', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2, log: { level: 'error' } } });
  const [stuck = noWorker()] = gateway.workers();
  process.kill(stuck, 'SIGSTOP');
  t.after(() => isAlive(stuck) && process.kill(stuck, 'SIGKILL'));

  // It gets one of two connections, and does not acknowledge it.
  const sockets = [connection(t, gateway.url), connection(t, gateway.url)];
  const answers = sockets.map(
    (socket) =>
      new Promise<string>((resolve) => {
        socket.on('close', () => resolve('closed'));
        socket.on('data', (data) => resolve(String(data).slice(0, 12)));
        socket.write(`GET /v1${path} HTTP/1.1\r\nHost: gateway\r\n\r\n`);
      }),
  );
  const [how] = await Promise.all([gateway.line(/a worker exited/), ...answers]);

  assert.match(how.input, /no answer for 10 s/);
  assert.deepEqual(new Set(await Promise.all(answers)), new Set(['closed', 'HTTP/1.1 200']));
  await until(async () => (await metric(gateway, 'ledgergate_workers')) === 2);
  assert.equal(await metric(gateway, 'ledgergate_worker_hangs_total'), 1);
  assert.equal(await metric(gateway, 'ledgergate_worker_restarts_total'), 1);
  assert.ok(!gateway.workers().includes(stuck));
  for (let count = 0; count < 4; count += 1) assert.equal((await get(gateway.url + path)).status, 200);
});
