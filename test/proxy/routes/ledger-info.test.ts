import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import type { Exchange } from '../../../src/proxy/http/exchange.ts';
import type { Reads } from '../../../src/proxy/reads/reads.ts';
import { Routes } from '../../../src/proxy/routes/routes.ts';

test('a shared state answers the ledger info without a wait: no timer, no listener', () => {
  const info = { body: Buffer.from('{}'), version: 900n };
  const reads = { reader: {}, freshness: { findLedgerInfo: () => info } } as unknown as Reads;
  const settings = { encode: { enabled: false, share: 0 } };
  const routes = new Routes({ reads, settings, basePath: '/v1', registry: new Registry() } as never);
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
