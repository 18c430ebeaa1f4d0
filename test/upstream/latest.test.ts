/** The shared version when the ledger goes back. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dialectOf } from '../../src/ledger/ledger-headers.ts';
import { ledgerVersion } from '../../src/ledger/version.ts';
import { Fleet } from '../../src/upstream/fleet.ts';
import { Floor } from '../../src/upstream/floor.ts';
import { ShownAlone } from '../../src/upstream/shown.ts';
import { Latest } from '../../src/upstream/latest.ts';
import { Sender } from '../../src/upstream/sender.ts';
import { Upstream } from '../../src/upstream/upstream.ts';
import { Registry } from 'prom-client';
import { fakeNode } from '../support/fake-node.ts';
import { senderMetrics } from '../support/sender.ts';
import { quietEvents } from '../support/fleet-events.ts';
import { ledgerInfo } from '../support/ledger-info.ts';

test('after a rollback the version given to clients before holds nobody up', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const upstream = new Upstream({
    name: 'n',
    url: new URL(node.url),
    tier: 'full',
    connections: 8,
    connectTimeoutMs: 1_000,
  });
  t.after(() => upstream.close());
  const fleet = new Fleet([upstream], dialectOf('node'), quietEvents);
  const metrics = senderMetrics(new Registry());
  const limits = { timeoutMs: 2_000, deadlineMs: 4_000, maxAttempts: 3, waitForVersionMs: 20, stallMs: 1_000 };
  const log = { debug: () => undefined, tell: () => undefined };
  const sender = new Sender({ fleet, limits, metrics, log, onDoubt: () => undefined });
  const shown = new ShownAlone(fleet);
  const floor = new Floor(fleet, { onServed: () => undefined, onUnreached: () => undefined }, shown);
  const latest = new Latest({ fleet, sender, floor, shown }, { maxStalenessMs: 0, waitForVersionMs: 20 });
  t.after(() => latest.close());
  const never = new AbortController().signal;
  const demand = { maxStalenessMs: 0, min: undefined };
  assert.equal((await latest.reach(demand, never)).info.version, 900n);

  node.clock.head = 500n;
  const rolledBack = ledgerInfo({ version: 500n, chainId: upstream.chainId ?? 0 });
  fleet.observe(upstream, rolledBack, performance.now());
  await assert.rejects(latest.reach(demand, never));
  const laterMs = performance.now() + 10_000;
  fleet.observe(upstream, rolledBack, laterMs, laterMs);

  assert.equal(floor.above(undefined), undefined);
  assert.equal((await latest.reach(demand, never)).info.version, 500n);
  // An answer that was under way since before tells of a ledger that is no more.
  floor.recordServed(ledgerVersion(900n));
  assert.equal(floor.above(undefined), 500n);
});
