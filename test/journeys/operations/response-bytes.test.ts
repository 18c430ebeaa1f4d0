/** Bytes of answers by route and outcome are those that clients received, whatever they came over. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, probeAt, testGateway, type TestGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { listen } from '../../support/listen.ts';
import type { Asked } from '../../support/tls.ts';
import { transports } from '../../support/transports.ts';

const name = 'ledgergate_http_response_bytes_total';

/** The series of the family, by route and outcome. */
async function counted({ operationsUrl }: TestGateway): Promise<Readonly<Record<string, number>>> {
  const { text } = await fetchReply(`${operationsUrl}/metrics`, { method: 'GET' });
  const series = text.matchAll(new RegExp(`^${name}\\{route="(\\w+)",outcome="(\\w+)"\\} (\\d+)$`, 'gm'));
  return Object.fromEntries([...series].map(([, route, outcome, bytes]) => [`${route} ${outcome}`, Number(bytes)]));
}

const padded = (bytes: number) => `/v1/accounts/0x1/resource/0x1::ledgergate_sample::Padded${bytes}?ledger_version=600`;
const view = JSON.stringify({ function: '0x1::coin::balance', type_arguments: [], arguments: ['0x1'] });
const posted = { method: 'POST', headers: { 'content-type': 'application/json' } };
const gzip = { 'accept-encoding': 'gzip' };

/** Requests by route and outcome; each has a body of its own, or none. */
const asked: readonly (readonly [series: string, request: Asked])[] = [
  ['resource miss', { path: padded(5_000) }],
  ['resource memory', { path: padded(5_000) }],
  ['resource memory', { path: padded(5_000) }],
  ['resource memory', { path: padded(5_000), headers: gzip }],
  ['resource memory', { path: padded(5_000), headers: gzip }],
  ['resource memory', { path: padded(5_000), method: 'HEAD' }],
  ['resource memory', { path: padded(5_000), headers: { 'if-none-match': '*' } }],
  ['resource miss', { path: padded(200_000) }],
  ['resource memory', { path: padded(200_000) }],
  ['resource refused', { path: `/v1${probeAt(7)}x` }],
  ['view miss', { path: '/v1/view?ledger_version=600', ...posted, body: view }],
  ['view memory', { path: '/v1/view?ledger_version=600', ...posted, body: view }],
  ['ledger_info local', { path: '/v1' }],
  ['ledger_info local', { path: '/v1', method: 'HEAD' }],
  ['account passed', { path: '/v1/accounts/0x1?x=1' }],
  ['account passed', { path: '/v1/accounts/0x1?x=1', method: 'HEAD' }],
  ['none refused', { path: '/elsewhere' }],
];

for (const [transport, start] of Object.entries(transports)) {
  test(`bytes of bodies are counted as clients receive them, over ${transport}`, async (t) => {
    const { gateway, ask } = await start(t, { full: [await fakeNode(t, { head: 900n })] });

    const received: Record<string, number> = {};
    const lengths: number[] = [];
    for (const [series, request] of asked) {
      const { body } = await ask(request);
      received[series] = (received[series] ?? 0) + body.length;
      lengths.push(body.length);
    }

    assert.deepEqual(await counted(gateway), received);
    const [miss = 0, hit = 0, , coded = 0, , head, unchanged] = lengths;
    assert.deepEqual([hit === miss, coded > 0 && coded < hit, head, unchanged], [true, true, 0, 0]);
  });
}

test('of a streamed answer that its client cuts off, the bytes that were sent are counted', async (t) => {
  const piece = Buffer.alloc(10_000, ' ');
  const server = createServer((request, response) => {
    const isPassed = request.url?.includes('x=1') === true;
    response.writeHead(200, { ...ledgerHeaders({ version: 900n }), 'content-type': 'application/json' });
    if (isPassed) response.write(piece);
    else response.end('{}');
  });
  const url = `http://127.0.0.1:${await listen(t, server)}/v1`;
  const gateway = await testGateway(t, { full: [{ url }] });

  const [response] = (await once(get(`${gateway.url}/accounts/0x1?x=1`, { agent: false }), 'response')) as [
    IncomingMessage,
  ];
  let bytes = 0;
  for await (const part of response) {
    bytes += (part as Buffer).length;
    if (bytes === piece.length) break;
  }

  await until(async () => (await counted(gateway))['account passed'] === piece.length);
});
