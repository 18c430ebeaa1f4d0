/** Number of pods, autoscaler and disruption budget fit together. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { only, own, refusal, render, withoutHelm } from '../support/helm.ts';

const skip = withoutHelm();
const kinds = (values: unknown) => render({ values }).map(({ kind }) => kind);

test('two pods by default, one of which may be away; none is ended before another is ready', { skip }, () => {
  const objects = render();
  const { spec } = only(objects, 'Deployment');

  assert.equal(spec.replicas, 2);
  assert.deepEqual(spec.strategy.rollingUpdate, { maxSurge: 1, maxUnavailable: 0 });
  assert.equal(only(objects, 'PodDisruptionBudget').spec.maxUnavailable, 1);
});

test('with an autoscaler the Deployment has no replica count, and the autoscaler targets it', { skip }, () => {
  const objects = render({ ci: 'full' });
  const { spec } = only(objects, 'HorizontalPodAutoscaler');

  assert.equal(only(objects, 'Deployment').spec.replicas, undefined);
  assert.deepEqual(spec.scaleTargetRef, {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    name: own(objects, 'Service').metadata.name,
  });
  assert.deepEqual(
    spec.metrics.map((metric: { type: string }) => metric.type),
    ['ContainerResource', 'Pods'],
  );
});

test('one pod has no disruption budget: it would allow all or block the drain of its machine', { skip }, () => {
  assert.ok(kinds({}).includes('PodDisruptionBudget'));
  assert.ok(!kinds({ replicaCount: 1 }).includes('PodDisruptionBudget'));
  const autoscaling = { enabled: true, minReplicas: 2 };
  assert.ok(kinds({ replicaCount: 1, autoscaling }).includes('PodDisruptionBudget'));
});

const refused: Readonly<Record<string, readonly [unknown, RegExp]>> = {
  'a budget that lets no pod go': [{ podDisruptionBudget: { minAvailable: 2 } }, /none could ever be moved/],
  'a budget of all': [{ podDisruptionBudget: { minAvailable: '100%' } }, /none could ever be moved/],
  'a budget of none': [{ podDisruptionBudget: { maxUnavailable: 0 } }, /no pod could ever be moved/],
  'a budget above the least of the autoscaler': [
    { replicaCount: 9, podDisruptionBudget: { minAvailable: 3 }, autoscaling: { enabled: true, minReplicas: 3 } },
    /minAvailable is 3 of at least 3 pods/,
  ],
  'an autoscaler with more than the most': [
    { autoscaling: { enabled: true, minReplicas: 5, maxReplicas: 4 } },
    /maxReplicas \(4\) is less than autoscaling.minReplicas \(5\)/,
  ],
  'an autoscaler with nothing to go by': [{ autoscaling: { enabled: true, cpuUtilization: 0 } }, /nothing to go by/],
  'utilisation of nothing': [
    { autoscaling: { enabled: true }, resources: { requests: { cpu: null } } },
    /relative to resources.requests.cpu, which is not set/,
  ],
};

for (const [what, [values, message]] of Object.entries(refused)) {
  test(`${what} is refused`, { skip }, () => {
    assert.match(refusal({ values }), message);
  });
}

test('pods are spread over zones and machines, those of one revision among themselves', { skip }, () => {
  const { template, selector } = only(render(), 'Deployment').spec;
  const constraints: { topologyKey: string; matchLabelKeys: string[]; labelSelector: unknown }[] =
    template.spec.topologySpreadConstraints;

  assert.deepEqual(
    constraints.map(({ topologyKey }) => topologyKey),
    ['topology.kubernetes.io/zone', 'kubernetes.io/hostname'],
  );
  for (const { labelSelector, matchLabelKeys } of constraints) {
    assert.deepEqual(labelSelector, selector);
    assert.deepEqual(matchLabelKeys, ['pod-template-hash']);
  }
});
