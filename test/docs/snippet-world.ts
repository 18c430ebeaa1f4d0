/** What the commands of the documents run against: a fleet, a gateway, Redis, and a folder with the command itself in it. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import type { TestContext } from 'node:test';
import { compiledOfBinary } from '../commands/command-line.ts';
import { fakeNode } from '../support/fake-node.ts';
import { testGateway } from '../support/gateway.ts';
import { accessConfig, keysFile, planConfig } from '../support/keys.ts';
import { noRedis, redisServer } from '../support/redis-server.ts';
import { repository } from './snippets.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

export interface World {
  /** `text` with the addresses of the documents replaced by those that answer here. */
  localized(text: string): string;
  readonly env: Readonly<Record<string, string>>;
  /** A folder of a document, with nothing but a config and a file of keys in it at first. */
  folderOf(document: string): string;
}

/** Programs that CI must have. */
export function isMissing(program: string): boolean {
  const isThere = spawnSync('sh', ['-c', `command -v ${program}`], { env: { PATH: path() } }).status === 0;
  if (!isThere && process.env['CI'] !== undefined) throw new Error(`${program} is required in CI`);
  return !isThere;
}

const path = (): string => `${process.env['PATH']}:/usr/sbin`;

/** Ends with the test. */
export async function snippetWorld(t: TestContext): Promise<World> {
  const full = await fakeNode(t, { dialect: 'aptos' });
  const archival = await fakeNode(t, { dialect: 'aptos', archival: true });
  const { path: keys } = keysFile(t, []);
  const open = accessConfig({ keys: { file: keys, redis: false }, plans: { open: planConfig() }, anonymous: 'open' });
  const gateway = await testGateway(t, { full: [full], archival: [archival], access: open }, 'aptos');
  const redis = noRedis === false ? (await redisServer(t)).url : 'redis://127.0.0.1:1';
  const root = temporaryFolder(t);
  const bin = commandsIn(root);
  const config = `dialect: aptos\nupstreams: [{ name: full-a, url: "${full.url}" }]\n`;
  const addresses: readonly (readonly [RegExp, string])[] = [
    [/\b10\.0\.0\.[12]:8080\b/g, new URL(full.url).host],
    [/\b10\.0\.0\.9:8080\b/g, new URL(archival.url).host],
    [/\b(?:127\.0\.0\.1|localhost):8080\b/g, new URL(gateway.url).host],
    [/\b(?:127\.0\.0\.1|localhost):9090\b/g, new URL(gateway.operationsUrl).host],
  ];
  return {
    localized: (text) => addresses.reduce((sum, [documented, here]) => sum.replaceAll(documented, here), text),
    env: {
      PATH: `${bin}:${path()}`,
      HOME: root,
      ...compiledOfBinary,
      REDIS_URL: redis,
      LIMITS_REDIS_URL: redis,
      NODE_KEY: 'a-key-of-a-node',
      COLLECTOR_KEY: 'a-key-of-a-collector',
      LEDGERGATE_ADMIN_TOKEN: 'a-token-of-the-operations-port',
      // What a command of the documents serves, it serves on any free port.
      LEDGERGATE_PORT: '0',
      LEDGERGATE_OPERATIONS_PORT: '0',
    },
    folderOf(document) {
      const folder = join(root, document.replaceAll('/', '-'));
      if (!existsSync(folder)) {
        mkdirSync(folder);
        // What commands call their config and their keys; a document may have others.
        writeFileSync(join(folder, 'ledgergate.yaml'), config);
        writeFileSync(join(folder, 'keys.yaml'), 'keys: []\n');
      }
      return folder;
    },
  };
}

/**
 * The commands as they are called: `ledgergate` is the one of this checkout, `npm start` starts it as package.json says,
 * and curl fails where the answer is an error. `npm ci` and `npm test` are what runs this here; of them it is checked that
 * the checkout has what they need.
 */
function commandsIn(root: string): string {
  const node = `"${process.execPath}"`;
  const commands: Readonly<Record<string, string>> = {
    ledgergate: `exec ${node} "${repository}bin/ledgergate.js" "$@"`,
    npm: `case "$1" in
ci) exec test -f "${repository}package-lock.json" ;;
test) exec ${node} -e 'process.exit(require(process.argv[1]).scripts.test ? 0 : 1)' "${repository}package.json" ;;
start) shift; [ "$1" = -- ] && shift; exec ${node} "${repository}bin/ledgergate.js" "$@" ;;
run) exec ${node} -e 'process.exit(require(process.argv[1]).scripts[process.argv[2]] ? 0 : 1)' "${repository}package.json" "$2" ;;
*) echo "npm $1 is not known to the tests of the documents" >&2; exit 64 ;;
esac`,
    curl: `PATH="\${PATH#*:}" exec curl --fail-with-body --max-time 10 "$@"`,
  };
  return writeCommands(root, commands);
}

/** Writes scripts of a shell, by the name of their command; returns their folder. */
export function writeCommands(root: string, commands: Readonly<Record<string, string>>): string {
  const bin = join(root, 'bin');
  mkdirSync(bin);
  for (const [name, script] of Object.entries(commands))
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return bin;
}

export interface Ran {
  readonly code: number | null;
  /** Both of its outputs. */
  readonly said: string;
}

/** Documents are checked beside each other, and each script starts processes. */
const scriptMs = 60_000;

/** Runs a script in a folder, for a minute at most. */
export async function runScript(
  { env }: Pick<World, 'env'>,
  folder: string,
  script: string,
): Promise<Ran & { readonly out: string }> {
  const child = spawn('sh', ['-eu', '-c', script], { cwd: folder, env, timeout: scriptMs });
  let [out, said] = ['', ''];
  child.stdout.on('data', (chunk) => (out += String(chunk)));
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += String(chunk)));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, said, out };
}

/** Runs a command until it serves, which counts as an end with 0, or until it ends by itself; for a minute at most. */
export async function runService(world: World, folder: string, command: string): Promise<Ran> {
  // In a group of its own, so that what the shell has started ends with it.
  const child = spawn('sh', ['-eu', '-c', command], { cwd: folder, env: world.env, detached: true });
  const end = (): void => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
  };
  const timer = setTimeout(end, scriptMs);
  let said = '';
  let serves = false;
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      said += String(chunk);
      if (serves || !/^Clients: /m.test(said)) return;
      serves = true;
      end();
    });
  }
  const [code] = (await once(child, 'close')) as [number | null];
  clearTimeout(timer);
  return { code: serves ? 0 : code, said };
}
