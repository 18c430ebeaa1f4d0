/** The chart renders under every set of values in `ci/`, and Kubernetes takes what comes of it. */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { call } from '../commands/command-line.ts';
import { fakeNode } from '../support/fake-node.ts';
import { testGateway } from '../support/gateway.ts';
import {
  chartFolder,
  chartWith,
  ciFile,
  container,
  matrix,
  only,
  own,
  refusal,
  release,
  render,
  runHelm,
  withoutHelm,
  type KubernetesObject,
} from '../support/helm.ts';
import { accessConfig, keysFile, testKey } from '../support/keys.ts';
import { assertValid } from '../support/kubernetes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const skip = withoutHelm();

test('helm lint --strict has nothing against the chart', { skip }, () => {
  for (const name of matrix) {
    const { code, out, err } = runHelm(['lint', '--strict', chartFolder, '-f', ciFile(name)]);
    assert.equal(code, 0, `${name}: ${out}${err}`);
    assert.doesNotMatch(out, /\[(WARNING|ERROR)\]/, name);
  }
});

for (const name of matrix) {
  test(`${name} values: every object is valid, belongs to the release, and is there once`, { skip }, async () => {
    const objects = render({ ci: name });

    for (const object of objects) await assertValid(object);
    assert.ok(objects.length >= 4);
    const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    assert.deepEqual(names, [...new Set(names)]);
    for (const { metadata } of objects) assert.equal(metadata.labels['app.kubernetes.io/instance'], release);
  });

  test(`${name} values: the pod has no rights, and no token of the cluster`, { skip }, () => {
    const objects = render({ ci: name });
    const pods = [only(objects, 'Deployment').spec.template.spec, ...objects.filter(isPod).map(({ spec }) => spec)];

    for (const pod of pods) {
      assert.equal(pod.automountServiceAccountToken, false);
      assert.equal(pod.enableServiceLinks, false);
      assert.equal(pod.securityContext.runAsNonRoot, true);
      assert.deepEqual(pod.securityContext.seccompProfile, { type: 'RuntimeDefault' });
      for (const { name: container, securityContext } of pod.containers) {
        if (container === 'beside') continue;
        assert.equal(securityContext.readOnlyRootFilesystem, true);
        assert.equal(securityContext.allowPrivilegeEscalation, false);
        assert.deepEqual(securityContext.capabilities, { drop: ['ALL'] });
      }
    }
  });

  test(
    `${name} values: Services, budgets, policies and monitors select the gateway's pods, and only those`,
    { skip },
    () => {
      const objects = render({ ci: name });
      const labels = only(objects, 'Deployment').spec.template.metadata.labels;
      const selectors = objects.flatMap(({ kind, spec }) => {
        if (kind === 'Service') return [spec.selector];
        if (kind === 'PodDisruptionBudget' || kind === 'Deployment') return [spec.selector.matchLabels];
        return kind === 'NetworkPolicy' ? [spec.podSelector.matchLabels] : [];
      });

      assert.ok(selectors.length >= 3);
      for (const selector of selectors) {
        assert.ok(isSelected(selector, labels));
        for (const pod of objects.filter(isPod)) assert.ok(!isSelected(selector, pod.metadata.labels));
      }
      for (const monitor of objects.filter(({ kind }) => kind === 'ServiceMonitor')) {
        const services = objects.filter(
          ({ kind, metadata }) => kind === 'Service' && isSelected(monitor.spec.selector.matchLabels, metadata.labels),
        );
        assert.deepEqual(
          services.map(({ spec }) => spec.ports[0].name),
          [monitor.spec.endpoints[0].port],
        );
      }
    },
  );

  test(`${name} values: each mounted object exists, and each file of the config is mounted`, { skip }, () => {
    const objects = render({ ci: name });
    const { volumes, containers } = only(objects, 'Deployment').spec.template.spec;
    const [gateway] = containers;
    const mounted = gateway.volumeMounts.map((mount: { name: string }) => mount.name).sort();

    assert.deepEqual(volumes.map((volume: { name: string }) => volume.name).sort(), mounted);
    assert.equal(volumes[0].configMap.name, own(objects, 'ConfigMap').metadata.name);
    assert.deepEqual(gateway.args, ['serve', '--config', '/etc/ledgergate/config/ledgergate.yaml']);
  });
}

