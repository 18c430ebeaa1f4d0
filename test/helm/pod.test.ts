/** The gateway of the chart's pod: its config with the folders of Secrets as kubelet mounts them. */
import assert from 'node:assert/strict';
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { until } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { fetchReply } from '../support/gateway.ts';
import { gatewayProcess } from '../support/gateway-process.ts';
import { own, render, withoutHelm } from '../support/helm.ts';
import { testKey } from '../support/keys.ts';
import { noRedis, redisServer } from '../support/redis-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const skip = withoutHelm() || noRedis;

/** Replaces a Secret as kubelet does: a new folder, and a link that leads to it from one moment to the next. */
function mount(folder: string, version: number, files: Readonly<Record<string, string>>): void {
  const data = `..${version}`;
  mkdirSync(join(folder, data), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, data, name), text);
  symlinkSync(data, join(folder, '..next'));
  renameSync(join(folder, '..next'), join(folder, '..data'));
  if (version > 1) return;
  for (const name of Object.keys(files)) symlinkSync(join('..data', name), join(folder, name));
}

async function providerPod(t: TestContext) {
  const etc = temporaryFolder(t);
  const node = await fakeNode(t, { dialect: 'aptos', head: 900n });
  const [answers, counts] = [await redisServer(t), await redisServer(t)];
  const key = testKey('acme', { plan: 'paid' });
  const { sha256, ...entry } = key.entry;
  await counts.run((client) => client.hset('lg:access:keys', String(sha256), JSON.stringify(entry)));
  mount(join(etc, 'operations'), 1, { token: 'the-first-token-of-operations\n' });
  mount(join(etc, 'redis'), 1, { url: answers.url });
  mount(join(etc, 'access-redis'), 1, { url: counts.url });
  mount(join(etc, 'secrets/node-a'), 1, { token: 'first-token' });
  const url = '${file:/etc/ledgergate/secrets/node-a/token}';
  const upstreams = [{ name: 'a', url: node.url, headers: { Authorization: `Bearer ${url}` } }];
  const access = {
    keys: { redis: true },
    plans: { paid: { requests: 1_000, quota: { day: 1_000 } } },
  };
  const objects = render({
    values: {
      config: { dialect: 'aptos', upstreams, access },
      secrets: {
        operationsToken: { existingSecret: 'operations' },
        redis: { existingSecret: 'answers' },
        accessRedis: { existingSecret: 'counts' },
        files: ['node-a'],
      },
    },
  });
  const file = join(etc, 'config/ledgergate.yaml');
  mkdirSync(dirname(file));
  const text = own(objects, 'ConfigMap').data?.['ledgergate.yaml'] ?? '';
  writeFileSync(file, text.replaceAll('/etc/ledgergate', etc).replaceAll('/var/cache/ledgergate', etc));
  const gateway = await gatewayProcess(t, { full: [node], file, env: { LEDGERGATE_OPERATIONS_PORT: '0' } });
  return { etc, node, answers, counts, key, gateway };
}

test('the pod of a provider serves a key of its Redis, and follows its Secrets', { skip }, async (t) => {
  const { etc, node, answers, counts, key, gateway } = await providerPod(t);
  let version = 0;
  const read = () => {
    version += 1;
    const headers = { authorization: `Bearer ${key.text}` };
    return fetchReply(`${gateway.url}/accounts/0x1/module/coin?ledger_version=${version}`, { method: 'GET', headers });
  };
  const admin = async (token: string): Promise<number> => {
    const headers = { authorization: `Bearer ${token}` };
    return (await fetchReply(`${gateway.operationsUrl}/admin/usage`, { method: 'GET', headers })).status;
  };

  await until(async () => (await read()).status === 200);
  assert.ok((await counts.run((client) => client.keys('lg:limits:*'))).length > 0);
  await until(async () => (await answers.run((client) => client.keys('lg:1:*'))).length > 0);
  assert.equal(await admin('the-first-token-of-operations'), 200);

  mount(join(etc, 'operations'), 2, { token: 'the-second-token-of-operations\n' });
  mount(join(etc, 'secrets/node-a'), 2, { token: 'second-token' });

  await until(async () => (await admin('the-second-token-of-operations')) === 200);
  assert.equal(await admin('the-first-token-of-operations'), 401);
  const newest = () => node.log.received.at(-1)?.headers['authorization'];
  await until(async () => (await read()).status === 200 && newest() === 'Bearer second-token');
});
