import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { never, request, senderOf } from '../../support/sender.ts';

const info = { kind: 'head', min: LedgerVersion.of(0n) } as const;

test('views that take too long do not take places from reads, reads that do take some', async (t) => {
  const { sender, upstream } = await senderOf(t, () => undefined, {
    connections: 64,
    limits: { timeoutMs: 20, maxAttempts: 1 },
  });
  const ask = (isView: boolean) =>
    assert.rejects(sender.whole({ ...request('/slow'), need: info, isView }, never), /no node answered/);
  await Promise.all([ask(true), ask(true)]);
  assert.equal(upstream.places.limit, 64);
  await Promise.all([ask(false), ask(false)]);
  assert.ok(upstream.places.limit < 64);
});
