/** The nodes of a fleet across reloads: one that cannot be applied changes none of them. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Registry } from 'prom-client';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/source/load.ts';
import { createSettings } from '../../src/gateway/settings.ts';
import { Journal } from '../../src/metrics/journal.ts';
import { Renewals } from '../../src/metrics/renewals.ts';
import { createFleet, type FleetDeps } from '../../src/upstream/fleet.ts';
import { fakeNode } from '../support/fake-node.ts';
import { authority } from '../support/tls.ts';

const nothing = (): void => undefined;

/** A fleet of nodes a and b, which has begun; `of` is the config of one of them with changes. */
async function started(t: TestContext) {
  const nodes = [await fakeNode(t), await fakeNode(t)] as const;
  const upstreams = nodes.map(({ url }, index) => ({ name: index === 0 ? 'a' : 'b', url }));
  const { config } = loadConfig({ preset: [{ path: ['upstreams'], value: upstreams, origin: 'test' }] });
  const registry = new Registry();
  const log = { debug: nothing, info: nothing, warn: nothing, error: nothing } as unknown as FleetDeps['log'];
  const journal = new Journal(log);
  const deps = { log, journal, registry, renewals: new Renewals(registry, journal), processes: 1, ownLag: () => 0 };
  const events = {
    publish: nothing,
    onGeneration: nothing,
    onRollback: nothing,
    onConfirmed: nothing,
    onFork: nothing,
  };
  const fleet = await createFleet(config, { ...deps, ...events, settings: createSettings(config, 1_000) });
  t.after(async () => {
    fleet.stop();
    await fleet.close();
  });
  await fleet.start();
  const of = (index: number, changes: object): Config['upstreams'][number] => {
    const upstream = config.upstreams[index];
    assert.ok(upstream !== undefined);
    return { ...upstream, ...changes };
  };
  return { fleet, nodes, of, registry };
}

const missing = { tls: { ca: '/no/such/file.pem' } };

test('a reload whose files of one node cannot be used leaves headers and weights of the others', async (t) => {
  const { fleet, nodes, of } = await started(t);
  const [a] = fleet.upstreams;

  const refused = fleet.follow({ upstreams: [of(0, { headers: { 'x-key': 'refused' }, weight: 7 }), of(1, missing)] });
  await assert.rejects(refused, /cannot read/);
  await fleet.follow({ upstreams: [of(0, { headers: { 'x-key': 'taken' } }), of(1, {})] });

  const keys = nodes[0].log.received.map(({ headers }) => headers['x-key']);
  assert.deepEqual([new Set(keys), a?.headers, a?.weight], [new Set([undefined, 'taken']), { 'x-key': 'taken' }, 1]);
});

test('a reload whose files of a new node cannot be used leaves nothing of another new one', async (t) => {
  const { fleet, of, registry } = await started(t);
  const { file } = authority(t);
  const added = [of(0, { name: 'c', tls: { ca: file } }), of(0, { name: 'd', ...missing })];

  await assert.rejects(fleet.follow({ upstreams: [of(0, {}), of(1, {}), ...added] }), /cannot read/);

  assert.deepEqual(
    fleet.upstreams.map(({ name }) => name),
    ['a', 'b'],
  );
  const pending = await registry.getSingleMetric('ledgergate_renewal_pending')?.get();
  assert.deepEqual(pending?.values, []);
});

test('the expiry of certificates is that of the files in force, after refused reloads as well', async (t) => {
  const { fleet, nodes, of, registry } = await started(t);
  const { file } = authority(t);
  const expiries = async (): Promise<readonly unknown[]> => {
    const expiry = await registry.getSingleMetric('ledgergate_client_certificate_expiry_timestamp_seconds')?.get();
    return expiry?.values.map(({ labels }) => labels['toward']) ?? [];
  };
  const url = nodes[1].url.replace('127.0.0.1', 'localhost');

  const changed = { upstreams: [of(0, { tls: { ca: file } }), of(1, missing)] };
  await assert.rejects(fleet.follow(changed), /cannot read/);
  assert.deepEqual(await expiries(), [], 'changed files of a node');
  const moved = { upstreams: [of(0, {}), of(1, { url, tls: { ca: file } }), of(0, { name: 'c', ...missing })] };
  await assert.rejects(fleet.follow(moved), /cannot read/);
  assert.deepEqual(await expiries(), [], 'files of a node in the place of another');

  await fleet.follow({ upstreams: [of(0, {}), of(1, { tls: { ca: file } })] });
  assert.deepEqual(await expiries(), ['b']);
  await fleet.follow({ upstreams: [of(0, {}), of(1, { url })] });
  assert.deepEqual(await expiries(), [], 'a node without files in the place of another');
});
