/** The chart renders under every set of values in `ci/`, and Kubernetes takes what comes of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chartFolder, ciFile, matrix, only, own, release, render, runHelm, withoutHelm } from '../support/helm.ts';
import { assertValid } from '../support/kubernetes.ts';

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
