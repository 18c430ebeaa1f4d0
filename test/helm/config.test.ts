/** The gateway accepts the chart's config, and no secret is in it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { parse } from 'yaml';
import { generatedFiles } from '../../scripts/generate-chart.ts';
import { liveKeys } from '../../src/config/changes.ts';
import { findHostRefusal } from '../../src/proxy/operations/operations-access.ts';
import { loadText } from '../config/config-file.ts';
import {
  chartFolder,
  ciFile,
  container,
  matrix,
  only,
  own,
  refusal,
  render,
  withoutHelm,
  type KubernetesObject,
} from '../support/helm.ts';

const skip = withoutHelm();
const upstreams = [{ name: 'a', url: 'http://10.0.0.1/v1' }];

/** The effective config of a pod, with a value in each of its variables and files; files that are not mounted are absent. */
function load(t: TestContext, objects: readonly KubernetesObject[]) {
  const names: { name: string; valueFrom?: unknown }[] = container(objects).env ?? [];
  const env = Object.fromEntries(names.map(({ name }) => [name, 'a'.repeat(20)]));
  const { files, folders } = mounted(objects);
  const readSecret = (file: string): string => {
    assert.ok(files.includes(file) || folders.some((folder) => file.startsWith(`${folder}/`)), file);
    return urls[file] ?? 'a'.repeat(20);
  };
  return loadText(t, textOf(objects), { env, readSecret });
}

const urls: Readonly<Record<string, string>> = {
  '/etc/ledgergate/redis/url': 'redis://r:1',
  '/etc/ledgergate/access-redis/url': 'redis://c:1',
};

/** Files of mounted Secrets, and folders of Secrets whose keys are all files. */
function mounted(objects: readonly KubernetesObject[]) {
  const mounts: { name: string; mountPath: string }[] = container(objects).volumeMounts;
  const volumes: { name: string; secret?: { items?: { path: string }[] } }[] = only(objects, 'Deployment').spec.template
    .spec.volumes;
  const secrets = mounts.flatMap(({ name, mountPath }) => {
    const secret = volumes.find((volume) => volume.name === name)?.secret;
    return secret === undefined ? [] : [{ mountPath, items: secret.items }];
  });
  return {
    files: secrets.flatMap(({ mountPath, items = [] }) => items.map(({ path }) => `${mountPath}/${path}`)),
    folders: secrets.flatMap(({ mountPath, items }) => (items === undefined ? [mountPath] : [])),
  };
}

function textOf(objects: readonly KubernetesObject[]): string {
  return own(objects, 'ConfigMap').data?.['ledgergate.yaml'] ?? '';
}

for (const name of matrix) {
  test(`${name} values: the gateway takes the config, key by key as it was given`, { skip }, (t) => {
    const objects = render({ ci: name });

    const { config, warnings } = load(t, objects);

    const given = parse(readFileSync(ciFile(name), 'utf8')).config ?? {};
    const written = parse(textOf(objects));
    assert.deepEqual(warnings, []);
    assert.partialDeepStrictEqual(written, given);
    const ports = container(objects).ports.map((port: { containerPort: number }) => port.containerPort);
    assert.deepEqual(ports, [config.listen.port, config.operations.port]);
  });
}

test('secrets become files, at the places that the config names', { skip }, (t) => {
  const objects = render({ ci: 'full' });
  const { config, redacted } = load(t, objects);

  const inConfig = [config.access?.keys.file, config.listen.tls?.cert, config.listen.tls?.key];
  const references = [redacted.operations.token, redacted.cache.redis?.url].map((text) => text?.slice(7, -1));
  assert.deepEqual(new Set(mounted(objects).files), new Set([...inConfig, ...references]));
  assert.equal(config.operations.token, 'a'.repeat(20));
  assert.deepEqual(config.cache.redis?.target, { kind: 'single', url: 'redis://r:1' });
  assert.equal(config.upstreams[0]?.headers?.['authorization'], `Bearer ${'a'.repeat(20)}`);
});

