/** The steps of a release on a copy of the files, and the workflows that run them. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { parse } from 'yaml';
import { notes, prepare, setOrigin } from '../../scripts/release.ts';
import { root } from '../support/dockerfile.ts';
import { render, withoutHelm, container } from '../support/helm.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const files = ['package.json', 'package-lock.json', 'Dockerfile', 'CHANGELOG.md', 'helm/ledgergate'];

function copy(t: TestContext): string {
  const folder = temporaryFolder(t);
  for (const file of files) {
    mkdirSync(join(folder, dirname(file)), { recursive: true });
    cpSync(join(root, file), join(folder, file), { recursive: true });
  }
  return folder;
}

const textOf = (folder: string, file: string): string => readFileSync(join(folder, file), 'utf8');

test('prepare sets one version everywhere; notes are the changes since the last one', (t) => {
  const folder = copy(t);

  prepare(folder, '7.8.9', '2030-01-02');

  assert.equal(JSON.parse(textOf(folder, 'package.json')).version, '7.8.9');
  const { version, packages } = JSON.parse(textOf(folder, 'package-lock.json'));
  assert.deepEqual([version, packages[''].version], ['7.8.9', '7.8.9']);
  const chart = parse(textOf(folder, 'helm/ledgergate/Chart.yaml'));
  assert.deepEqual([chart.version, chart.appVersion], ['7.8.9', '7.8.9']);
  assert.match(textOf(folder, 'Dockerfile'), /^ARG VERSION=7\.8\.9$/m);
  assert.match(textOf(folder, 'helm/ledgergate/CHANGELOG.md'), /^## Unreleased\n\n## 7\.8\.9 \(2030-01-02\)$/m);
  const [, unreleased = ''] = textOf(root, 'CHANGELOG.md').split(/^## .*$/m);
  assert.equal(notes(folder, 'v7.8.9'), unreleased.trim());
});

test('a tag of another version is refused, and so is a version without changes or of another form', (t) => {
  const folder = copy(t);
  prepare(folder, '7.8.9', '2030-01-02');
  cpSync(join(root, 'Dockerfile'), join(folder, 'Dockerfile'));

  assert.throws(() => notes(folder, 'v7.8.9'), /Dockerfile has the version \S+, and the tag is v7\.8\.9/);
  assert.throws(() => notes(folder, 'v7.9.0'), /package\.json has the version 7\.8\.9/);
  assert.throws(() => prepare(folder, 'v8', '2030-01-02'), /expected a version such as 1\.2\.3/);
});

test('a published chart has the image beside it, and the package its repository', { skip: withoutHelm() }, (t) => {
  const folder = copy(t);

  setOrigin(folder, 'https://github.com/Some/Gate');

  const { repository } = JSON.parse(textOf(folder, 'package.json'));
  assert.equal(repository.url, 'git+https://github.com/Some/Gate.git');
  const { version } = JSON.parse(textOf(root, 'package.json'));
  const objects = render({ chart: join(folder, 'helm/ledgergate') });
  assert.equal(container(objects).image, `ghcr.io/some/gate:${version}`);
});

interface Job {
  readonly uses?: string;
  readonly needs?: readonly string[];
  readonly permissions?: Readonly<Record<string, string>>;
  readonly steps?: readonly { readonly uses?: string; readonly run?: string }[];
}

const folder = join(root, '.github/workflows');
const workflows = readdirSync(folder).map((name) => {
  const text = readFileSync(join(folder, name), 'utf8');
  const parsed = parse(text) as { readonly permissions: unknown; readonly jobs: Record<string, Job> };
  return { name, text, permissions: parsed.permissions, jobs: parsed.jobs };
});

for (const { name, text, permissions, jobs } of workflows) {
  test(`${name}: no secrets, least rights, known actions, jobs and scripts`, () => {
    assert.deepEqual(permissions, { contents: 'read' });
    assert.doesNotMatch(text, /secrets\./);
    const { scripts } = JSON.parse(textOf(root, 'package.json'));
    for (const { uses, needs = [], steps = [] } of Object.values(jobs)) {
      for (const need of needs) assert.ok(need in jobs, need);
      for (const action of [uses, ...steps.map((step) => step.uses)]) {
        if (action === undefined) continue;
        if (action.startsWith('./')) assert.ok(existsSync(join(root, action)), action);
        else assert.match(action, /^actions\/[a-z-]+@(?:v\d+|[0-9a-f]{40})$/);
      }
      const commands = steps.map(({ run = '' }) => run).join('\n');
      // Values of the event never become part of a script.
      assert.doesNotMatch(commands, /\$\{\{/);
      for (const [, script = ''] of commands.matchAll(/npm run (?:--silent )?([\w:]+)/g)) assert.ok(script in scripts);
      for (const [path] of commands.matchAll(/(?:scripts|helm|\.ci)\/[\w./-]+/g)) {
        assert.ok(existsSync(join(root, path)), path);
      }
    }
  });
}

test('CI runs .ci/run, which is executable', () => {
  assert.ok(workflows.some(({ text }) => /run: \.ci\/run$/m.test(text)));
  assert.ok((statSync(join(root, '.ci/run')).mode & 0o111) !== 0);
});
