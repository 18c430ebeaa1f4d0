/** Values that other charts have in the same form. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { container, only, refusal, render, runHelm, chartFolder, withoutHelm } from '../support/helm.ts';

const skip = withoutHelm();

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
