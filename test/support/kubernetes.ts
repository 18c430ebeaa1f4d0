/** What Kubernetes would say against objects: by models made of its API, and by rules for the kinds that have none. */
import assert from 'node:assert/strict';
import type { KubernetesObject } from './helm.ts';

interface Model {
  validate(): void;
}

type Models = Readonly<Record<string, new (object: unknown) => Model>>;

/** Throws what is wrong with the object. */
export async function assertValid(object: KubernetesObject): Promise<void> {
  const { apiVersion, kind } = object;
  assert.match(object.metadata.name, /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
  for (const [key, value] of Object.entries(object.metadata.labels)) assertLabel(key, value);
  if (kind === 'HTTPRoute') return assertRoute(object);
  const source = apiVersion.startsWith('monitoring.') ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models';
  const models = (await import(`${source}/${apiVersion}/${kind}`)) as Models;
  const Of = models[kind];
  assert.ok(Of !== undefined, `no model of ${apiVersion} ${kind}`);
  new Of(object).validate();
  assertNoEmpty(object, kind);
}

function assertLabel(key: string, value: unknown): void {
  assert.match(key, /^([a-z0-9.-]{1,253}\/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$/);
  assert.ok(typeof value === 'string' && /^([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?$/.test(value), key);
}

/** A key without a value is a slip of a template, which models take for "not given". */
function assertNoEmpty(value: unknown, path: string): void {
  assert.notEqual(value, null, `${path} has no value`);
  if (typeof value !== 'object' || value === null) return;
  for (const [key, child] of Object.entries(value)) assertNoEmpty(child, `${path}.${key}`);
}

/** Gateway API v1, of which there is no model: the forms that its CRD asks for. */
function assertRoute({ apiVersion, spec }: KubernetesObject): void {
  assert.equal(apiVersion, 'gateway.networking.k8s.io/v1');
  assert.deepEqual(Object.keys(spec).sort(), ['hostnames', 'parentRefs', 'rules'].sort());
  for (const parent of spec.parentRefs) assert.equal(typeof parent.name, 'string');
  for (const host of spec.hostnames) assert.match(host, /^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
  for (const rule of spec.rules) {
    for (const { path } of rule.matches) {
      assert.ok(['Exact', 'PathPrefix', 'RegularExpression'].includes(path.type));
      assert.match(path.value, /^\//);
    }
    for (const { name, port } of rule.backendRefs) {
      assert.equal(typeof name, 'string');
      assert.ok(Number.isInteger(port) && port > 0 && port < 65_536);
    }
    for (const time of Object.values(rule.timeouts ?? {})) assert.match(String(time), /^([0-9]{1,5}(h|m|s|ms)){1,4}$/);
  }
}
