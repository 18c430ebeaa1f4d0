import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { binary, start } from '../../commands/command-line.ts';
import { configFile } from '../../config/config-file.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { childrenOf } from '../../support/gateway-process.ts';
import { get } from '../../support/workers.ts';

test('a worker that cannot be forked for lack of descriptors starts later', async (t) => {
  const { url } = await fakeNode(t, { head: 900n });
  const config = {
    listen: { host: '127.0.0.1', port: 0 },
    operations: { host: '127.0.0.1', port: 0 },
    upstreams: [{ name: 'full', url }],
    workers: 2,
    log: { level: 'error' },
  };
  const serve = [process.execPath, binary, 'serve', '--config', configFile(t, JSON.stringify(config))];
  const gateway = start(t, ['ulimit -n 64; exec "$0" "$@"', ...serve], { node: '/bin/sh', script: '-c' });
  const [, operationsUrl = ''] = await gateway.line(/^Operations: +(\S+) /);
  const workers = () => childrenOf(gateway.process.pid, 'ledgergate worker');
  const sockets = Array.from({ length: 80 }, () => connect(Number(new URL(operationsUrl).port), '127.0.0.1'));
  for (const socket of sockets) socket.on('error', () => undefined);
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));

  const victims = workers();
  for (const victim of victims) process.kill(victim, 'SIGKILL');
  await gateway.line(/EMFILE/);
  for (const socket of sockets) socket.destroy();

  await until(async () => {
    const { text } = await get(`${operationsUrl}/metrics`);
    return /^ledgergate_workers 2$/m.test(text);
  });
  assert.equal(workers().length, 2);
  assert.ok(!workers().some((worker) => victims.includes(worker)));
});
