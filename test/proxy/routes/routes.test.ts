// Routes keep no text of the bytes that a request came with, and answer the ledger info at once.
import assert from 'node:assert/strict';
import process from 'node:process';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { HeaderBlocks, readHead } from '../../../src/proxy/http/fast-path/request-head.ts';
import { ownCopy } from '../../../src/proxy/http/target-cache.ts';
import { Routes } from '../../../src/proxy/routes/routes.ts';
import type { Exchange } from '../../../src/proxy/http/exchange.ts';
import type { ReadResult } from '../../../src/proxy/reads/read.ts';
import type { Reads } from '../../../src/proxy/reads/reads.ts';
import { heldBytes } from '../../support/heap.ts';

const json = 'Host: a\r\nContent-Type: application/json\r\n';
const item = '{"key_type":"u64","value_type":"u64","key":"5"}';

function post(target: string, body: string): string {
  return `POST ${target} HTTP/1.1\r\n${json}Content-Length: ${body.length}\r\n\r\n${body}`;
}

const rows: Readonly<Record<string, (index: number) => string>> = {
  'a table item': (index) => post(`/v1/tables/0x1${index.toString(16).padStart(63, '0')}/item`, item),
  'a view': (index) =>
    post('/v1/view', `{"function":"0x1::ledgergate_sample::f${index}","type_arguments":[],"arguments":[]}`),
  'a view that is sent byte for byte': (index) =>
    post('/v1/view', `{"function":"0x1::m::f${index}","type_arguments":[],"arguments":[{"a":1,"a":1}]}`),
  'a view above 8 kB': (index) =>
    post('/v1/view', `{"function":"0x1::m::f${index}","type_arguments":[],"arguments":["${'a'.repeat(8_192)}"]}`),
  'a resource under a plain type': (index) =>
    `GET /v1/accounts/0x1/resource/0x1::ledgergate_sample::T${index} HTTP/1.1\r\n${json}\r\n`,
  'an account': (index) => `GET /v1/accounts/0x1${index.toString(16).padStart(63, '0')} HTTP/1.1\r\n${json}\r\n`,
};

function routesOver(reads: Reads): Routes {
  const settings = { encode: { enabled: false, share: 0 } };
  return new Routes({ reads, settings, basePath: '/v1', registry: new Registry() } as never);
}

for (const [what, requestOf] of Object.entries(rows)) {
  test(`${what} in 60 kB of pipelined requests keeps below 4 kB`, async () => {
    let answered = 0;
    const result = { entry: {} } as ReadResult;
    const reads = {
      reader: { locate: () => undefined, isLarge: () => false, find: () => result },
      freshness: { findRead: () => result },
    } as unknown as Reads;
    const routes = routesOver(reads);
    const blocks = new HeaderBlocks();
    const count = 300;
    const send = async (index: number): Promise<void> => {
      const chunk = Buffer.from(requestOf(index).padEnd(60_000, 'GET /v1 HTTP/1.1\r\n'));
      const head = readHead(chunk.toString('latin1'), 0, blocks);
      assert.ok(head !== undefined);
      const { method, bodyFrom, end } = head;
      // As the fast path matches a new target.
      const target = ownCopy(head.target);
      const exchange = {
        request: { headers: { 'content-type': 'application/json' } },
        isWhole: true,
        isRestricted: false,
        requireFunction: () => undefined,
        answerRead: () => void (answered += 1),
      } as unknown as Exchange;
      await routes.serve(exchange, routes.match(method, target), chunk.subarray(bodyFrom, end));
    };
    // Compiled code of the first requests is no text of theirs.
    for (let index = 0; index < count; index += 1) await send(index);
    const before = [heldBytes(), process.memoryUsage().arrayBuffers];
    for (let index = count; index < 2 * count; index += 1) await send(index);

    const after = [heldBytes(), process.memoryUsage().arrayBuffers];
    const [heap = 0, buffers = 0] = after.map((bytes, at) => (bytes - (before[at] ?? 0)) / count);
    assert.ok(heap < 4_096, `${Math.round(heap)} bytes`);
    // The collector frees buffers late; a slice of the received bytes would keep 60 kB of each request.
    assert.ok(buffers < 30_000, `${Math.round(buffers)} bytes of buffers`);
    assert.equal(answered, 2 * count);
    assert.equal(routes.targets.find('/', 'json'), undefined);
  });
}

test('a shared state answers the ledger info without a wait: no timer, no listener', () => {
  const info = { body: Buffer.from('{}'), version: 900n };
  const routes = routesOver({ reader: {}, freshness: { findLedgerInfo: () => info } } as unknown as Reads);
  let answered: unknown;
  const exchange = {
    request: { headers: {} },
    get signal() {
      return assert.fail('the exchange waits');
    },
    answerInfo: (found: unknown) => void (answered = found),
  } as unknown as Exchange;

  void routes.serve(exchange, routes.match('GET', '/v1'), undefined);

  assert.equal(answered, info);
});