function isPod({ kind }: { readonly kind: string }): boolean {
  return kind === 'Pod';
}

function isSelected(selector: Readonly<Record<string, string>>, labels: Readonly<Record<string, string>>): boolean {
  return Object.entries(selector).every(([key, value]) => labels[key] === value);
}

// Rules and dashboard of `files/` reach the cluster as they are.

const all = {
  metrics: { serviceMonitor: { enabled: true }, prometheusRule: { enabled: true }, dashboard: { enabled: true } },
};

interface Group {
  readonly name: string;
  readonly rules: readonly { readonly alert?: string }[];
}

const textOf = (name: string): string => readFileSync(join(chartFolder, 'files', name), 'utf8');

/** The groups of the PrometheusRule with these values. */
function groupsWith(prometheusRule: object): readonly Group[] {
  const metrics = { prometheusRule: { enabled: true, ...prometheusRule } };
  return only(render({ values: { metrics } }), 'PrometheusRule').spec.groups;
}

test(
  'every group of every rule file is in the PrometheusRule word for word, but for the links of alerts',
  { skip },
  async () => {
    for (const object of render({ values: all })) await assertValid(object);
    const names = readdirSync(join(chartFolder, 'files')).filter((name) => name.endsWith('.yaml'));
    const text = JSON.stringify(names.flatMap((name) => parse(textOf(name)).groups));
    const linked = (runbook: string) => JSON.parse(text.replaceAll('"docs/runbook.md#', `"${runbook}#`));
    const runbookUrl = 'https://wiki.example/ledgergate/runbook';
    // Without an address, that of the gateway itself, in the cluster.
    const [, own = ''] = /"(http:[^"#]*)#/.exec(JSON.stringify(groupsWith({}))) ?? [];

    assert.match(own, /^http:\/\/[\w-]+-operations\.[\w-]+\.svc:\d+\/runbook$/);
    assert.deepEqual(groupsWith({}), linked(own));
    assert.deepEqual(groupsWith({ runbookUrl }), linked(runbookUrl));
  },
);

test('the dashboard is in a ConfigMap with the label that Grafana looks for, byte for byte', { skip }, () => {
  const dashboards = render({ values: all }).filter(({ metadata }) => metadata.name.endsWith('-dashboard'));

  assert.deepEqual(
    dashboards.map(({ kind, metadata, data }) => [kind, metadata.labels['grafana_dashboard'], data]),
    [['ConfigMap', '1', { 'ledgergate-dashboard.json': textOf('dashboard.json') }]],
  );
});

const alertsOf = (groups: readonly Group[]) => groups.flatMap(({ rules }) => rules.flatMap(({ alert }) => alert ?? []));

test('alerts can be left out by name, and a name that is none is refused', { skip }, () => {
  const disabledAlerts = ['LedgergateDown', 'LedgergateOutage'];

  assert.deepEqual(
    alertsOf(groupsWith({ disabledAlerts })),
    alertsOf(groupsWith({})).filter((alert) => !disabledAlerts.includes(alert)),
  );
  const values = { metrics: { prometheusRule: { enabled: true, disabledAlerts: ['LedgergateDwn'] } } };
  assert.match(refusal({ values }), /disabledAlerts: there is no alert LedgergateDwn/);
});

test('a rule file that is no rule file is refused', { skip }, (t) => {
  const chart = chartWith(t, { 'alerts.yaml': 'groups: none\n' });

  assert.match(refusal({ chart, values: all }), /files\/alerts.yaml has no list of groups/);
});

