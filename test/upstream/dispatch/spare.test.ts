/** Reads in the background wait until nodes have half of their places, and of their allowances, to spare. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { test } from 'node:test';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';
import { never, request, senderOf } from '../../support/sender.ts';

const held = { kind: 'version', version: LedgerVersion.of(900n) } as const;

async function spareOf(...[t, answer, options]: Parameters<typeof senderOf>) {
  const made = await senderOf(t, answer, options);
  const info = ledgerInfo({ version: 900n });
  for (const upstream of made.fleet.upstreams) made.fleet.observe(upstream, info, performance.now());
  return made;
}

test('with half of the places of any node taken, no node has to spare', async (t) => {
  const { sender, upstream } = await spareOf(t, (_, response) => void response.destroy(), { connections: 4, nodes: 2 });
  assert.equal(sender.hasToSpare(held), true);
  for (let place = 0; place < upstream.places.limit / 2; place += 1) upstream.places.enter();
  assert.equal(sender.hasToSpare(held), false);
});

test('an allowance keeps half of its burst for clients', async (t) => {
  const { sender, upstream } = await spareOf(t, (_, response) => void response.destroy(), { connections: 4 });
  const nowMs = performance.now();
  upstream.allowance.change(1_000, nowMs);
  for (let token = 0; token < 400; token += 1) upstream.allowance.spend(nowMs);
  assert.equal(sender.hasToSpare(held), true);
  // A debt of a burst: half of it is back in a second and a half.
  for (let token = 0; token < 2_000; token += 1) upstream.allowance.spend(performance.now());
  assert.equal(sender.hasToSpare(held), false);
});

test('no node has to spare for a version above its head', async (t) => {
  const { sender } = await spareOf(t, (_, response) => void response.destroy(), { connections: 4 });
  assert.equal(sender.hasToSpare({ ...held, version: LedgerVersion.of(901n) }), false);
});

test('while a request waits for a place, no node has to spare', async (t) => {
  const { sender } = await spareOf(t, () => undefined, { connections: 1, limits: { deadlineMs: 200, timeoutMs: 100 } });
  const asked = ['/1', '/2'].map((path) => sender.whole(request(path), never).catch(() => undefined));
  await pause(10);
  assert.equal(sender.waiting, 1);
  assert.equal(sender.hasToSpare(held), false);
  await Promise.all(asked);
});
