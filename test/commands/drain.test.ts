import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configFile } from '../config/config-file.ts';
import { fakeNode } from '../support/fake-node.ts';
import { testGateway } from '../support/gateway.ts';
import { call } from './command-line.ts';

test('a node is drained and resumed by name, and the status names it', async (t) => {
  const gateway = await testGateway(t, { full: [await fakeNode(t), await fakeNode(t)] });
  const port = ['--operations-port', String(gateway.operationsPort)];

  const drained = await call(['drain', 'full-1', ...port]);
  const status = await call(['status', ...port]);
  const resumed = await call(['resume', 'full-1', ...port]);

  assert.deepEqual(drained, { code: 0, out: 'full-1 is drained; requests in flight: 0', err: '' });
  assert.match(status.out, /^full-1 +○ drained /m);
  assert.deepEqual(resumed, { code: 0, out: 'full-1 is resumed', err: '' });
  assert.match((await call(['status', ...port])).out, /^READY /m);
});

test('a config gives the address and the token', async (t) => {
  const token = 'a-token-of-the-operators';
  const node = await fakeNode(t);
  const gateway = await testGateway(t, { full: [node], config: { operations: { token } } });
  const file = configFile(
    t,
    JSON.stringify({
      operations: { host: '127.0.0.1', port: gateway.operationsPort, token },
      upstreams: [{ name: 'full-0', url: node.url }],
    }),
  );

  const refused = await call(['drain', 'full-0', '--operations-port', String(gateway.operationsPort)]);
  const drained = await call(['drain', 'full-0', '--config', file]);

  assert.equal(refused.code, 1);
  assert.match(refused.err, /answered 401: this needs the header/);
  assert.deepEqual(drained, { code: 0, out: 'full-0 is drained; requests in flight: 0', err: '' });
});

test('a name that the config lacks is exit code 1, no name is exit code 2', async (t) => {
  const gateway = await testGateway(t, { full: [await fakeNode(t)] });

  const unknown = await call(['drain', 'a/b', '--operations-port', String(gateway.operationsPort)]);

  assert.equal(unknown.code, 1);
  assert.match(unknown.err, /answered 404: no upstream of the config has this name$/);
  assert.equal((await call(['resume'])).code, 2);
});