test('a provider has its counters, credentials and authorities from mounted Secrets', { skip }, (t) => {
  const objects = render({ ci: 'provider' });
  const { config } = load(t, objects);
  const { folders } = mounted(objects);

  assert.deepEqual(config.access?.redis?.target, { kind: 'single', url: 'redis://c:1' });
  assert.equal(config.access?.redis?.timeoutMs, 100);
  assert.deepEqual(config.cache.redis?.target, { kind: 'single', url: 'redis://r:1' });
  assert.deepEqual(folders, ['/etc/ledgergate/secrets/node-a', '/etc/ledgergate/secrets/issuer']);
  assert.equal(config.upstreams[0]?.tls?.ca, `${folders[0]}/ca.crt`);
  assert.deepEqual(config.access?.jwt?.jwks, { file: `${folders[1]}/jwks.json` });
  assert.ok(!container(objects).env.some(({ valueFrom }: { valueFrom?: unknown }) => valueFrom !== undefined));
});

test('a file of a Secret stands for any text, also where the schema has a form', { skip }, (t) => {
  const url = '${file:/etc/ledgergate/secrets/cache/url}';
  const read: string[] = [];
  const objects = render({
    values: { config: { upstreams, cache: { redis: { url } } }, secrets: { files: ['cache'] } },
  });
  const readSecret = (file: string): string => {
    read.push(file);
    return 'redis://s:1';
  };

  assert.deepEqual(loadText(t, textOf(objects), { readSecret }).config.cache.redis?.target, {
    kind: 'single',
    url: 'redis://s:1',
  });
  assert.deepEqual(read, ['/etc/ledgergate/secrets/cache/url']);
});

test('the operations port answers for its Service by every name, and for those of the values', { skip }, (t) => {
  const operations = { host: '0.0.0.0', hosts: ['*.svc.prod.example'] };
  const objects = render({ values: { config: { upstreams, operations } } });
  const { config } = load(t, objects);
  const services = objects.filter(({ metadata }) => metadata.name.endsWith('-operations'));
  const { name, namespace } = only(services, 'Service').metadata;
  const statusOf = (host: string) =>
    findHostRefusal(config.operations, { headers: { host }, url: '/metrics', httpVersion: '1.1' })?.status;

  const ours = ['', `.${namespace}`, `.${namespace}.svc`, `.${namespace}.svc.cluster.local`];
  for (const suffix of [...ours, `.${namespace}.svc.prod.example`]) {
    assert.equal(statusOf(`${name}${suffix}:9090`), undefined, suffix);
  }
  assert.equal(statusOf(`other.${namespace}`), 421);
});

test('large numbers and words that look like numbers stay what they are', { skip }, (t) => {
  const access = { plans: { paid: { requests: 1_000_000_000, cost: 12_345_678 } } };
  const secrets = { accessKeys: { existingSecret: 'keys' } };
  const config = { upstreams, cache: { redis: { url: 'redis://a:1', keyPrefix: '0123' } }, access };

  const loaded = load(t, render({ values: { config, secrets } })).config;

  assert.equal(loaded.access?.plans['paid']?.requests, 1_000_000_000);
  assert.equal(loaded.access?.plans['paid']?.cost, 12_345_678);
  assert.equal(loaded.cache.redis?.keyPrefix, '0123');
});