test('pods are annotated for a Prometheus without the operator, or watched by one with it, not both', { skip }, () => {
  const { annotations } = only(render({ ci: 'workers' }), 'Deployment').spec.template.metadata;

  assert.equal(annotations['prometheus.io/scrape'], 'true');
  assert.equal(annotations['prometheus.io/port'], '9090');
  assert.match(
    refusal({ values: { metrics: { podAnnotations: true, serviceMonitor: { enabled: true } } } }),
    /scraped twice/,
  );
});

test('the monitor finds the Service of operators, whose port is the one that serves /metrics', { skip }, () => {
  const objects = render({ values: all });
  const operations = objects.find(({ kind, metadata }) => kind === 'Service' && metadata.name.endsWith('-operations'));
  const ports: { name: string; containerPort: number }[] = container(objects).ports;

  assert.equal(operations?.spec.ports[0].targetPort, 'operations');
  assert.equal(ports.find(({ name }) => name === 'operations')?.containerPort, 9090);
  assert.equal(own(objects, 'Service').spec.ports.length, 1);
});

// The chart as it is handed out, and the pod of `helm test` as it runs.

test('helm package makes an archive that renders as the folder does, without the values of tests', { skip }, (t) => {
  const folder = temporaryFolder(t);

  const { code, err } = runHelm(['package', chartFolder, '--destination', folder]);

  assert.equal(code, 0, err);
  const [archive = ''] = readdirSync(folder);
  assert.match(archive, /^ledgergate-\d+\.\d+\.\d+\.tgz$/);
  const files = execFileSync('tar', ['-tzf', join(folder, archive)], { encoding: 'utf8' });
  assert.match(files, /^ledgergate\/live-keys\.yaml$/m);
  assert.doesNotMatch(files, /\/ci\//);
  assert.deepEqual(render({ chart: join(folder, archive), ci: 'full' }), render({ ci: 'full' }));
});

interface Container {
  readonly args: readonly string[];
}

function containers(objects: readonly KubernetesObject[]): readonly [Container, Container] {
  return only(objects, 'Pod').spec.containers;
}

/** The exit code of the client's container, sent to another address. */
function ask({ args }: Container, url: string): Promise<number | null> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, ['-e', args[0] ?? '', url, args[2] ?? ''], () => resolve(child.exitCode));
  });
}

test('the containers of helm test distinguish a ready gateway from one that is not', { skip }, async (t) => {
  const objects = render();
  const [operations, client] = containers(objects);
  const name = own(objects, 'Service').metadata.name;
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [node] });

  assert.deepEqual(operations.args, ['health', `http://${name}-operations:9090`]);
  assert.equal(client.args[1], `http://${name}:80/v1`);
  assert.equal((await call(['health', gateway.operationsUrl])).code, 0);
  assert.equal(await ask(client, gateway.url), 0);
  await gateway.close();
  assert.equal((await call(['health', gateway.operationsUrl])).code, 1);
  assert.equal(await ask(client, gateway.url), 1);
});

test('helm test takes 401 for a sign of life only where keys are asked for', { skip }, async (t) => {
  const [, open] = containers(render());
  const [, closed] = containers(render({ ci: 'access' }));
  const node = await fakeNode(t, {});
  const keys = { file: keysFile(t, [testKey('wallet')]).path, redis: false };
  const gateway = await testGateway(t, { full: [node], access: accessConfig({ keys }) });

  assert.deepEqual([open.args[2], closed.args[2]], ['open', 'closed']);
  assert.deepEqual([await ask(open, gateway.url), await ask(closed, gateway.url)], [1, 0]);
});

// Values that other charts have in the same form.

