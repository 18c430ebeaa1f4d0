import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Setup } from '../../src/workers/channel.ts';
import { testConfig } from '../support/gateway.ts';
import { listen } from '../support/listen.ts';

const exec = fileURLToPath(new URL('../../src/workers/worker-main.ts', import.meta.url));

test('a worker that gets a connection from an exiting primary ends without output', async (t) => {
  const server = createServer({ pauseOnConnect: true });
  const client = connect(await listen(t, server), '127.0.0.1');
  client.on('error', () => undefined);
  const [accepted] = (await once(server, 'connection')) as [Socket];
  const env = { ...process.env, NODE_UNIQUE_ID: '1' };
  const worker = fork(exec, [], { env, serialization: 'advanced', stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  t.after(() => {
    worker.kill('SIGKILL');
    client.destroy();
  });
  const said = text(worker.stderr ?? assert.fail());
  await once(worker, 'message');

  // A message of the cluster module, read after the channel to the primary has closed.
  worker.kill('SIGSTOP');
  const { _handle: handle } = accepted as Socket & { readonly _handle?: Socket };
  worker.send({ cmd: 'NODE_CLUSTER', act: 'newconn', key: 'none', seq: 1 }, handle);
  worker.disconnect();
  worker.kill('SIGCONT');
  const [code] = (await once(worker, 'exit')) as [number | null];

  assert.deepEqual([code, await said], [0, '']);
});

test('a worker that cannot start reports the reason alone', async (t) => {
  const port = await listen(t, createServer());
  // Forked without the cluster module, so that it listens itself, on a port in use.
  const worker = fork(exec, [], { serialization: 'advanced', stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  t.after(() => worker.kill('SIGKILL'));
  const said = text(worker.stderr ?? assert.fail());
  await once(worker, 'message');
  const config = testConfig({ full: [{ url: 'http://127.0.0.1:1/v1' }], config: { listen: { port } } });
  const distrusted = { names: [], marked: { salt: '', table: undefined } };
  const setup: Setup = {
    config,
    drainDelayMs: 0,
    processes: 1,
    run: 'test',
    distrusted,
    drained: [],
    ledger: 0,
    published: [],
    files: new Map(),
  };

  const event = { kind: 'distrusted', functionId: '0x1::a::b' };
  worker.send({ kind: 'notify', name: 'published', argument: { ledger: 0, event } });
  worker.send({ kind: 'notify', name: 'log', argument: { level: 'silent' } });
  worker.send({ kind: 'notify', name: 'serve', argument: setup });
  const failure = new Promise((resolve) => {
    worker.on('message', ({ name, argument }: { name?: string; argument?: unknown }) => {
      if (name === 'failed') resolve(argument);
    });
  });

  assert.equal(((await failure) as { readonly code?: string }).code, 'EADDRINUSE');
  worker.disconnect();
  assert.deepEqual([(await once(worker, 'exit'))[0], await said], [0, '']);
});
