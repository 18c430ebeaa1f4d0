/** One rule for every route of the operations port: a page that uses DNS rebinding reads nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { testGateway } from '../../support/gateway.ts';
import { answersIn, exchangeRaw } from '../../support/raw-http.ts';

const token = 'a-token-of-the-operators';
const close = 'Connection: close\r\n';

/** Every route, spellings of routes, and targets of none. */
const requests = [
  'GET /livez',
  'GET /readyz',
  'GET /metrics',
  'GET /status',
  'GET /status.json',
  'HEAD /status.json',
  'GET /%73tatus.json',
  'GET /admin/explain?target=/v1',
  'GET /admin/usage',
  'GET /admin/log',
  'PUT /admin/log',
  'POST /admin/purge',
  'GET /nothing',
  'GET /%zz',
  'OPTIONS /metrics',
  'OPTIONS *',
];

async function statusesOf(port: number, heads: readonly string[]): Promise<readonly (readonly number[])[]> {
  return Promise.all(
    heads.map(async (head) => {
      const said = await exchangeRaw(port, `${head}${close}\r\n`);
      return head.startsWith('HEAD') ? [Number(said.slice(9, 12))] : answersIn(said).map(({ status }) => status);
    }),
  );
}

function portOf(url: string): number {
  return Number(new URL(url).port);
}

for (const workers of [1, 2]) {
  test(`with ${workers} process(es), no route answers a foreign host`, async (t) => {
    const full = [await fakeNode(t)];
    const config = { workers, operations: { host: '127.0.0.1', port: 0, token } };
    const { operationsUrl } = await gatewayProcess(t, { full, config });
    const port = portOf(operationsUrl);
    const authorised = `Authorization: Bearer ${token}\r\n`;
    const foreign = requests.map((line) => `${line} HTTP/1.1\r\nHost: evil.example:${port}\r\n${authorised}`);
    const double = requests.map((line) => `${line} HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n${authorised}`);
    const absolute = requests
      .filter((line) => line.includes(' /'))
      .map((line) => `${line.replace(' /', ' http://evil.example/')} HTTP/1.1\r\nHost: 127.0.0.1\r\n${authorised}`);

    assert.deepEqual(new Set((await statusesOf(port, foreign)).flat()), new Set([421]));
    assert.deepEqual(new Set((await statusesOf(port, double)).flat()), new Set([400]));
    assert.deepEqual(new Set((await statusesOf(port, absolute)).flat()), new Set([421]));
  });
}

test('probes and Prometheus pass by address and by the name of a Service, and so does HTTP/1.0 without a host', async (t) => {
  const { operationsUrl } = await testGateway(t, { full: [await fakeNode(t)] });
  const heads = [
    'GET /readyz HTTP/1.1\r\nHost: 10.1.2.3:9090\r\n',
    'GET /livez HTTP/1.1\r\nHost: [fd00::7]:9090\r\n',
    'GET /metrics HTTP/1.1\r\nHost: ledgergate-operations.ledger.svc.cluster.local:9090\r\n',
    'GET /metrics HTTP/1.1\r\nHost: ledgergate-operations:9090\r\n',
    'GET http://localhost:9090/metrics HTTP/1.1\r\nHost: localhost:9090\r\n',
    'GET /readyz HTTP/1.0\r\n',
  ];
  assert.deepEqual((await statusesOf(portOf(operationsUrl), heads)).flat(), [200, 200, 200, 200, 200, 200]);
});

test('a refusal names the config key, and with that key the name passes', async (t) => {
  const full = [await fakeNode(t)];
  const ask = async (hosts: readonly string[] | undefined) => {
    const { operationsUrl } = await testGateway(t, { full, config: { operations: { hosts } } });
    const head = 'GET /readyz HTTP/1.1\r\nHost: Gateway.Example:9090\r\n';
    const [answer] = answersIn(await exchangeRaw(portOf(operationsUrl), `${head}${close}\r\n`));
    return answer;
  };

  const refused = await ask(undefined);
  const passed = await ask(['gateway.example']);

  assert.equal(refused?.status, 421);
  assert.match(refused.body, /gateway\.example.*operations\.hosts/);
  assert.equal(passed?.status, 200);
});
