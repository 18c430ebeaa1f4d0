/** Looks of the prober at the heads of nodes. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Prober } from '../../../src/upstream/node/probe.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { senderOf } from '../../support/sender.ts';

const noLog = { debug: () => undefined, record: () => undefined };

/** A node whose head the test moves while it answers, and its prober. */
async function probed(t: TestContext) {
  const ledger = { version: 900n, looks: 0, isHanging: false };
  const { fleet, upstream } = await senderOf(
    t,
    (_request, response) => {
      ledger.looks += 1;
      if (ledger.isHanging) return;
      const headers = { ...ledgerHeaders(ledger), 'content-type': 'application/json', 'content-length': 2 };
      response.writeHead(200, headers).end('{}');
    },
    { connections: 4 },
  );
  const prober = new Prober(fleet, { intervalMs: 3_600_000, timeoutMs: 5_000 }, noLog);
  t.after(() => prober.close());
  await prober.look(upstream);
  return { ledger, upstream, prober };
}

test('a node that failed a look of the latest state provides the newest state once it answers a probe', async (t) => {
  const { upstream, prober } = await probed(t);
  upstream.newest.fail('look', performance.now(), performance.now());
  const before = upstream.providesNewest;

  await prober.look(upstream);

  assert.deepEqual([before, upstream.providesNewest], [false, true]);
});

test('heads are compared anew by looks that begin after the call, which callers share', async (t) => {
  const { ledger, upstream, prober } = await probed(t);
  // Its node reports 900 to the look in flight.
  const inFlight = prober.look(upstream);
  await new Promise((resolve) => setImmediate(resolve));
  ledger.version = 950n;
  await Promise.all([inFlight, prober.compareAnew(), prober.compareAnew()]);
  assert.equal(upstream.head, 950n);

  const looks = ledger.looks;
  const startedMs = performance.now();
  for (let round = 0; round < 5; round += 1) await prober.compareAnew();
  assert.equal(ledger.looks, looks + 5);
  assert.ok(performance.now() - startedMs >= 5 * 45);
});

test('a comparison that has not begun its looks serves further callers: they wait for no second one', async (t) => {
  const { ledger, prober } = await probed(t);
  await prober.compareAnew();
  const looks = ledger.looks;
  const first = prober.compareAnew();
  await new Promise((resolve) => setTimeout(resolve, 5));
  await Promise.all([first, prober.compareAnew()]);
  assert.equal(ledger.looks, looks + 1);
});

test('a node that hangs delays a comparison of heads by 100 ms, not by its time-out', async (t) => {
  const { ledger, prober } = await probed(t);
  ledger.isHanging = true;
  const startedMs = performance.now();
  await prober.compareAnew();
  assert.ok(performance.now() - startedMs < 3_000);
});