const refused: Readonly<Record<string, readonly [unknown, RegExp]>> = {
  'a token': [{ config: { operations: { token: 'abcdefghijklmnopq' } } }, /use secrets.operationsToken.existingSecret/],
  'a password of Redis': [
    { config: { cache: { redis: { url: 'redis://:pw@r:1' } } } },
    /use secrets.redis.existingSecret/,
  ],
  'a password of a sentinel': [
    { config: { cache: { redis: { sentinel: { name: 'p', nodes: ['redis://u:pw@r:1'] } } } } },
    /use secrets.redis.existingSecret/,
  ],
  'a credential of a node': [
    { config: { upstreams: [{ name: 'a', url: 'http://a/v1', headers: { Authorization: 'Bearer abc' } }] } },
    /config.upstreams, a: the header Authorization is a credential/,
  ],
  'a password of the Redis of limits': [
    { config: { access: { redis: { url: 'redis://:pw@r:1' }, anonymous: 'a', plans: { a: {} } } } },
    /use secrets.accessRedis.existingSecret/,
  ],
  'a credential of the collector': [
    { config: { tracing: { endpoint: 'http://c:1', headers: { 'X-Key': 'abc' } } } },
    /the header X-Key is a credential/,
  ],
  'two addresses of the Redis of limits': [
    {
      config: { access: { redis: { url: 'redis://r:1' }, anonymous: 'a', plans: { a: {} } } },
      secrets: { accessRedis: { existingSecret: 'r' } },
    },
    /Redis is given twice: by config.access.redis/,
  ],
  'a Redis of limits without plans': [
    { secrets: { accessRedis: { existingSecret: 'r' } } },
    /accessRedis.existingSecret is of keys, and config.access says nothing/,
  ],
  'two addresses of Redis': [
    { config: { cache: { redis: { url: 'redis://r:1' } } }, secrets: { redis: { existingSecret: 'r' } } },
    /Redis is given twice/,
  ],
  'keys without plans': [{ secrets: { accessKeys: { existingSecret: 'k' } } }, /says nothing of their plans/],
  'an unreachable operations port': [{ config: { operations: { host: '127.0.0.1' } } }, /operations.host is loopback/],
  'an unreachable clients port': [{ config: { listen: { host: 'localhost' } } }, /listen.host is loopback/],
  'one port twice': [{ config: { listen: { port: 9090 } } }, /listen.port and config.operations.port are both 9090/],
  'any port': [{ config: { listen: { port: 0 } } }, /config.listen.port is 0/],
  'a port from a variable': [{ config: { listen: { port: '${PORT}' } } }, /has to know the number/],
  'a network policy that lets the gateway reach no node': [
    { networkPolicy: { egress: { enabled: true } } },
    /egress.rules is empty: the gateway could reach no node/,
  ],
  'a variable twice': [
    { extraEnv: [{ name: 'A', value: '1' }], secrets: { env: [{ name: 'A', secret: 's', key: 'k' }] } },
    /the variable A is set twice/,
  ],
  'Node options beside the chart': [
    { extraEnv: [{ name: 'NODE_OPTIONS', value: '--x' }] },
    /put yours into nodeOptions/,
  ],
};

for (const [what, [values, message]] of Object.entries(refused)) {
  test(`${what} is refused, with what to do`, { skip }, () => {
    assert.match(refusal({ values }), message);
  });
}

/** Changes whenever pods are replaced. */
function checksum(configChange: string, config: object): string | undefined {
  const objects = render({ values: { configChange, config: { upstreams, ...config } } });
  return only(objects, 'Deployment').spec.template.metadata.annotations?.['checksum/config'];
}

test('a change of config replaces pods always, where it has to be, or never', { skip }, () => {
  const before = { latest: { maxStaleness: '1s' }, log: { level: 'info' } };
  const live = { latest: { maxStaleness: '2s' }, log: { level: 'warn' } };
  const restart = { ...before, encode: { signingDomain: 'OTHER' } };

  assert.notEqual(checksum('always', before), checksum('always', live));
  assert.equal(checksum('whenNeeded', before), checksum('whenNeeded', live));
  assert.notEqual(checksum('whenNeeded', before), checksum('whenNeeded', restart));
  // That there is an access section at all takes a restart, what stands in it does not.
  const plans = (requests: number) => ({ ...before, access: { anonymous: 'a', plans: { a: { requests } } } });
  assert.notEqual(checksum('whenNeeded', before), checksum('whenNeeded', plans(1)));
  assert.equal(checksum('whenNeeded', plans(1)), checksum('whenNeeded', plans(2)));
  assert.equal(checksum('never', before), undefined);
});

test('the keys that need no new pod are those that the gateway takes over while it runs', { skip }, () => {
  const listed = parse(readFileSync(new URL('../../helm/ledgergate/live-keys.yaml', import.meta.url), 'utf8'));

  assert.deepEqual(listed, liveKeys);
});

