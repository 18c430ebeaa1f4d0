/** One node that cannot be used, in each of many ways: every place names the same reason. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { createServer as createTcpServer } from 'node:net';
import { test, type TestContext } from 'node:test';
import type { SampleFault } from '../../support/sample-faults.ts';
import { call } from '../../commands/command-line.ts';
import { configFile } from '../../config/config-file.ts';
import { eventually } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { freePort } from '../../support/free-port.ts';
import { fetchReply, probeAt, testGateway, type LogLine } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { listen } from '../../support/listen.ts';
import { statusOf, statusWhen } from '../../support/status.ts';
import { authority } from '../../support/tls.ts';

/** Starts a node that is wrong; resolves with its base address. */
type StartWrong = (t: TestContext) => Promise<string>;

async function httpNode(t: TestContext, status: number, headers: Record<string, string> = {}): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end('{}');
  });
  return `http://127.0.0.1:${await listen(t, server)}/v1`;
}

async function tcpNode(t: TestContext, bytes: string): Promise<string> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(bytes));
  });
  return `http://127.0.0.1:${await listen(t, server)}/v1`;
}

async function faultyNode(t: TestContext, fault: SampleFault): Promise<string> {
  const node = await fakeNode(t);
  node.faults.add(fault);
  return node.url;
}

const belowOldest = { ...ledgerHeaders({ version: 10n, chainId: 1 }), 'X-Node-Ledger-Oldest-Version': '11' };
const absurd = { ...ledgerHeaders({ version: 10n, chainId: 1 }), 'X-Node-Block-Height': '11' };

/** The reason, and the ways to it. */
const ways: readonly (readonly [reason: string, way: string, start: StartWrong])[] = [
  ['connection refused', 'no server listens', async () => `http://127.0.0.1:${await freePort()}/v1`],
  ['connection cut', 'the connection is reset', (t) => faultyNode(t, { kind: 'reset' })],
  ['name not found', 'no such host', () => Promise.resolve('http://no-such-host.invalid/v1')],
  [
    'TLS',
    'a certificate of an unknown authority',
    async (t) => {
      const { cert, key } = authority(t).certify('node');
      const server = createTlsServer({ cert: readFileSync(cert), key: readFileSync(key) }, (_, response) => {
        response.end();
      });
      return `https://127.0.0.1:${await listen(t, server)}/v1`;
    },
  ],
  ['TLS', 'a port without TLS', async (t) => (await fakeNode(t)).url.replace('http:', 'https:')],
  ['time-out', 'no answer in time', (t) => faultyNode(t, { kind: 'hang' })],
  ['not HTTP', 'another protocol', (t) => tcpNode(t, 'SSH-2.0-OpenSSH_9.2\r\n')],
  ['wrong base path', '404 at its address', (t) => httpNode(t, 404)],
  ['wrong base path', 'a redirect', (t) => httpNode(t, 302, { location: '/elsewhere' })],
  ['credentials refused', '401', (t) => httpNode(t, 401)],
  ['error status', '502 of a proxy', (t) => httpNode(t, 502)],
  ['no ledger headers', '200 without ledger headers', (t) => faultyNode(t, { kind: 'no ledger headers' })],
  ['head below oldest', 'an oldest version above the head', (t) => httpNode(t, 200, belowOldest)],
  ['absurd ledger headers', 'more blocks than versions', (t) => httpNode(t, 200, absurd)],
  ['other dialect', 'the headers of the other dialect', async (t) => (await fakeNode(t, { dialect: 'aptos' })).url],
  ['other chain', 'another chain id', async (t) => (await fakeNode(t, { chainId: 2 })).url],
];

const probes = { probeIntervalMs: 50, timeoutMs: 500 };

for (const [reason, way, start] of ways) {
  test(`${way}: every place names the reason "${reason}"`, async (t) => {
    const url = await start(t);
    const lines: LogLine[] = [];
    const onLog = (line: LogLine): unknown => line['upstream'] === 'full-0' && lines.push(line);
    const gateway = await testGateway(t, { full: [{ url }], config: { chainId: 1, upstream: probes }, onLog });
    const file = configFile(
      t,
      `chainId: 1\ndialect: node\nupstream: { timeout: 500ms }\nupstreams: [{ name: full-0, url: "${url}" }]\n`,
    );

    const facts = await statusWhen(gateway, ({ nodes }) => nodes[0]?.state === 'down' || nodes[0]?.state === 'foreign');
    const readyz = await fetchReply(`${gateway.operationsUrl}/readyz`, { method: 'GET' });
    const page = await fetchReply(`${gateway.operationsUrl}/status`, { method: 'GET' });
    const refused = await gateway.get(probeAt(5));
    const metric = await gateway.metric(`ledgergate_upstream_fault{upstream="full-0",reason="${reason}"}`);
    const [status, checked] = await Promise.all([call(['status', gateway.operationsUrl]), call(['check', file])]);

    assert.equal(facts.nodes[0]?.reason, reason);
    assert.ok(facts.problems.some((problem) => problem.startsWith('full-0 is ') && problem.endsWith(`: ${reason}`)));
    const { upstreams } = JSON.parse(readyz.text) as { upstreams: { reason?: string }[] };
    assert.equal(upstreams[0]?.reason, reason);
    assert.ok(page.text.includes(reason), page.text);
    assert.ok(status.out.includes(reason), status.out);
    assert.equal(refused.status, 503);
    assert.ok(refused.text.includes(reason), refused.text);
    assert.equal(metric, 1);
    assert.ok(checked.out.includes(`upstreams[0].url: ${reason}`), checked.out);
    // Several probes have failed, and one line has the reason.
    const told = lines.filter((line) => Number(line['level']) >= 40 && line['reason'] !== undefined);
    assert.deepEqual(
      told.map((line) => line['reason']),
      [reason],
    );
    // Neither clients nor readers of the operations port get an address.
    const { host } = new URL(url);
    for (const { text } of [refused, readyz, page]) assert.ok(!text.includes(host), text);
  });
}

test('the remedy of a wrong base path is the end of the address', async (t) => {
  const { url } = await fakeNode(t);
  const file = configFile(t, `upstreams: [{ name: a, url: "${url.replace('/v1', '/')}" }]\n`);

  const { out } = await call(['check', file]);

  assert.ok(out.includes('upstreams[0].url: wrong base path (status 404): does the address end in /v1?'), out);
});

test('another reason is another line of the log, and a node that answers has none', async (t) => {
  const node = await fakeNode(t);
  const told: unknown[] = [];
  const onLog = ({ upstream, level, reason }: LogLine): unknown =>
    upstream === 'full-0' && Number(level) >= 30 && told.push(reason);
  const gateway = await testGateway(t, { full: [node], config: { upstream: probes }, onLog });
  const reasonOf = async (): Promise<string | undefined> => (await statusOf(gateway)).nodes[0]?.reason;

  node.fault = { kind: 'no ledger headers' };
  await eventually(reasonOf, (reason) => reason === 'no ledger headers');
  node.fault = { kind: 'hang' };
  await eventually(reasonOf, (reason) => reason === 'time-out');
  node.fault = undefined;
  await eventually(reasonOf, (reason) => reason === undefined);

  assert.deepEqual(told, [undefined, 'no ledger headers', 'time-out', undefined]);
  const { text } = await fetchReply(`${gateway.operationsUrl}/metrics`, { method: 'GET' });
  assert.ok(!text.includes('ledgergate_upstream_fault{'), text);
});
