/** compose.yaml without a daemon: its files are there, fit each other, and run as real processes. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { start } from '../commands/command-line.ts';
import { configFile } from '../config/config-file.ts';
import { root } from '../support/dockerfile.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { noPrometheus, prometheusOn } from '../support/prometheus.ts';
import { noRedis, redisServer } from '../support/redis-server.ts';

interface Service {
  readonly image: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly depends_on?: readonly string[];
  readonly command?: readonly string[];
  readonly profiles?: readonly string[];
}

const read = (name: string): string => readFileSync(join(root, name), 'utf8');
const services = (parse(read('compose.yaml')) as { readonly services: Readonly<Record<string, Service>> }).services;
const mounts = Object.values(services).flatMap(({ volumes = [] }) => volumes.map((volume) => volume.split(':')));

/** The file of the checkout at a place in a service. */
function mounted(service: string, place: string): string {
  const source = (services[service]?.volumes ?? []).find((volume) => volume.split(':')[1] === place)?.split(':')[0];
  assert.ok(source !== undefined, `${service} has nothing at ${place}`);
  return source;
}

/** A value of the environment where no variable is set: the default of `${NAME:-default}`. */
const unset = (value: string): string => value.replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1');

test('mounted files exist, ports are published on this machine alone, images have a version', () => {
  // Others are volumes of their own.
  for (const [source = '', , mode] of mounts.filter(([from = '']) => from.startsWith('.'))) {
    assert.ok(statSync(join(root, source)).isFile(), source);
    assert.equal(mode, 'ro');
  }
  const hostPorts = Object.values(services).flatMap(({ ports = [] }) => ports);
  for (const port of hostPorts) assert.match(port, /^127\.0\.0\.1:\d+:\d+$/);
  assert.equal(new Set(hostPorts.map((port) => port.split(':')[1])).size, hostPorts.length);
  for (const { image, depends_on = [] } of Object.values(services)) {
    assert.match(image, /:(?:v?\d+\.\d+|local)/);
    for (const name of depends_on) assert.ok(name in services, name);
  }
});

test('docker compose reads the file', (t) => {
  if (spawnSync('docker', ['compose', 'version']).status !== 0) {
    t.skip('docker compose is not installed');
    return;
  }
  const { status, stderr } = spawnSync('docker', ['compose', '--profile', 'sample', 'config', '--quiet'], {
    cwd: root,
  });
  assert.equal(status, 0, String(stderr));
});

test(
  'the sample nodes, the gateway and Prometheus run on the mounted configs',
  { skip: noRedis || noPrometheus },
  async (t) => {
    const redis = await redisServer(t);
    const nodes = start(t, [...(services['nodes']?.command ?? []), '--host', '127.0.0.1', '--port', '0']);
    const [, full = ''] = await nodes.line(/^sample-full: (\S+)/);
    const [, archival = ''] = await nodes.line(/^sample-archival: (\S+)/);
    const { LEDGERGATE_CONFIG: place = '', ...settings } = services['gateway']?.environment ?? {};
    const config = read(mounted('gateway', place)).replace('redis://redis:6379', redis.url);
    const env: Record<string, string> = {
      ...Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, unset(value)])),
      LEDGERGATE_CONFIG: configFile(t, config),
      LEDGERGATE_PORT: '0',
      LEDGERGATE_OPERATIONS_PORT: String(await freePort()),
    };
    assert.equal(env['LEDGERGATE_UPSTREAM'], 'http://nodes:8080/v1,http://nodes:8081/v1');
    const gateway = start(t, [], { env: { ...env, LEDGERGATE_UPSTREAM: `${full},${archival}` } });
    const [, base = ''] = await gateway.line(/^Clients: +(\S+) /);
    const [, operations = ''] = await gateway.line(/^Operations: +(\S+) \(listening on 0\.0\.0\.0, /);
    const answer = await fetch(`${base}/accounts/0x1/resource/0x1::account::Account?ledger_version=500`);

    let scraped = read(mounted('prometheus', '/etc/prometheus/prometheus.yml'));
    const rules = scraped.match(/\/etc\/prometheus\/[\w-]+\.yaml/g) ?? [];
    for (const rule of rules) scraped = scraped.replace(rule, join(root, mounted('prometheus', rule)));
    scraped = scraped
      .replace('gateway:9090', new URL(operations).host)
      .replace('scrape_interval: 5s', 'scrape_interval: 1s');
    const prometheus = await prometheusOn(t, scraped);
    const up = await prometheus.until('query', { query: 'up{job="ledgergate"} == 1' });
    const redisUp = await prometheus.until('query', { query: 'ledgergate_redis_up == 1' });
    const loaded = await eventually(
      () => prometheus.query('rules', {}) as Promise<{ groups: readonly { file: string }[] }>,
      ({ groups }) => groups.length > 0,
    );

    assert.equal(answer.status, 200);
    assert.deepEqual([up.length, redisUp.length], [1, 1]);
    assert.deepEqual([...new Set(loaded.groups.map(({ file }) => basename(file)))].sort(), [
      'alerts.yaml',
      'recording-rules.yaml',
    ]);
  },
);

test('Grafana finds Prometheus and the dashboard where they are provisioned', () => {
  const provisioned = '/etc/grafana/provisioning';
  const sources = parse(read(mounted('grafana', `${provisioned}/datasources/ledgergate.yaml`)));
  const providers = parse(read(mounted('grafana', `${provisioned}/dashboards/ledgergate.yaml`)));
  const dashboard = mounts.find(([source]) => source?.endsWith('dashboard.json'))?.[1] ?? '';
  const url = new URL(sources.datasources[0].url);

  assert.equal(sources.apiVersion, 1);
  assert.equal(providers.apiVersion, 1);
  assert.equal(sources.datasources[0].type, 'prometheus');
  assert.ok(url.hostname in services);
  assert.equal(url.port, services[url.hostname]?.ports?.[0]?.split(':')[2]);
  assert.equal(providers.providers[0].options.path, dirname(dashboard));
  assert.equal(services['grafana']?.environment?.['GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH'], dashboard);
});
