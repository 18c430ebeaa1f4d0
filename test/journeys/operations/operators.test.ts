// Named operators, their roles, and the audit log of what they do.
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import type { Config } from '../../../src/config/config.ts';
import { fetchReply, type LogLine, nodeAndGateway } from '../../support/gateway.ts';
import { call } from '../../commands/command-line.ts';
import { configFile } from '../../config/config-file.ts';

const [ana, ben, single] = ['token-of-ana-hush-4711', 'token-of-ben-hush-4712', 'token-of-all-hush-4713'];
const tokens = [
  { name: 'ana', role: 'admin', sha256: hash('sha256', ana) },
  { name: 'ben', role: 'read', sha256: hash('sha256', ben) },
] as const;

/** A gateway, calls of its `/admin`, and the lines of its audit log. */
async function operated(t: TestContext, operations: Partial<Config['operations']>) {
  const lines: LogLine[] = [];
  const { gateway } = await nodeAndGateway(t, {
    config: { operations, log: { level: 'silent' } },
    onLog: (line) => lines.push(line),
  });
  const admin = async (method: 'GET' | 'POST' | 'PUT' | 'HEAD', path: string, token?: string, body?: object) => {
    const reply = await fetchReply(`${gateway.operationsUrl}/admin/${path}`, {
      method,
      body: body === undefined ? null : JSON.stringify(body),
      headers: {
        ...(body && { 'content-type': 'application/json' }),
        ...(token && { authorization: `Bearer ${token}` }),
      },
    });
    return reply.status;
  };
  const audited = () =>
    lines
      .filter(({ level }) => level === 35)
      .map(({ time: _, pid: __, hostname: ___, level: ____, msg, ...fields }) => {
        assert.equal(msg, 'audit');
        return fields;
      });
  return { gateway, lines, admin, audited };
}

test('an operator who may read gets GET of /admin alone, and a token that the config drops gets nothing', async (t) => {
  const { gateway, admin } = await operated(t, { token: single, tokens });

  assert.deepEqual(
    [await admin('GET', 'log', ben), await admin('HEAD', 'log', ben), await admin('GET', 'log', ana)],
    [200, 200, 200],
  );
  assert.equal(await admin('POST', 'purge', ben, { everything: true }), 403);
  assert.equal(await admin('PUT', 'log', ben, { level: 'silent' }), 403);
  assert.equal(await admin('POST', 'upstreams/full-0/drain', ben), 403);
  assert.equal(await admin('POST', 'purge', ana, { everything: true }), 200);
  assert.equal(await admin('POST', 'purge', single, { everything: true }), 200);
  for (const token of [undefined, `${ana}x`, hash('sha256', ana), ana.slice(1)])
    assert.equal(await admin('GET', 'log', token), 401);

  const { config } = gateway.reloads;
  await gateway.reloads.take({ ...config, operations: { ...config.operations, tokens: [tokens[1]] } });
  assert.deepEqual([await admin('GET', 'log', ana), await admin('GET', 'log', ben)], [401, 200]);
});

test('each change has one line of the audit log, whatever the level of the log, with the name of the operator', async (t) => {
  const { lines, admin, audited } = await operated(t, { token: single, tokens });

  await admin('POST', 'purge', ana, { account: '0x1' });
  await admin('POST', 'purge', ana, { account: 'hush' });
  await admin('POST', 'upstreams/full-0/drain', single);
  await admin('POST', 'upstreams/full-0/resume', ana);
  await admin('POST', 'upstreams/hush/drain', ana);
  await admin('PUT', 'log', ana, { level: 'fatal' });
  await admin('PUT', 'log', ben, { level: 'trace' });
  // No change, or no operator.
  await admin('GET', 'log', ana);
  await admin('GET', 'explain?target=/v1', ben);
  await admin('POST', 'purge', 'wrong-token-hush-4714', { everything: true });

  const from = '127.0.0.1';
  assert.deepEqual(audited(), [
    { operator: 'ana', from, action: 'purge', purge: 'account', status: 200 },
    { operator: 'ana', from, action: 'purge', status: 400 },
    { operator: 'token', from, action: 'drain', upstream: 'full-0', status: 200 },
    { operator: 'ana', from, action: 'resume', upstream: 'full-0', status: 200 },
    { operator: 'ana', from, action: 'drain', status: 404 },
    { operator: 'ana', from, action: 'log', logLevel: 'fatal', status: 200 },
    { operator: 'ben', from, action: 'log', status: 403 },
  ]);
  assert.doesNotMatch(JSON.stringify(lines), /hush/);
});

test('without tokens the operator is this machine', async (t) => {
  const { admin, audited } = await operated(t, {});

  await admin('POST', 'purge', undefined, { everything: true });

  assert.deepEqual(
    audited().map(({ operator, action }) => [operator, action]),
    [['loopback', 'purge']],
  );
});

test('names of operators are unique, and no token is empty', async (t) => {
  const sha256 = hash('sha256', ana);
  const file = configFile(
    t,
    JSON.stringify({
      upstreams: [{ name: 'a', url: 'http://10.0.0.1/v1' }],
      operations: {
        tokens: [
          { name: 'ana', sha256 },
          { name: 'ana', sha256: sha256.slice(1) },
          { name: 'token', sha256: hash('sha256', '') },
        ],
      },
    }),
  );

  const { code, out } = await call(['check', file, '--offline']);

  assert.equal(code, 2);
  assert.match(out, /operations\.tokens\[1\]\.name: the name "ana" is already taken by operations\.tokens\[0\]/);
  assert.match(out, /operations\.tokens\[1\]\.sha256: must be the SHA-256 of a token, 64 hex digits/);
  assert.match(out, /operations\.tokens\[2\]\.name: "token" stands for an operator without a name/);
  assert.match(out, /operations\.tokens\[2\]\.sha256: is the SHA-256 of an empty token/);
});