// Values of another form are refused with a helpful message, and generated files match their sources.

const readOfChart = (file: string): string => readFileSync(join(chartFolder, file), 'utf8');

for (const [file, write] of Object.entries(generatedFiles)) {
  test(`helm/ledgergate/${file} is current (npm run generate)`, () => {
    assert.equal(readOfChart(file), write());
  });
}

test("the chart's versions are the package's", () => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  const chart = parse(readOfChart('Chart.yaml'));

  assert.deepEqual([chart.version, chart.appVersion], [version, version]);
});

const wrong: Readonly<Record<string, readonly [unknown, string]>> = {
  'a number that is a word': [{ replicaCount: 'two' }, "at '/replicaCount': got string, want integer"],
  'a switch that is a word': [{ ingress: { enabled: 'yes' } }, "at '/ingress/enabled': got string, want boolean"],
  'a list that is a word': [{ ingress: { hosts: 'a.example' } }, "at '/ingress/hosts': got string, want array"],
  'an unknown value': [{ replicas: 3 }, "additional properties 'replicas' not allowed"],
  'an unknown value further down': [{ image: { tagg: '1' } }, "at '/image': additional properties 'tagg' not allowed"],
  'a word that is none of those': [{ configChange: 'sometimes' }, "at '/configChange': value must be one of 'always'"],
  'memory without a unit that there is': [
    { resources: { limits: { memory: '2GB' } } },
    "at '/resources/limits/memory': '2GB' does not match pattern",
  ],
  'an unknown key of the config': [
    { config: { upstream: { timout: '5s' } } },
    "at '/config/upstream': additional properties 'timout' not allowed",
  ],
  'a time without a unit': [
    { config: { upstream: { timeout: 5 } } },
    "at '/config/upstream/timeout': got number, want string",
  ],
  'a node without an address': [
    { config: { upstreams: [{ name: 'a' }] } },
    "at '/config/upstreams/0': missing property 'url'",
  ],
  'no nodes': [{ config: { upstreams: [] } }, "at '/config/upstreams': minItems"],
};

for (const [what, [values, message]] of Object.entries(wrong)) {
  test(`${what} is refused, and the place is named`, { skip }, () => {
    const said = refusal({ values });

    assert.ok(said.includes(message), said);
  });
}

// Values in the documents render, and figures in the documents are the chart's.

const readDocument = (name: string): string => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
const guide = readDocument('docs/kubernetes.md');

for (const name of ['docs/kubernetes.md', 'helm/ledgergate/README.md']) {
  test(`the values in ${name} are values of the chart`, { skip }, () => {
    const blocks = [...readDocument(name).matchAll(/^```yaml\n([^]*?)^```$/gm)].map(([, text = '']) => text);

    assert.ok(blocks.length > 0);
    for (const text of blocks) assert.ok(render({ values: parse(text) }).length > 5);
  });
}

function graceOf(values: unknown): number {
  return only(render({ values }), 'Deployment').spec.template.spec.terminationGracePeriodSeconds;
}

test('the sums in docs/kubernetes.md are those of the chart', { skip }, () => {
  const workers = { config: { workers: 2 }, resources: { limits: { memory: '8Gi' } } };
  const [, least] = /at least (\d+)Mi/.exec(refusal({ values: { resources: { limits: { memory: '1Gi' } } } })) ?? [];
  const [, heap] = /=(\d+)$/.exec(container(render()).env[0].value) ?? [];

  assert.ok(guide.includes(`| **least limit** | **${least}** | |`), least);
  assert.ok(guide.includes(`(\`--max-old-space-size\`) | ${heap} | what is left |`), heap);
  assert.ok(guide.includes(`| ${graceOf({})}, with workers ${graceOf(workers)} | the sum`));
  assert.ok(guide.includes(`the limit has to be ${Math.floor((10_000 * (125 - 35) * 1000) / 2 ** 20)} higher`));
});
