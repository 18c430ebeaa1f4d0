/**
 * Requests to a running gateway's operations port, given by URL, by config, or by host and port: `health`, `status`,
 * `drain`, `resume`. Imports little, because a container runs `health` every few seconds.
 */
import { once } from 'node:events';
import type { IncomingMessage, RequestOptions } from 'node:http';
import { type CommandCall, type ExitCode, RuntimeFailure, UsageError } from './command.ts';

/** A named import would load every export of the module, among them a WebSocket with a whole HTTP client. */
const { request: open } = process.getBuiltinModule('node:http');
const { readFileSync } = process.getBuiltinModule('node:fs');

const healthMs = 2_000;

/** `health`: exit code 0 when `/readyz` of a running gateway answers 200, else 1 with the reason. */
export async function health(call: CommandCall): Promise<ExitCode> {
  const url = await operationsUrl('health', '/readyz', call);
  try {
    await fetchText(url, healthMs);
  } catch (error) {
    if (!(error instanceof RuntimeFailure)) throw error;
    call.terminal.error(`not ready: ${error.message}`);
    return 1;
  }
  call.terminal.out('ready');
  return 0;
}

const statusMs = 3_000;

/** `status`: prints the state of a running gateway, as text or JSON; exit code 0 whatever it is. */
export async function status(call: CommandCall): Promise<ExitCode> {
  const { given, terminal } = call;
  const url = await operationsUrl('status', '/status.json', call);
  const json = await fetchText(url, statusMs);
  const { statusLines } = await import('../proxy/operations/index.ts');
  const lines = statusLines(json);
  if (lines === undefined) throw new RuntimeFailure(`${url.href} is not the status of a gateway`);
  const isJson = given.has('json') || given.get('format')?.values[0] === 'json';
  for (const line of isJson ? [json] : lines) terminal.out(line);
  return 0;
}

/** Longer than the gateway waits for its workers. */
const drainMs = 10_000;

/** `drain NAME`: the node gets no new request; prints the number of those in flight, which end. */
export async function drain(call: CommandCall): Promise<ExitCode> {
  const name = nameOf('drain', call);
  const inFlight = await post(name, 'drain', call);
  call.terminal.out(`${name} is drained; requests in flight: ${String(inFlight)}`);
  return 0;
}

/** `resume NAME`: the node gets requests again. */
export async function resume(call: CommandCall): Promise<ExitCode> {
  const name = nameOf('resume', call);
  await post(name, 'resume', call);
  call.terminal.out(`${name} is resumed`);
  return 0;
}

/** The number of requests in flight at the node. */
async function post(name: string, action: string, call: CommandCall): Promise<unknown> {
  const path = `/admin/upstreams/${encodeURIComponent(name)}/${action}`;
  const answer = await askAdmin({ ...call, operand: undefined }, { method: 'POST', path, timeoutMs: drainMs });
  const { inFlight } = Object(answer) as { readonly inFlight?: unknown };
  if (inFlight === undefined) throw new RuntimeFailure('the answer is not of a gateway');
  return inFlight;
}

function nameOf(command: string, { operand }: CommandCall): string {
  if (operand === undefined) {
    const hint = `as \`ledgergate status\` lists them: ledgergate ${command} full-a`;
    throw new UsageError(`${command} needs the NAME of a node, ${hint}`);
  }
  return operand;
}

/** Throws UsageError for what cannot be an address. */
async function operationsUrl(command: string, path: string, call: CommandCall): Promise<URL> {
  if (call.operand !== undefined) return parseUrl(command, path, call.operand);
  return urlOf(await operationsAddress(command, call), path);
}

function parseUrl(command: string, path: string, text: string): URL {
  if (!/^http:\/\/./.test(text) || !URL.canParse(text)) {
    throw new UsageError(`${command}: expected a URL such as http://127.0.0.1:9090, got "${text}"`);
  }
  return new URL(path, text);
}

/** A call of `/admin`. */
interface AdminCall {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: object;
  readonly timeoutMs: number;
}

/**
 * The JSON of a 2xx of `/admin`, at `--url` or else the port of the config, with the token in `--token-file` or else the
 * config's, if any. Throws RuntimeFailure, and UsageError for what cannot be an address or a token.
 */
