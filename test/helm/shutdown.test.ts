/** A pod is given the time that the gateway takes to end, whatever it is set to. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drainDelayMs } from '../../src/commands/run-gateway.ts';
import { drainMs } from '../../src/gateway/serving.ts';
import { slackMs } from '../../src/workers/workers.ts';
import { exitMs } from '../../src/workers/worker-pool.ts';
import { container, matrix, only, refusal, render, withoutHelm } from '../support/helm.ts';

const skip = withoutHelm();
const alone = (drainDelayMs + drainMs) / 1000;
const withWorkers = (drainDelayMs + drainMs + slackMs + exitMs) / 1000;

function graceOf(values: unknown, ci?: string): number {
  return only(render({ values, ci }), 'Deployment').spec.template.spec.terminationGracePeriodSeconds;
}

test('the grace is preStop, the drain, and 3 s; with workers the primary waits for longer', { skip }, () => {
  const workers = { workers: 2, cache: { memory: { maxBytes: '64MiB' } }, listen: { maxConnections: 1000 } };
  const resources = { limits: { memory: '4Gi' } };

  assert.equal(graceOf({}), 5 + alone + 3);
  assert.equal(graceOf({ shutdown: { preStopSeconds: 0 } }), alone + 3);
  assert.equal(graceOf({ config: workers, resources }), 5 + withWorkers + 3);
});

function shutdown(terminationGracePeriodSeconds: number) {
  return { shutdown: { preStopSeconds: 7, terminationGracePeriodSeconds } };
}

test('a grace that would cut answers off is refused, to the second', { skip }, () => {
  assert.match(refusal({ values: shutdown(7 + alone - 1) }), new RegExp(`at least ${7 + alone}$`));
  assert.equal(graceOf(shutdown(7 + alone)), 7 + alone);
});

for (const name of matrix) {
  test(`${name} values: the grace holds preStop and drain`, { skip }, () => {
    const preStop = container(render({ ci: name })).lifecycle?.preStop.sleep.seconds ?? 0;

    assert.ok(graceOf({}, name) >= preStop + (['full', 'workers'].includes(name) ? withWorkers : alone));
  });
}

function preStopOf(version: string, preStopSeconds = 4) {
  const objects = render({ values: { shutdown: { preStopSeconds } }, args: ['--kube-version', version] });
  return container(objects).lifecycle?.preStop;
}

test('preStop sleeps by itself where Kubernetes can, by Node where not, and is left out at 0', { skip }, () => {
  assert.deepEqual(preStopOf('1.30.0'), { sleep: { seconds: 4 } });
  assert.deepEqual(preStopOf('1.29.9').exec.command, ['/nodejs/bin/node', '-e', 'setTimeout(() => {}, 4000)']);
  assert.equal(preStopOf('1.30.0', 0), undefined);
});

test('readiness is looked at often enough to be seen before the gateway stops listening', { skip }, () => {
  const { readinessProbe, startupProbe, livenessProbe } = container(render());

  assert.ok(readinessProbe.periodSeconds * 1000 <= drainDelayMs);
  assert.deepEqual(
    [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => `${httpGet.port} ${httpGet.path}`),
    ['operations /livez', 'operations /livez', 'operations /readyz'],
  );
});
