// Rights of keys and plans as users run them: keys by the command, plans of the config file, several workers, tokens.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Agent, request } from 'undici';
import { call } from '../../commands/command-line.ts';
import { eventually } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { spelled, spellings, viewBody } from '../../support/function-spellings.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { fetchReply, testGateway } from '../../support/gateway.ts';
import { jwtConfig, signingKey, testIssuer, tokenOf } from '../../support/issuer.ts';
import { accessConfig, planConfig } from '../../support/keys.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const jsonType = { 'content-type': 'application/json' };

test('two workers follow the lists of keys that the command makes, and the plans of a changed file', async (t) => {
  const file = join(temporaryFolder(t), 'keys.yaml');
  writeFileSync(file, 'keys: []\n');
  const create = async (...more: readonly string[]): Promise<string> => {
    const { code, out, err } = await call(['keys', 'create', '--file', file, ...more]);
    assert.equal(code, 0, err);
    return out;
  };
  const denied = await create('--name', 'denied', '--plan', 'denied');
  const own = await create('--name', 'own', '--plan', 'free', '--addresses', '127.0.0.2,2001:db8::/32');
  const node = await fakeNode(t, { head: 900n });
  const access = { keys: { file }, plans: { free: {}, denied: { views: { deny: [spelled] } } } };
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2, access } });
  /** Statuses over connections of their own, which the workers get in turn. */
  const statuses = async (key: string, localAddress: string, path = '/view', body = viewBody(), headers = jsonType) => {
    const dispatcher = new Agent({ localAddress, connections: 4, pipelining: 0 });
    const ask = async (): Promise<number> => {
      const options = {
        dispatcher,
        method: 'POST',
        body,
        headers: { ...headers, authorization: `Bearer ${key}` },
      } as const;
      const reply = await request(gateway.url + path, options);
      await reply.body.dump();
      return reply.statusCode;
    };
    const all = await Promise.all(Array.from({ length: 4 }, ask));
    await dispatcher.destroy();
    return [...new Set(all)];
  };

  assert.deepEqual(await statuses(own, '127.0.0.1'), [403]);
  for (const { path, body, headers, method = 'POST', isForNodes } of spellings) {
    if (!isForNodes || method !== 'POST') continue;
    assert.deepEqual(await statuses(denied, '127.0.0.1', path, body, { ...jsonType, ...headers }), [403]);
  }
  assert.equal(node.reads, 0);
  assert.deepEqual(await statuses(own, '127.0.0.2'), [200]);
  assert.deepEqual(await statuses(denied, '127.0.0.1'), [403]);

  gateway.reconfigure({ workers: 2, access: { ...access, plans: { ...access.plans, denied: {} } } });
  await eventually(
    () => statuses(denied, '127.0.0.1'),
    (all) => all.join() === '200',
  );
  gateway.reconfigure({ workers: 2, access });
  await eventually(
    () => statuses(denied, '127.0.0.1'),
    (all) => all.join() === '403',
  );
  const { text } = await fetchReply(`${gateway.operationsUrl}/metrics`, { method: 'GET' });
  for (const label of ['reason="address",plan="free"', 'reason="function",plan="denied"']) {
    const sample = text.split('\n').find((line) => line.startsWith(`ledgergate_access_refusals_total{${label}}`));
    assert.ok(Number(sample?.split(' ').at(-1)) >= 4, label);
  }
});

test('a token has the functions of its plan', async (t) => {
  const key = signingKey('first');
  const issuer = await testIssuer(t, [key]);
  const node = await fakeNode(t, { head: 900n });
  const plans = { free: planConfig(), denied: planConfig({ views: { deny: [spelled] } }) };
  const gateway = await testGateway(t, { full: [node], access: accessConfig({ jwt: jwtConfig(issuer.url), plans }) });
  const [free, denied] = [tokenOf(key, 'acme'), tokenOf(key, 'acme', { plan: 'denied' })];
  const view = async (token: string) =>
    (await gateway.post('/view?ledger_version=5', viewBody(), { authorization: `Bearer ${token}` })).status;

  // Verified first, then known.
  assert.deepEqual([await view(denied), await view(denied)], [403, 403]);
  assert.equal(node.requestsTo('view'), 0);
  assert.deepEqual([await view(free), await view(free), await view(denied)], [200, 200, 403]);
  assert.equal(node.requestsTo('view'), 1);
});
