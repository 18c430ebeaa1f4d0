// Requests of public clients, as recorded (protocol 8), against a gateway in front of a node.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fetchReply, nodeAndGateway } from '../../support/gateway.ts';
import { exchangeRaw } from '../../support/raw-http.ts';

const owner = '0xa550c18';
const store = '0x1::coin::CoinStore';
const coin = '0x1::aptos_coin::AptosCoin';
/** A BCS string of up to 127 bytes. */
const text = (value: string): Buffer => Buffer.from([value.length, ...Buffer.from(value)]);
const long = (address: string): string => `0x${address.slice(2).padStart(64, '0')}`;

test('every spelling of one resource read is one entry', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const spellings = [
    `/accounts/${owner}/resource/${store}%3C${coin}%3E?ledger_version=500`,
    `/accounts/${long(owner)}/resource/${store}%3C${coin}%3E?ledger_version=500`,
    `/accounts/a550c18/resource/${encodeURIComponent(`${store}<${coin}>`)}?ledger_version=0500`,
    `/accounts/0xA550C18/resource/${encodeURIComponent(`${store}< ${long('0x1')}::aptos_coin::AptosCoin >`)}?x=1&ledger_version=500`,
    `/accounts/${owner}/resource/${store}%3c${coin}%3e?ledger_version=%2B500`,
  ];

  const replies = [];
  for (const path of spellings) replies.push(await gateway.get(path, { 'content-type': 'application/json' }));
  const raw = await exchangeRaw(
    gateway.port,
    `GET /v1/accounts/${owner}/resource/${store}<${coin}>?ledger_version=500 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`,
  );

  assert.deepEqual(
    replies.map(({ status }) => status),
    [200, 200, 200, 200, 200],
  );
  assert.match(raw, /^HTTP\/1.1 200 .*Cache-Status: ledgergate; hit; detail=memory/s);
  assert.equal(node.requestsTo('resource'), 1);
});

test('a struct tag of 4 kB is served and cached', async (t) => {
  const { gateway } = await nodeAndGateway(t);
  const tag = `0x1::ledgergate_sample::Probe<${Array.from({ length: 130 }, () => coin).join(', ')}>`;
  const path = `/accounts/0x1/resource/${encodeURIComponent(tag)}?ledger_version=500`;

  const first = await gateway.get(path);
  const second = await gateway.get(path);

  assert.ok(tag.length > 3_400);
  assert.equal(second.status, first.status);
  assert.equal(second.headers['cache-status'], 'ledgergate; hit; detail=memory');
});

test('a view in BCS, as the public SDK posts it, is answered in JSON and cached by its bytes', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const module = Buffer.from(long('0x1').slice(2), 'hex');
  const body = Buffer.concat([module, text('ledgergate_sample'), text('version'), Buffer.from([0, 0])]);
  const headers = { 'content-type': 'application/x.aptos.view_function+bcs' };

  const miss = await gateway.post('/view?ledger_version=500', body, headers);
  const hit = await gateway.post('/view?ledger_version=500', body, headers);

  assert.deepEqual([miss.status, miss.text], [200, '["500"]']);
  assert.equal(hit.headers['cache-status'], 'ledgergate; hit; detail=memory');
  assert.deepEqual(node.log.received.at(-1)?.body, body);
});

test('the ledger info is read without a trailing slash', async (t) => {
  const { gateway } = await nodeAndGateway(t);

  const reply = await fetchReply(gateway.url, { method: 'GET' });

  assert.equal(reply.status, 200);
  assert.equal((JSON.parse(reply.text) as { ledger_version: string }).ledger_version, '900');
  assert.equal(reply.headers['cache-control'], 'no-store');
});

test('the gateway measures a chunked view body, so that the node receives its Content-Length', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const body = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';
  const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;

  const answer = await exchangeRaw(
    gateway.port,
    `POST /v1/view HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n${chunked}`,
  );

  assert.match(answer, /^HTTP\/1.1 200 /);
  assert.equal(node.log.received.at(-1)?.headers['content-length'], String(body.length));
});
