/**
 * One page of the documents, run from top to bottom as its reader would: files in one folder, commands in order, a gateway
 * that goes on beside them, and names and addresses of the page led to servers of the test. Marks beside those of
 * `snippets.ts`:
 *
 *     <!-- test: file NAME -->      the content of that file
 *     <!-- test: merge NAME -->     a part of that YAML file, which is put into it; a running gateway reads it
 *     <!-- test: serves -->         the command goes on until the next one that serves
 *     <!-- test: prints TEXT -->    standard output has this text
 *     <!-- test: chart -->          values of the chart, which Helm renders
 */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import type { TestContext } from 'node:test';
import { parse, stringify } from 'yaml';
import { compiledOfBinary } from '../commands/command-line.ts';
import { eventually } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { freePort } from '../support/free-port.ts';
import { fetchReply } from '../support/gateway.ts';
import { render, withoutHelm } from '../support/helm.ts';
import { signingKey, tokenOf } from '../support/issuer.ts';
import { startNginx } from '../support/nginx.ts';
import { redisServer } from '../support/redis-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { authority } from '../support/tls.ts';
import { runScript, writeCommands } from './snippet-world.ts';
import { repository, type Snippet } from './snippets.ts';

type Replacements = readonly (readonly [documented: string, here: string])[];

/** Starts nodes and two Redis, and makes a folder with the token of a customer. All of it ends with the test. */
export async function pageWorld(t: TestContext): Promise<PageWorld> {
  const root = authority(t);
  const { cert, key } = root.certify('rpc');
  const node = async (oldest: bigint) => new URL((await fakeNode(t, { dialect: 'aptos', oldest })).url).host;
  const redis = async () => `127.0.0.1:${(await redisServer(t)).port}`;
  const ports = { client: await freePort(), operations: await freePort() };
  return new PageWorld(t, root.file, ports, [
    ['10.0.0.1:8080', await node(500n)],
    ['10.0.0.2:8080', await node(500n)],
    ['10.0.0.9:8080', await node(0n)],
    ['10.0.1.1:6379', await redis()],
    ['10.0.1.2:6379', await redis()],
    ['127.0.0.1:8080', `127.0.0.1:${ports.client}`],
    ['127.0.0.1:9090', `127.0.0.1:${ports.operations}`],
    ['/etc/letsencrypt/live/rpc.example/fullchain.pem', cert],
    ['/etc/letsencrypt/live/rpc.example/privkey.pem', key],
    ['listen 443 ssl http2;', 'listen 127.0.0.1:PORT ssl http2;'],
    ['https://accounts.example/.well-known/jwks.json', 'issuer.json'],
  ]);
}

/** The machine of the page's reader. */
export class PageWorld {
  readonly #t: TestContext;
  readonly #folder: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #operations: string;
  readonly #replacements: Replacements;
  /** Has the port of nginx once it runs. */
  readonly #portFile: string;
  #gateway: ChildProcess | undefined;

