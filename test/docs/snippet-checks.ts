/** The check of a snippet of each language; throws what is wrong with it. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import { parse, parseDocument } from 'yaml';
import { loadConfig } from '../../src/config/source/load.ts';
import { readKeysFile } from '../../src/access/keys/file-keys.ts';
import { startNginx, withoutNginx } from '../support/nginx.ts';
import { OpenApi } from '../support/openapi.ts';
import { noRedis, redisServer } from '../support/redis-server.ts';
import type { Snippet } from './snippets.ts';
import { isMissing, runScript, runService, type World } from './snippet-world.ts';

/** Why the snippet cannot be run here, or nothing. */
export type Outcome = string | undefined;

type Check = (t: TestContext, snippet: Snippet, world: World) => Outcome | Promise<Outcome>;

const api = new OpenApi();

export const checks: Readonly<Record<string, Check>> = {
  yaml: checkYaml,
  json: checkJson,
  http: checkHeaders,
  sh: checkShell,
  nginx: checkNginx,
  'redis-conf': checkRedisConfig,
  redis: checkRedisCommands,
  promql: checkExpressions,
  // Pictures, and what a program prints.
  text: () => undefined,
};

const oneUpstream = { upstreams: [{ name: 'a', url: 'http://10.0.0.1:8080/v1' }] };

/** A config, whole or a part of one, unless the snippet has another mark. */
async function checkYaml(_t: TestContext, { document, text, directives }: Snippet, world: World): Promise<Outcome> {
  const folder = world.folderOf(document);
  const kept = directives.get('file');
  if (kept !== undefined) writeFileSync(join(folder, kept), world.localized(text));
  if (directives.has('parses')) {
    assert.deepEqual(parseDocument(text).errors, []);
    return undefined;
  }
  if (directives.has('keys')) {
    assert.deepEqual(readKeysFile(text, 'keys.yaml').problems, []);
    return undefined;
  }
  const file = join(folder, 'snippet.yaml');
  if (directives.has('rules')) {
    writeFileSync(file, text);
    return checkRules(file);
  }
  const isWhole = Object.hasOwn(parse(text) as object, 'upstreams');
  // JSON is YAML: a part gets its upstreams behind it.
  writeFileSync(file, isWhole ? text : `${text}\nupstreams: ${JSON.stringify(oneUpstream.upstreams)}\n`);
  const { config } = loadConfig({ file, env: world.env });
  assert.ok(config.upstreams.length > 0);
  return undefined;
}

function checkJson(_t: TestContext, { text, directives }: Snippet): Outcome {
  const value = JSON.parse(text) as unknown;
  const id = directives.get('answers');
  if (id === undefined) return undefined;
  const reply = { status: 200, headers: { 'content-type': 'application/json' }, body: Buffer.from(text), text };
  const headerless = api.problemsOf(api.operation(id), reply, { isLedgerKnown: false });
  assert.deepEqual(headerless, [], JSON.stringify(value));
  return undefined;
}

/** Header fields, each of which is one that the OpenAPI document tells of, with a value that it allows. */
function checkHeaders(_t: TestContext, { text }: Snippet): Outcome {
  for (const line of text.trim().split('\n')) {
    const [, name = '', value = ''] = /^([\w-]+): (.+)$/.exec(line) ?? [];
    assert.deepEqual(api.headerProblems(name, value), [], line);
  }
  return undefined;
}

async function checkShell(_t: TestContext, { document, text, directives }: Snippet, world: World): Promise<Outcome> {
  const needed = [...(text.includes('curl') ? ['curl'] : []), ...(directives.get('needs') ?? '').split(' ')];
  const missing = needed.find((program) => program !== '' && isMissing(program));
  if (missing !== undefined) return `${missing} is not installed`;
  const folder = world.folderOf(document);
  const script = world.localized(text);
  const isServing = directives.has('serves');
  const commands = isServing ? script.trim().split('\n') : [script];
  const run = isServing ? runService : runScript;
  const ran = await Promise.all(commands.map((command) => run(world, folder, command)));
  for (const [at, { code, said }] of ran.entries()) assert.equal(code, 0, `${commands[at]}\n${said}`);
  return undefined;
}

async function checkNginx(t: TestContext, { text }: Snippet, world: World): Promise<Outcome> {
  const missing = withoutNginx();
  if (missing !== false) return missing;
  await startNginx(t, world.localized(text).replace('listen 443 ssl http2;', 'listen 127.0.0.1:PORT;'));
  return undefined;
}

/** Lines of redis.conf: a server starts with them, and reports these settings. */
async function checkRedisConfig(t: TestContext, { text }: Snippet): Promise<Outcome> {
  if (noRedis !== false) return noRedis;
  const lines = text.trim().split('\n');
  const pairs = lines.map(
    (line) => [line.split(' ', 1)[0] ?? '', line.replace(/^\S+ /, '').replaceAll('"', '')] as const,
  );
  const server = await redisServer(
    t,
    pairs.flatMap(([name, value]) => [`--${name}`, value]),
  );
  const policy = pairs.find(([name]) => name === 'maxmemory-policy')?.[1];
  const told = await server.run((client) => client.config('GET', 'maxmemory-policy'));
  if (policy !== undefined) assert.deepEqual(told, ['maxmemory-policy', policy]);
  return undefined;
}

/** Commands as they are typed at redis-cli: each is taken. */
async function checkRedisCommands(t: TestContext, { text }: Snippet): Promise<Outcome> {
  if (noRedis !== false) return noRedis;
  const server = await redisServer(t);
  for (const line of text.trim().split('\n')) {
    const [name = '', ...args] = line.split(' ');
    await server.run((client) => client.call(name, ...args));
  }
  return undefined;
}

/** Expressions for Prometheus, one a line. */
function checkExpressions(_t: TestContext, { document, text }: Snippet, world: World): Promise<Outcome> {
  const expressions = text.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'));
  const rules = expressions.map((expr, at) => ({ record: `snippet:${at}`, expr }));
  const file = join(world.folderOf(document), 'rules.json');
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'snippets', rules }] }));
  return checkRules(file);
}

/** Not synchronous: the nodes that other snippets ask answer from this process, and promtool takes seconds. */
async function checkRules(file: string): Promise<Outcome> {
  if (isMissing('promtool')) return 'promtool is not installed';
  await promisify(execFile)('promtool', ['check', 'rules', file]);
  return undefined;
}