export async function askAdmin(call: CommandCall, { method, path, body, timeoutMs }: AdminCall): Promise<unknown> {
  const address = await operationsAddress('this command', { ...call, operand: undefined });
  const url = urlOf(address, path);
  const token = readToken(call) ?? address.token;
  const text = body === undefined ? undefined : JSON.stringify(body);
  const headers = {
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
  };
  const answer = await fetchText(url, timeoutMs, { method, headers }, text);
  return parseJson(answer);
}

/** The token in `--token-file`, without the line break at its end. */
function readToken({ given }: CommandCall): string | undefined {
  const file = given.get('token-file')?.values[0];
  if (file === undefined) return undefined;
  let token: string;
  try {
    token = readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw new RuntimeFailure(`cannot read ${file}: ${(error as NodeJS.ErrnoException).code}`, { cause: error });
  }
  if (!/^[!-~]+$/.test(token)) throw new UsageError(`--token-file: ${file} does not hold one token`);
  return token;
}

function urlOf({ host, port }: OperationsAddress, path: string): URL {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return new URL(`http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}${path}`);
}

interface OperationsAddress {
  readonly host: string;
  readonly port: number;
  readonly token?: string | undefined;
}

async function operationsAddress(command: string, call: CommandCall): Promise<OperationsAddress> {
  if (call.given.has('config')) {
    const { loadGivenConfig } = await import('./given-config.ts');
    // Not the secrets of other sections, which an operator's shell does not have.
    const { operations } = loadGivenConfig(command, call, { isOfOperations: true }).config;
    return { ...operations, ...findUrl(call) };
  }
  const byUrl = findUrl(call);
  if (byUrl !== undefined) return byUrl;
  const host = call.given.get('operations-host')?.values[0] ?? '127.0.0.1';
  const setting = call.given.get('operations-port');
  const text = setting?.values[0] ?? '9090';
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535)
    throw new UsageError(`${setting?.origin}: expected a port that can be asked, got "${text}"`);
  return { host, port };
}

/** The address in `--url`. Throws UsageError. */
function findUrl({ given }: CommandCall): OperationsAddress | undefined {
  const text = given.get('url')?.values[0];
  if (text === undefined) return undefined;
  const { hostname, port } = parseUrl('--url', '/', text);
  return { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? 80 : Number(port) };
}

/** A status has some tens of kilobytes, a list of 100,000 keys some 20 MB. */
const mostBytes = 64 * 1024 * 1024;

/** The text of a 2xx. Throws RuntimeFailure for any other answer, and for none within `timeoutMs`. */
async function fetchText(url: URL, timeoutMs: number, options: RequestOptions = {}, body?: string): Promise<string> {
  const failure = (why: string): RuntimeFailure => new RuntimeFailure(`${url.href} ${why}`);
  const request = open(url, { ...options, signal: AbortSignal.timeout(timeoutMs), agent: false }).end(body);
  const [response] = (await once(request, 'response').catch(({ name, code }: NodeJS.ErrnoException) => {
    throw failure(name === 'AbortError' ? `gave no answer within ${timeoutMs} ms` : `cannot be reached (${code})`);
  })) as [IncomingMessage];
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of response) {
      chunks.push(chunk as Buffer);
      if (chunks.reduce((sum, { length }) => sum + length, 0) > mostBytes) throw new Error('too much');
    }
  } catch (error) {
    const isLate = (error as Error).name === 'AbortError';
    throw failure(isLate ? `gave no answer within ${timeoutMs} ms` : 'broke off');
  }
  const text = Buffer.concat(chunks).toString();
  const { statusCode = 0 } = response;
  if (statusCode >= 200 && statusCode < 300) return text;
  throw failure(`answered ${statusCode}${messageIn(text)}`);
}

/** The message of an error of `/admin`, after a colon; '' for other answers. */
function messageIn(text: string): string {
  const { message } = Object(parseJson(text)) as { readonly message?: unknown };
  return typeof message === 'string' ? `: ${message.replace(/\p{Cc}/gu, '?')}` : '';
}

/** `undefined`: the text is no JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