  /** `ca`: the file of the authority of rpc.example. */
  constructor(
    t: TestContext,
    ca: string,
    { client, operations }: { readonly client: number; readonly operations: number },
    replacements: Replacements,
  ) {
    this.#t = t;
    this.#folder = temporaryFolder(t);
    this.#replacements = replacements;
    this.#operations = `http://127.0.0.1:${operations}`;
    const home = temporaryFolder(t);
    this.#portFile = join(home, 'nginx.port');
    this.#env = {
      PATH: `${commandsIn(home, ca, this.#portFile)}:${process.env['PATH']}:/usr/sbin`,
      HOME: home,
      NODE_EXTRA_CA_CERTS: ca,
      ...compiledOfBinary,
      LEDGERGATE_PORT: String(client),
      LEDGERGATE_OPERATIONS_PORT: String(operations),
    };
    symlinkSync(`${repository}node_modules`, join(this.#folder, 'node_modules'));
    issueToken(this.#folder);
    t.after(() => this.#end());
  }

  /** Does with a block what its reader would; resolves with the standard output of commands. */
  async run({ language, text, directives }: Snippet): Promise<string> {
    if (directives.has('not run, because')) return '';
    const here = this.#localized(text);
    const [file, part] = [directives.get('file'), directives.get('merge')];
    if (file !== undefined) this.#write(file, here);
    if (part !== undefined) await this.#merge(part, here);
    if (directives.has('chart') && withoutHelm() === false) assert.ok(render({ values: parse(text) }).length > 5);
    switch (language) {
      case 'sh':
        return directives.has('serves') ? this.#serve(here) : this.#script(here, directives.get('prints'));
      case 'nginx':
        writeFileSync(this.#portFile, new URL(await startNginx(this.#t, here)).port);
        return '';
      case 'js':
        this.#write('snippet.mjs', here.replaceAll('rpc.example', `localhost:${readFileSync(this.#portFile, 'utf8')}`));
        return this.#script(`"${process.execPath}" snippet.mjs`);
      case 'yaml':
        return '';
      default:
        throw new Error(`nothing is known of the language "${language}"`);
    }
  }

  #localized(text: string): string {
    return this.#replacements.reduce((sum, [documented, here]) => sum.replaceAll(documented, here), text);
  }

  #write(name: string, text: string): void {
    writeFileSync(join(this.#folder, name), text);
  }

  async #merge(name: string, text: string): Promise<void> {
    const isRunning = this.#gateway !== undefined && this.#gateway.exitCode === null;
    const before = isRunning ? await this.#reloads() : {};
    const whole: unknown = parse(readFileSync(join(this.#folder, name), 'utf8'));
    this.#write(name, stringify(mergedWith(whole, parse(text))));
    if (!isRunning) return;
    const after = await eventually(
      () => this.#reloads(),
      (now) => JSON.stringify(now) !== JSON.stringify(before),
    );
    assert.equal(after['refused'], before['refused'], 'the gateway refuses the config');
  }

  /** Reloads of the config by result. */
  async #reloads(): Promise<Readonly<Record<string, string>>> {
    const { text } = await fetchReply(`${this.#operations}/metrics`, { method: 'GET' });
    const samples = text.matchAll(/^ledgergate_config_reloads_total\{result="(\w+)"\} (\d+)/gm);
    return Object.fromEntries([...samples].map(([, result = '', count = '']) => [result, count]));
  }

  async #serve(command: string): Promise<string> {
    await this.#end();
    const child = spawn('sh', ['-eu', '-c', `exec ${command}`], { cwd: this.#folder, env: this.#env });
    this.#gateway = child;
    let printed = '';
    await new Promise<void>((resolve, reject) => {
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (chunk) => {
          printed += String(chunk);
          if (/^Clients: /m.test(printed)) resolve();
        });
      child.once('exit', () => reject(new Error(`it does not serve:\n${printed}`)));
    });
    return printed;
  }

  async #end(): Promise<void> {
    if (this.#gateway === undefined || this.#gateway.exitCode !== null) return;
    this.#gateway.kill('SIGTERM');
    await once(this.#gateway, 'exit');
  }

  async #script(command: string, expected = ''): Promise<string> {
    const { code, out, said } = await runScript({ env: this.#env }, this.#folder, command);
    assert.equal(code, 0, `${command}\n${said}`);
    assert.ok(out.includes(expected), out);
    return out;
  }
}

/** Mappings of `part` are merged into those of `whole`, everything else is replaced. */
function mergedWith(whole: unknown, part: unknown): unknown {
  if (!isMapping(whole) || !isMapping(part)) return part;
  const entries = Object.entries(part).map(([key, value]) => [key, mergedWith(whole[key], value)] as const);
  return { ...whole, ...Object.fromEntries(entries) };
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The keys of an issuer, and a token of a customer. */
function issueToken(folder: string): void {
  const key = signingKey('a');
  const claims = { iss: 'https://accounts.example/', aud: 'https://rpc.example', plan: undefined };
  writeFileSync(join(folder, 'issuer.json'), JSON.stringify({ keys: [key.jwk] }));
  writeFileSync(join(folder, 'customer.jwt'), `${tokenOf(key, 'customer-7', claims)}\n`);
}

/** `ledgergate` is the one of this checkout. curl finds rpc.example at nginx, and fails where the answer is an error. */
function commandsIn(home: string, ca: string, portFile: string): string {
  return writeCommands(home, {
    ledgergate: `exec "${process.execPath}" "${repository}bin/ledgergate.js" "$@"`,
    // Commands that print the status (-w) expect an error.
    curl: `port=$(cat "${portFile}" 2>/dev/null || echo 1)
case " $* " in *" -w "*) fail= ;; *) fail=--fail-with-body ;; esac
PATH="\${PATH#*:}" exec curl $fail --max-time 10 --cacert "${ca}" --connect-to "rpc.example:443:127.0.0.1:$port" "$@"`,
  });
}
