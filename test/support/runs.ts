/** Does what was built and installed run, on a given Node, without anything of the checkout? */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import process from 'node:process';
import type { TestContext } from 'node:test';
import { findTool } from '../../scripts/tools.ts';
import { start } from '../commands/command-line.ts';
import { configFile } from '../config/config-file.ts';
import { collector } from './collector.ts';
import { until } from './eventually.ts';
import { fakeNode } from './fake-node.ts';

export interface NodeVersion {
  readonly name: string;
  /** `undefined`: it is not here. */
  readonly node: string | undefined;
}

/** The Node of the tests, and the older lines that the package is for (`npm run tools`). */
export const nodeVersions: readonly NodeVersion[] = [
  { name: `Node ${process.versions.node}`, node: process.execPath },
  { name: 'Node 22', node: findTool('node-22') },
  { name: 'Node 24', node: findTool('node-24') },
];

/** For the `skip` of a test. Where CI is set, it is an error not to have it. */
export function withoutNode({ name, node }: NodeVersion): string | false {
  if (node !== undefined || process.env['CI'] !== undefined) return false;
  return `NOT TESTED ON ${name.toUpperCase()}: it is not here (npm run tools)`;
}

export interface Installed {
  /** The program, with the arguments that stand before those of the user. */
  readonly script: string;
  readonly node: string;
  /** The command that tells the health, without its Node. */
  readonly health: readonly string[];
  readonly cwd: string;
}

async function storeState(operationsUrl: string): Promise<string> {
  const ready = (await (await fetch(new URL('/readyz', operationsUrl))).json()) as { store: { state: string } };
  return ready.store.state;
}

/** A gateway that serves, exports traces, is healthy, and ends when it is told to. */
export async function assertRuns(t: TestContext, { script, node, health, cwd }: Installed): Promise<void> {
  const [upstream, traces] = [await fakeNode(t, { head: 900n }), await collector(t)];
  const file = configFile(t, configOf(upstream.url, `\ntracing: { endpoint: "${traces.url}", share: 1 }`));
  const flags = ['--host', '127.0.0.1', '--port', '0', '--operations-port', '0', '--log-level', 'warn'];
  const gateway = start(t, ['serve', '--config', file, ...flags], { node, script });
  const [, url = ''] = await gateway.line(/^Clients: +(\S+) /);
  const [, operations = ''] = await gateway.line(/^Operations: +(\S+) /);
  const reply = await fetch(url);
  await until(async () => traces.spans.length > 0 && (await storeState(operations)) === 'up');
  const env = { PATH: process.env['PATH'] ?? '', LEDGERGATE_OPERATIONS_PORT: new URL(operations).port };
  const ask = () => spawnSync(node, health, { cwd, env, encoding: 'utf8', timeout: 20_000 });
  const healthy = ask();
  gateway.process.kill('SIGTERM');

  assert.equal(reply.headers.get('x-node-ledger-version'), '900');
  assert.deepEqual([traces.spans[0]?.name, traces.spans[0]?.service], ['GET /v1', 'ledgergate']);
  assert.equal(healthy.status, 0, healthy.stderr);
  assert.equal(healthy.stdout, 'ready\n');
  const { code, err } = await gateway.ended;
  assert.equal(code, 0, err);
  assert.equal(ask().status, 1);
}

const configOf = (url: string, more = ''): string =>
  `upstreams: [{ name: a, url: "${url}" }]\ncache: { store: { path: store } }${more}\n`;

/** Its version, and its config. */
export async function assertPrints(t: TestContext, { script, node }: Installed): Promise<void> {
  const url = 'http://10.0.0.1/v1';
  const file = configFile(t, configOf(url));
  const version = await start(t, ['--version'], { node, script }).ended;
  const config = await start(t, ['config', file], { node, script }).ended;

  assert.match(version.out, /^\d+\.\d+\.\d+\n$/, version.err);
  assert.equal(config.code, 0, config.err);
  assert.ok(config.out.includes(url));
}
