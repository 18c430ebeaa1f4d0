/** The chart as a real Helm renders it. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import type { TestContext } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { chartFolder } from '../../scripts/generate-chart.ts';
import { findTool } from '../../scripts/tools.ts';
import { temporaryFolder } from './temporary-folder.ts';

export { chartFolder };

const inPath = spawnSync('helm', ['version', '--short']).status === 0 ? 'helm' : undefined;
const helm = inPath ?? findTool('helm-4.1.4');

/** For the `skip` of a test: a reason where there is no Helm. Where CI is set, it is an error not to have one. */
export function withoutHelm(): string | false {
  if (helm !== undefined || process.env['CI'] !== undefined) return false;
  return 'THE CHART IS NOT TESTED: there is no helm (npm run tools)';
}

export interface Outcome {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** `input`: for its standard input. */
export function runHelm(args: readonly string[], input = ''): Outcome {
  if (helm === undefined) throw new Error('there is no helm (npm run tools)');
  // It ends before its garbage is worth a collection.
  const env = { ...process.env, GOGC: 'off' };
  const { status, stdout, stderr } = spawnSync(helm, args, { encoding: 'utf8', timeout: 30_000, input, env });
  return { code: status, out: stdout, err: stderr };
}

/** A Kubernetes object, as far as tests look into it. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  // oxlint-disable-next-line typescript/no-explicit-any -- each kind has its own form, which the models check
  readonly spec: any;
  readonly data?: Readonly<Record<string, string>>;
}

export interface RenderOptions {
  /** A file of `ci/`, without `-values.yaml`. */
  readonly ci?: string | undefined;
  readonly values?: unknown;
  readonly chart?: string;
  readonly args?: readonly string[];
}

export const release = 'prod';

/** Rendering is a function of the values: several tests look at what comes of the same ones. */
const rendered = new Map<string, Outcome>();

/** What `helm template` says. */
export function template({ ci, values = {}, chart = chartFolder, args = [] }: RenderOptions): Outcome {
  const files = [...(ci === undefined ? [] : ['-f', ciFile(ci)]), '-f', '-'];
  // JSON is YAML.
  const input = JSON.stringify(values);
  const key = [chart, ...files, ...args, input].join(' ');
  const known =
    rendered.get(key) ?? runHelm(['template', release, chart, '--namespace', 'ledger', ...files, ...args], input);
  rendered.set(key, known);
  return known;
}

/** The objects that are rendered; throws what Helm says where it refuses. */
export function render(options: RenderOptions = {}): readonly KubernetesObject[] {
  const { code, out, err } = template(options);
  if (code !== 0) throw new Error(err);
  const documents = parseAllDocuments(out, { uniqueKeys: true });
  return documents.flatMap((document) => {
    if (document.errors.length > 0) throw new Error(String(document.errors[0]));
    const value = document.toJS() as KubernetesObject | null;
    return value === null ? [] : [value];
  });
}

/** The only object of a kind. */
export function only(objects: readonly KubernetesObject[], kind: string): KubernetesObject {
  const found = objects.filter((object) => object.kind === kind);
  if (found.length !== 1 || found[0] === undefined) throw new Error(`there are ${found.length} objects ${kind}`);
  return found[0];
}

/** The object with the release's own name: the ConfigMap of the config, and not that of a dashboard. */
export function own(objects: readonly KubernetesObject[], kind: string): KubernetesObject {
  const { name } = only(objects, 'Deployment').metadata;
  return only(
    objects.filter(({ metadata }) => metadata.name === name),
    kind,
  );
}

/** The gateway's container. */
export function container(objects: readonly KubernetesObject[]): KubernetesObject['spec'] {
  return only(objects, 'Deployment').spec.template.spec.containers[0];
}

/** What Helm says against it: the line that tells why, without what stands around it. */
export function refusal(options: RenderOptions): string {
  const { code, err } = template(options);
  if (code === 0) throw new Error('the values were not refused');
  const lines = err
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('level=') && !line.startsWith('Use --'));
  return lines.join('\n').replace(/^Error: execution error at \([^)]*\): /, '');
}

export const matrix = readdirSync(join(chartFolder, 'ci')).map((file) => file.replace('-values.yaml', ''));

export function ciFile(name: string): string {
  return join(chartFolder, 'ci', `${name}-values.yaml`);
}

/** A copy of the chart with other files beside its templates; it goes when the test ends. */
export function chartWith(t: TestContext, files: Readonly<Record<string, string>>): string {
  const folder = temporaryFolder(t);
  cpSync(chartFolder, folder, { recursive: true });
  rmSync(join(folder, 'files'), { recursive: true, force: true });
  mkdirSync(join(folder, 'files'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, 'files', name), text);
  return folder;
}
