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
  const { url } = await portOf('health', call);
  try {
    await fetchText(new URL('/readyz', url), healthMs);
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
  const url = new URL('/status.json', (await portOf('status', call)).url);
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
  return post('drain', call, (inFlight) => `is drained; requests in flight: ${inFlight}`);
}

/** `resume NAME`: the node gets requests again. */
export async function resume(call: CommandCall): Promise<ExitCode> {
  return post('resume', call, () => 'is resumed');
}

async function post(action: string, call: CommandCall, textOf: (inFlight: string) => string): Promise<ExitCode> {
  const name = call.operand;
  if (name === undefined) {
    const hint = `as \`ledgergate status\` lists them: ledgergate ${action} full-a`;
    throw new UsageError(`${action} needs the NAME of a node, ${hint}`);
  }
  const path = `/admin/upstreams/${encodeURIComponent(name)}/${action}`;
  const answer = await askAdmin(call, { method: 'POST', path, timeoutMs: drainMs });
  const { inFlight } = Object(answer) as { readonly inFlight?: number };
  if (inFlight === undefined) throw new RuntimeFailure('the answer is not of a gateway');
  call.terminal.out(`${name} ${textOf(String(inFlight))}`);
  return 0;
}

interface AdminCall {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: object | undefined;
  readonly timeoutMs: number;
}

/**
 * The JSON of a 2xx of `/admin`, at `--url` or else the port of the config, with the token in `--token-file` or else the
 * config's, if any. Throws RuntimeFailure, and UsageError for what cannot be an address or a token.
 */
export async function askAdmin(call: CommandCall, { method, path, body, timeoutMs }: AdminCall): Promise<unknown> {
  const port = await portOf('this command', { ...call, operand: undefined });
  const token = readToken(call) ?? port.token;
  const text = body === undefined ? undefined : JSON.stringify(body);
  const headers = {
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
  };
  return parseJson(await fetchText(new URL(path, port.url), timeoutMs, { method, headers }, text));
}

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

/** The port in the operand, else by `--url`, else by config, else by host and port. Throws UsageError. */
async function portOf(
  command: string,
  call: CommandCall,
): Promise<{ readonly url: URL; readonly token?: string | undefined }> {
  const { operand, given } = call;
  if (operand !== undefined) return { url: parseUrl(command, operand) };
  const text = given.get('url')?.values[0];
  const byUrl = (): URL | undefined =>
    text === undefined ? undefined : new URL(`http://${parseUrl('--url', text).host}`);
  if (given.has('config')) {
    const { loadGivenConfig } = await import('./given-config.ts');
    // Not the secrets of other sections, which an operator's shell does not have.
    const { host, port, token } = loadGivenConfig(command, call, { isOfOperations: true }).config.operations;
    return { url: byUrl() ?? urlOf(host, port), token };
  }
  const host = given.get('operations-host')?.values[0] ?? '127.0.0.1';
  return { url: byUrl() ?? urlOf(host, portNumber(call)) };
}

function parseUrl(origin: string, text: string): URL {
  if (/^http:\/\/./.test(text) && URL.canParse(text)) return new URL(text);
  throw new UsageError(`${origin}: expected a URL such as http://127.0.0.1:9090, got "${text}"`);
}

function portNumber({ given }: CommandCall): number {
  const setting = given.get('operations-port');
  const text = setting?.values[0] ?? '9090';
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new UsageError(`${setting?.origin}: expected a port that can be asked, got "${text}"`);
}

function urlOf(host: string, port: number): URL {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return new URL(`http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`);
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
