/** Values of another form are refused with a helpful message, and generated files match their sources. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { generatedFiles } from '../../scripts/generate-chart.ts';
import { chartFolder, refusal, withoutHelm } from '../support/helm.ts';

const skip = withoutHelm();
const read = (file: string): string => readFileSync(join(chartFolder, file), 'utf8');

for (const [file, write] of Object.entries(generatedFiles)) {
  test(`helm/ledgergate/${file} is current (npm run generate)`, () => {
    assert.equal(read(file), write());
  });
}

test("the chart's versions are the package's", () => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  const chart = parse(read('Chart.yaml'));

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
