/** What `docker build` would do with the project's Dockerfile, in a folder instead of an image: no engine is needed. */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { basename, delimiter, join, resolve } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const dockerfile = readFileSync(join(root, 'Dockerfile'), 'utf8');

/** Some 20 s on two idle cores, minutes on busy ones; what is given to tests that install. */
export const installMs = 420_000;

export interface Instruction {
  readonly name: string;
  readonly rest: string;
}

export interface Stage {
  readonly image: string;
  readonly name: string;
  readonly instructions: readonly Instruction[];
}

export function parseStages(text: string): readonly Stage[] {
  const lines = text
    .split('\n')
    .filter((line) => !/^\s*(#|$)/.test(line))
    .join('\n')
    .replaceAll(/\\\n\s*/g, ' ')
    .split('\n');
  const stages: { image: string; name: string; instructions: Instruction[] }[] = [];
  for (const line of lines) {
    const [, name = '', rest = ''] = /^(\w+)\s+(.*)$/.exec(line) ?? [];
    if (name === 'FROM') {
      const [, image = '', as = ''] = /^(?:--platform=\S+\s+)?(\S+)(?:\s+AS\s+(\S+))?$/.exec(rest) ?? [];
      stages.push({ image, name: as, instructions: [] });
    } else stages.at(-1)?.instructions.push({ name, rest });
  }
  return stages;
}

/** The arguments of the last such instruction, as a list of words or in JSON. */
export function wordsOf({ instructions }: Stage, name: string): readonly string[] {
  const rest = instructions.findLast((instruction) => instruction.name === name)?.rest ?? '';
  const list = rest.indexOf('[');
  return list < 0 ? rest.split(/\s+/) : (JSON.parse(rest.slice(list)) as string[]);
}

/** Paths of the build context that `.dockerignore` leaves: it excludes everything and names what is let in. */
export function contextPaths(): readonly string[] {
  const lines = readFileSync(join(root, '.dockerignore'), 'utf8').split('\n');
  const rules = lines.filter((line) => line !== '' && !line.startsWith('#'));
  if (rules[0] !== '*' || rules.slice(1).some((rule) => !/^!\.?[\w./-]+$/.test(rule))) {
    throw new Error('.dockerignore has other rules than these tests understand');
  }
  return rules.slice(1).map((rule) => rule.slice(1));
}

export interface Copy {
  readonly from: string | undefined;
  readonly sources: readonly string[];
  readonly target: string;
}

export function parseCopy(rest: string): Copy {
  const words = rest.split(/\s+/);
  const paths = words.filter((word) => !word.startsWith('--'));
  const from = words.find((word) => word.startsWith('--from='))?.slice('--from='.length);
  return { from, sources: paths.slice(0, -1), target: paths.at(-1) ?? '' };
}

/** A stage's file system: what its instructions have put below a folder. */
export interface Built {
  readonly folder: string;
  readonly workdir: string;
}

/** Copies and runs what the stages say, in order. The base images' own files are not there; Node is the one that runs. */
export function buildStages(stages: readonly Stage[], into: string): ReadonlyMap<string, Built> {
  const built = new Map<string, Built>();
  for (const [index, stage] of stages.entries()) {
    const folder = join(into, `stage-${index}`);
    let workdir = folder;
    for (const { name, rest } of stage.instructions) {
      if (name === 'WORKDIR') {
        workdir = join(folder, rest);
        mkdirSync(workdir, { recursive: true });
      } else if (name === 'COPY') copy(parseCopy(rest), { folder, workdir }, built);
      else if (name === 'RUN') run(rest, workdir, into);
    }
    built.set(stage.name, { folder, workdir });
  }
  return built;
}

function copy({ from, sources, target }: Copy, { folder, workdir }: Built, built: ReadonlyMap<string, Built>): void {
  for (const source of sources) {
    const [first = ''] = source.split('/');
    const isInContext = contextPaths().some((path) => path === first || path === source);
    if (from === undefined && !isInContext) throw new Error(`${source} is not in the context`);
    const path = from === undefined ? join(root, source) : join(built.get(from)?.folder ?? '', source);
    const isInto = target.endsWith('/');
    // A folder's contents are copied, a file goes below a target that ends in a slash.
    const place = target.startsWith('/') ? join(folder, target) : resolve(workdir, target);
    cpSync(path, isInto ? join(place, basename(source)) : place, { recursive: true });
  }
}

/** What was installed from the lock file already, as CI does first, is linked instead of unpacked once more. */
function run(command: string, cwd: string, into: string): void {
  if (command.startsWith('npm ci ') && link(cwd)) return;
  runPolitely('sh', ['-ec', command], { cwd, into });
}

/** False where the checkout has other packages than its lock file, or is on another disk. */
function link(cwd: string): boolean {
  type Packages = Readonly<Record<string, { readonly version?: string; readonly optional?: boolean } | undefined>>;
  const packagesOf = (file: string) => (JSON.parse(readFileSync(file, 'utf8')) as { packages: Packages }).packages;
  const [from, to] = [realpathSync(join(root, 'node_modules')), join(cwd, 'node_modules')];
  const list = '.package-lock.json';
  if (!existsSync(join(from, list))) return false;
  const installed = packagesOf(join(from, list));
  const isSame = Object.entries(packagesOf(join(root, 'package-lock.json'))).every(
    ([path, locked]) => path === '' || locked?.optional === true || installed[path]?.version === locked?.version,
  );
  if (!isSame || spawnSync('cp', ['-al', from, to]).status !== 0) return false;
  rmSync(join(to, '.cache'), { recursive: true, force: true });
  // npm writes to this one in its place.
  rmSync(join(to, list));
  cpSync(join(from, list), join(to, list));
  return true;
}

/**
 * Installing takes every core it gets, and tests beside this one wait for times: they come first. Not by more than that:
 * where they leave nothing over, who comes last does not come within any time-out.
 */
export function runPolitely(
  program: string,
  args: readonly string[],
  { cwd, into }: { readonly cwd: string; readonly into: string },
): void {
  const env = cleanEnvironment(into);
  execFileSync('nice', ['-n', '5', program, ...args], { cwd, env, stdio: 'pipe', timeout: installMs });
}

/** The machine's own settings (proxies, certificates), nothing of the checkout or of the npm that runs the tests. */
function cleanEnvironment(into: string): Record<string, string> {
  const bin = join(into, 'bin');
  mkdirSync(bin, { recursive: true });
  // As it would be in the image: `node` is this one.
  if (!existsSync(join(bin, 'node'))) symlinkSync(process.execPath, join(bin, 'node'));
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));
  const kept = Object.entries(process.env).filter(([name]) => !ofTheCheckout.test(name));
  return {
    ...(Object.fromEntries(kept) as Record<string, string>),
    PATH: [bin, ...folders].join(delimiter),
    npm_config_prefer_offline: 'true',
    npm_config_update_notifier: 'false',
  };
}

const ofTheCheckout =
  /^(npm_(package|lifecycle|config_local_prefix|command|execpath)|INIT_CWD|NODE_(ENV|OPTIONS|TEST|COMPILE_CACHE))/;

/** True where npm said that it could not reach its registry: that is no fault of what is tested. */
export function isOffline(error: unknown): boolean {
  const said = String((error as { stderr?: unknown }).stderr ?? error);
  return process.env['CI'] === undefined && /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENOTCACHED|ETIMEDOUT/.test(said);
}