test('extraObjects are templates, as values and as texts', { skip }, () => {
  const text = 'apiVersion: v1\nkind: Secret\nmetadata: { name: "{{ .Release.Name }}-text" }';
  const value = { apiVersion: 'v1', kind: 'Service', metadata: { name: '{{ include "ledgergate.fullname" . }}-more' } };
  const objects = render({ values: { extraObjects: [text, value] } });
  const named = (kind: string, name: string): boolean =>
    objects.some((object) => object.kind === kind && object.metadata.name === name);

  assert.ok(named('Secret', 'prod-text'));
  assert.ok(named('Service', 'prod-ledgergate-more'));
});

test('global.imageRegistry beats image.registry, in the test pod too', { skip }, () => {
  const image = { registry: 'own.example', repository: 'ledger/gate', tag: '7' };
  const objects = render({ values: { image, global: { imageRegistry: 'mirror.example' } } });
  const tested = (only(objects, 'Pod').spec.containers as readonly { image: string }[]).map((each) => each.image);

  assert.equal(container(render({ values: { image } })).image, 'own.example/ledger/gate:7');
  assert.deepEqual([container(objects).image, ...tested], Array<string>(3).fill('mirror.example/ledger/gate:7'));
});

test('hosts of an ingress are names, or hosts with paths', { skip }, () => {
  const paths = [{ path: '/v1/view', pathType: 'Exact' }, { path: '/v1/accounts' }];
  const ingress = { enabled: true, hosts: ['a.example', { host: 'b.example' }, { host: 'c.example', paths }] };
  const { rules } = only(render({ values: { ingress } }), 'Ingress').spec as {
    readonly rules: readonly { host: string; http: { paths: readonly { path: string; pathType: string }[] } }[];
  };

  assert.deepEqual(
    rules.flatMap(({ host, http }) => http.paths.map(({ path, pathType }) => `${host} ${path} ${pathType}`)),
    ['a.example /v1 Prefix', 'b.example /v1 Prefix', 'c.example /v1/view Exact', 'c.example /v1/accounts Prefix'],
  );
  assert.match(
    refusal({ values: { ingress: { enabled: true, hosts: [{ name: 'a.example' }] } } }),
    /\/ingress\/hosts\/0/,
  );
});

test('every container has bounds for memory and ephemeral storage', { skip }, () => {
  const objects = render();
  const containers = [container(objects), ...only(objects, 'Pod').spec.containers];

  assert.equal(containers.length, 3);
  for (const { resources } of containers) {
    assert.ok(resources.limits.memory !== undefined && resources.limits['ephemeral-storage'] !== undefined);
    assert.ok(resources.requests.cpu !== undefined && resources.requests['ephemeral-storage'] !== undefined);
  }
});

test('the notes name the status page, and each host of the ingress', { skip }, () => {
  const hosts = '--set=ingress.enabled=true,ingress.hosts[0]=a.example,ingress.hosts[1].host=b.example';
  const { code, out, err } = runHelm(['install', 'prod', chartFolder, '--dry-run=client', hosts]);

  assert.equal(code, 0, err);
  const notes = out.slice(out.indexOf('NOTES:'));
  assert.match(notes, /http:\/\/127\.0\.0\.1:9090\/status/);
  assert.match(notes, /^ +a\.example\/v1\n +b\.example\/v1$/m);
});

/** The notes of a release with a plan, and these flags. */
function notesOf(...values: string[]): string {
  const plans = '--set=config.access.anonymous=a,config.access.plans.a.requests=9';
  const { code, out, err } = runHelm(['install', 'prod', chartFolder, '--dry-run=client', plans, ...values]);
  assert.equal(code, 0, err);
  return out.slice(out.indexOf('NOTES:'));
}

test('the notes warn of limits that each pod would count for itself', { skip }, () => {
  assert.match(notesOf(), /WARNING: each pod counts limits and quotas for itself/);
  for (const secret of ['redis', 'accessRedis']) {
    assert.doesNotMatch(notesOf(`--set=secrets.${secret}.existingSecret=r`), /counts limits and quotas for itself/);
  }
});
