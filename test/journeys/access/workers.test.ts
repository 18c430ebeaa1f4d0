// Keys, rights, tokens, limits and usage of a gateway with workers and without Redis: what holds for each of two workers.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Agent, request } from 'undici';
import { call } from '../../commands/command-line.ts';
import { eventually, until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { spelled, viewBody } from '../../support/function-spellings.ts';
import { type GatewayProcess, gatewayProcess } from '../../support/gateway-process.ts';
import { fetchReply, probeAt, type Reply } from '../../support/gateway.ts';
import { audience, issuerName, signingKey, testIssuer, tokenOf } from '../../support/issuer.ts';
import { changedKey, createdKey } from '../../support/keys-api.ts';
import { bearer } from '../../support/keyed-gateway.ts';
import { keysFile, testKey } from '../../support/keys.ts';
import { changesLog } from '../../support/log-changes.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { isAlive, metric } from '../../support/workers.ts';

const workers = 2;
const jsonType = { 'content-type': 'application/json' };
const signing = signingKey('first');
const [steady, bounded, visited, viewed] = [
  testKey('steady', { tenant: 'acme' }),
  testKey('bounded', { plan: 'thirty' }),
  testKey('visited', { plan: 'visited' }),
  testKey('viewed', { plan: 'fifty' }),
];
const [served, refused] = [200, 429];

/** Sends one request over a connection of its own: the primary hands connections to the workers in turn. */
async function ask(
  { url }: GatewayProcess,
  key: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> {
  return fetchReply(url + probeAt(5), { method: 'GET', headers: { ...bearer(key), ...headers } });
}

/** The statuses of requests with the key, as many as twice the workers. */
async function statusesOf(gateway: GatewayProcess, key: string): Promise<ReadonlySet<number>> {
  const replies = await Promise.all(Array.from({ length: 2 * workers }, () => ask(gateway, key)));
  return new Set(replies.map(({ status }) => status));
}

/** Waits until each worker answers the key with the status. */
async function everywhere(gateway: GatewayProcess, key: string, status: number): Promise<void> {
  await eventually(
    () => statusesOf(gateway, key),
    (statuses) => statuses.size === 1 && statuses.has(status),
  );
}

/** A key that the command makes. */
async function commanded(file: string, ...more: readonly string[]): Promise<string> {
  const { code, out, err } = await call(['keys', 'create', '--file', file, ...more]);
  assert.equal(code, 0, err);
  return out;
}

/** Use of the key `viewed` in its holder's view and in the operators' report. */
async function useOf(gateway: GatewayProcess) {
  const headers = bearer(viewed);
  const view = JSON.parse((await fetchReply(`${gateway.url}/-/usage`, { method: 'GET', headers })).text) as {
    readonly usage: { readonly day: { readonly requests: number } };
    readonly quota: readonly { readonly remaining: number }[];
  };
  const report = await fetchReply(`${gateway.operationsUrl}/admin/usage?key=viewed`, { method: 'GET' });
  const { rows, complete, source } = JSON.parse(report.text) as {
    readonly rows: readonly { readonly requests: number }[];
    readonly complete: boolean;
    readonly source: string;
  };
  return {
    day: view.usage.day.requests,
    quota: view.quota[0]?.remaining,
    reported: rows.reduce((sum, { requests }) => sum + requests, 0),
    complete,
    source,
  };
}

/** Asserts the use. A worker that the primary answers late shows the quota by its own counts: it is asked again. */
async function assertUse(gateway: GatewayProcess, use: Awaited<ReturnType<typeof useOf>>): Promise<void> {
  const found = await eventually(
    () => useOf(gateway),
    ({ quota }) => quota === use.quota,
  );
  assert.deepEqual(found, use);
}

async function world(t: TestContext) {
  const node = await fakeNode(t, { head: 900n });
  const issuer = await testIssuer(t, [signing]);
  const file = keysFile(t, [steady, bounded, visited, viewed]);
  const plans = {
    free: {},
    thirty: { window: '10m', requests: 30 },
    visited: { window: '10m', requests: 100, perAddress: { requests: 5, window: '10m' }, wait: '2s' },
    fifty: { quota: { day: 50, month: 500 } },
    denied: { views: { deny: [spelled] } },
  };
  const access = {
    keys: { file: file.path },
    plans,
    jwt: { issuer: issuerName, audience, jwks: issuer.url },
    trustedProxies: ['127.0.0.1'],
    usage: { path: join(temporaryFolder(t), 'usage') },
  };
  const config = { dialect: 'node', workers, access, log: { level: 'info' } };
  const gateway = await gatewayProcess(t, { full: [node], config });
  return { node, file, gateway, config };
}

test('workers without Redis are one gateway to keys, tokens, plans and holders', async (t) => {
  const { node, file, gateway, config } = await world(t);
  /** The use of the key `viewed`. */
  const whole = { day: 12, quota: 38, reported: 12, complete: true, source: 'memory' };

  await t.test('each logs what an operator wants, until the config is read again', async () => {
    const { operationsUrl } = gateway;
    const answered = () => gateway.err().split('"msg":"answered"').length - 1;
    const reload = () => gateway.hangUp();
    await changesLog({ operationsUrl, ask: () => ask(gateway, steady.text), answered, reload }, workers);
    await gateway.line(/"msg":"the config was reloaded: no live key has changed/);
  });

  await t.test('each receives the keys of the file, and their removal', async () => {
    const [first, second] = [testKey('first'), testKey('second')];
    file.write([steady, bounded, visited, viewed, first]);
    await everywhere(gateway, first.text, 200);
    file.write([steady, bounded, visited, viewed, second]);
    await everywhere(gateway, second.text, 200);
    await everywhere(gateway, first.text, 401);
  });

  await t.test('each has a change by API in force; a body of any depth is refused', async () => {
    const key = await createdKey(gateway, { name: 'by-api', plan: 'free' });
    await everywhere(gateway, key, 200);
    await changedKey(gateway, 'by-api');
    await everywhere(gateway, key, 401);
    const nested = '['.repeat(60_000) + ']'.repeat(60_000);
    const body = `{"name":"by-api","plan":"free","operations":${nested}}`;
    const deep = await fetchReply(`${gateway.operationsUrl}/admin/keys`, { method: 'POST', headers: jsonType, body });
    assert.equal(deep.status, 400);
    await everywhere(gateway, await createdKey(gateway, { name: 'by-api', plan: 'free' }), 200);
  });

  await t.test('each follows the lists of keys that the command makes, and the plans of a changed config', async () => {
    const denied = await commanded(file.path, '--name', 'denied', '--plan', 'denied');
    const own = await commanded(file.path, '--name', 'own', '--plan', 'free', '--addresses', '127.0.0.2,2001:db8::/32');
    const statuses = async (key: string, localAddress: string) => {
      const dispatcher = new Agent({ localAddress, connections: workers, pipelining: 0 });
      const headers = { ...jsonType, ...bearer(key) };
      const options = { dispatcher, method: 'POST', body: viewBody(), headers } as const;
      const all = await Promise.all(
        Array.from({ length: workers }, async () => {
          const reply = await request(`${gateway.url}/view`, options);
          await reply.body.dump();
          return reply.statusCode;
        }),
      );
      await dispatcher.destroy();
      return [...new Set(all)].join();
    };
    const areAt = (key: string, status: number) =>
      eventually(
        () => statuses(key, '127.0.0.2'),
        (all) => all === String(status),
      );
    await areAt(own, 200);
    await areAt(denied, 403);
    const before = node.requestsTo('view');
    assert.equal(await statuses(own, '127.0.0.3'), '403');
    // In other spellings: functions.test.ts.
    assert.equal(await statuses(denied, '127.0.0.1'), '403');
    assert.equal(node.requestsTo('view'), before);

    const { access } = config;
    gateway.reconfigure({ ...config, access: { ...access, plans: { ...access.plans, denied: {} } } });
    await areAt(denied, 200);
    gateway.reconfigure(config);
    await areAt(denied, 403);
    for (const label of ['reason="address",plan="free"', 'reason="function",plan="denied"']) {
      const refusals = await metric(gateway, `ledgergate_access_refusals_total{${label}}`);
      assert.ok(refusals !== undefined && refusals >= workers, label);
    }
  });

  await t.test('each verifies a token with the keys of the issuer, and its tenant has one account', async () => {
    const token = tokenOf(signing, 'acme', { plan: 'thirty' });
    const statuses: number[] = [];
    for (let turn = 0; turn < 36; turn += 1) statuses.push((await ask(gateway, token)).status);
    assert.deepEqual(statuses, [...Array<number>(30).fill(served), ...Array<number>(6).fill(refused)]);
    const verified = await metric(gateway, 'ledgergate_token_verifications_total{result="ok"}');
    assert.ok(verified !== undefined && verified >= 1 && verified <= workers, String(verified));
  });

  await t.test('a plan is granted once for all of them, and their usage is one', async () => {
    const statuses: number[] = [];
    for (let asked = 0; asked < 45; asked += 1) statuses.push((await ask(gateway, bounded.text)).status);
    assert.deepEqual(statuses, [...Array<number>(30).fill(served), ...Array<number>(15).fill(refused)]);
    const { text } = await fetchReply(`${gateway.operationsUrl}/admin/usage?format=csv&key=bounded`, { method: 'GET' });
    const counts = { refused: 0, served: 0 };
    for (const row of text.trim().split('\r\n').slice(1)) {
      const cells = row.split(',');
      counts[cells[5] === 'refused' ? 'refused' : 'served'] += Number(cells[6]);
    }
    assert.deepEqual(counts, { served: 30, refused: 15 }, text);
    // Six of them are those of the token above.
    assert.equal(await metric(gateway, 'ledgergate_limits_refusals_total{plan="thirty",bound="requests"}'), 21);
  });

  await t.test('one visitor of a page cannot use up its key, whatever address it claims', async () => {
    const from = async (address: string, times: number) => {
      const replies: Reply[] = [];
      while (replies.length < times) replies.push(await ask(gateway, visited.text, { 'x-forwarded-for': address }));
      return replies.map(({ status }) => status);
    };
    assert.deepEqual(await from('203.0.113.7', 7), [...Array<number>(5).fill(served), refused, refused]);
    // The last entry is the proxy's; those before it are claims.
    assert.deepEqual(await from('198.51.100.1, 203.0.113.7', 1), [refused]);
    assert.deepEqual(await from('203.0.113.8', 5), Array<number>(5).fill(served));
    // One network of IPv6, in several spellings.
    assert.deepEqual(await from('2001:db8::1', 3), Array<number>(3).fill(served));
    assert.deepEqual(await from('2001:DB8:0:0:ffff::2', 3), [served, served, refused]);
    const { headers } = await ask(gateway, visited.text, { 'x-forwarded-for': '203.0.113.7' });
    assert.equal(headers['ratelimit-policy'], '"requests";q=100;w=600, "address";q=5;w=600');
    // 15 were admitted: the refusals took nothing from the others.
    assert.match(headers['ratelimit'] ?? '', /^"requests";r=85;t=\d+, "address";r=0;t=\d+$/);
    assert.equal(await metric(gateway, 'ledgergate_limits_refusals_total{plan="visited",bound="address"}'), 5);
  });

  await t.test(
    'killed while the file is invalid, they are replaced by ones with the keys and the use before',
    async () => {
      for (let count = 0; count < 12; count += 1) assert.equal((await ask(gateway, viewed.text)).status, served);
      // The operators' report at once has the use of every worker, and so has the view from then on.
      assert.equal((await useOf(gateway)).reported, 12);
      await until(async () => {
        const days: number[] = [];
        while (days.length < workers) days.push((await useOf(gateway)).day);
        return days.every((day) => day === 12);
      }, 200);
      await assertUse(gateway, whole);

      file.writeText('keys: [oops');
      const lost = gateway.workers();
      assert.equal(lost.length, workers);
      for (const worker of lost) process.kill(worker, 'SIGKILL');
      await until(() => Promise.resolve(gateway.workers().every((worker) => !lost.includes(worker))));
      await until(async () => (await metric(gateway, 'ledgergate_workers')) === workers);
      assert.deepEqual([...(await statusesOf(gateway, steady.text))], [200]);
      await until(async () => (await useOf(gateway)).day === 12, 200);
    },
  );

  await t.test(
    'killed as a whole, or stopped, the gateway goes on with the use before, which the primary keeps',
    async () => {
      file.write([steady, bounded, visited, viewed]);
      const all = [gateway.pid, ...gateway.workers()];
      await gateway.kill();
      // Workers end by themselves.
      await until(() => Promise.resolve(!all.some(isAlive)));
      await gateway.restart();
      await assertUse(gateway, whole);
      // Workers report their last use while they end.
      for (let count = 0; count < 3; count += 1) assert.equal((await ask(gateway, viewed.text)).status, served);
      await gateway.stop();
      await gateway.restart();
      await assertUse(gateway, { ...whole, day: 15, quota: 35, reported: 15 });
    },
  );
});
