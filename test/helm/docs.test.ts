/** Values in the documents render, and figures in the documents are the chart's. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parse } from 'yaml';
import { container, only, refusal, render, withoutHelm } from '../support/helm.ts';

const skip = withoutHelm();
const read = (name: string): string => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
const guide = read('docs/kubernetes.md');

for (const name of ['docs/kubernetes.md', 'helm/ledgergate/README.md']) {
  test(`the values in ${name} are values of the chart`, { skip }, () => {
    const blocks = [...read(name).matchAll(/^```yaml\n([^]*?)^```$/gm)].map(([, text = '']) => text);

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
