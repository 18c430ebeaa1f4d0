/** The gateway under test: the package as its users have it, built from the sources at hand, started by its command. */
import { spawnSync } from 'node:child_process';
import { cpSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startServer, type ServerProcess } from './process-under-test.ts';
import { newFolder } from './run-folder.ts';

export interface BenchedGateway {
  readonly name: string;
  /** One node, or several; a config with `upstreams` of its own needs none. */
  readonly nodeUrl: string | readonly string[];
  /** A core, or several: `0,1`. */
  readonly cpu: number | string;
  /** Sections of its config file. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** `listen.fastPath`; as it is by default when left out. */
  readonly fastPath?: boolean;
  /** Default: a free one. */
  readonly port?: number;
  /** Default: the built package. */
  readonly from?: 'package' | 'sources';
  /** Folder of another checkout, with its node_modules. Default: this one. */
  readonly checkout?: string;
  /** Another Node than the one that runs the benchmark. */
  readonly node?: string;
}

/** The command on a config file of its own. */
export function startGateway(gateway: BenchedGateway): Promise<ServerProcess> {
  return startServer(gateway.name, gatewayCommand(gateway), gateway.cpu, gateway.node);
}

/** Arguments that start Node as the gateway. */
export function gatewayCommand({
  nodeUrl,
  config = {},
  fastPath,
  port = 0,
  from = 'package',
  checkout = root,
}: BenchedGateway): readonly string[] {
  const file = join(newFolder('gateway'), 'config.yaml');
  const listen = { host: '127.0.0.1', port, ...(fastPath === undefined ? {} : { fastPath }) };
  const all = {
    listen,
    operations: { host: '127.0.0.1', port: 0 },
    upstreams: [nodeUrl].flat().map((url, index) => ({ name: `node-${index}`, url })),
    ...config,
  };
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(all));
  const folder = from === 'package' ? builtPackage(resolve(checkout)) : checkout;
  return [join(folder, 'bin/ledgergate.js'), 'serve', '--config', file];
}

const root = fileURLToPath(new URL('../../', import.meta.url));
const built = new Map<string, string>();

/** The packed code of a checkout in a folder without the sources, which Node would prefer. */
function builtPackage(checkout: string): string {
  const done = built.get(checkout);
  if (done !== undefined) return done;
  const folder = newFolder('package');
  // Links are resolved from their targets.
  symlinkSync(join(checkout, 'node_modules'), join(folder, 'node_modules'));
  for (const name of ['bin', 'config', 'package.json'])
    cpSync(join(checkout, name), join(folder, name), { recursive: true });
  const args = ['--project', 'tsconfig.build.json', '--outDir', join(folder, 'dist')];
  const compiler = join(checkout, 'node_modules/.bin/tsc');
  const path = `${dirname(process.execPath)}:${process.env['PATH']}`;
  const { status, stdout } = spawnSync(compiler, args, { cwd: checkout, env: { ...process.env, PATH: path } });
  if (status !== 0) throw new Error(`the package is not built: ${String(stdout)}`);
  built.set(checkout, folder);
  return folder;
}
