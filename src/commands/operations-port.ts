/** Requests to a running gateway's operations port, given by URL, by config, or by host and port. */
import type { RequestOptions } from 'node:http';
import { request as open } from '../proxy/http/server/lean-http.ts';
import { type CommandCall, RuntimeFailure, UsageError } from './command.ts';

/** Throws UsageError for what cannot be an address. */
export async function operationsUrl(command: string, path: string, call: CommandCall): Promise<URL> {
  if (call.operand !== undefined) {
    if (!/^http:\/\/./.test(call.operand) || !URL.canParse(call.operand)) {
      throw new UsageError(`${command}: expected a URL such as http://127.0.0.1:9090, got "${call.operand}"`);
    }
    return new URL(path, call.operand);
  }
  return urlOf(await operationsAddress(command, call), path);
}

/** Member `name` of the answer of `/admin`, at the port and with the token of the config, if given. Throws RuntimeFailure. */
export async function askAdmin(path: string, name: string, call: CommandCall, timeoutMs: number): Promise<unknown> {
  const address = await operationsAddress('this command', { ...call, operand: undefined });
  const headers = address.token === undefined ? {} : { authorization: `Bearer ${address.token}` };
  const url = urlOf(address, path);
  const member = memberOf(await fetchText(url, timeoutMs, { method: 'POST', headers }), name);
  if (member === undefined) throw new RuntimeFailure(`${url.href} is not of a gateway`);
  return member;
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
    return loadGivenConfig(command, call).config.operations;
  }
  const host = call.given.get('operations-host')?.values[0] ?? '127.0.0.1';
  const setting = call.given.get('operations-port');
  const text = setting?.values[0] ?? '9090';
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535)
    throw new UsageError(`${setting?.origin}: expected a port that can be asked, got "${text}"`);
  return { host, port };
}

/** A status has some tens of kilobytes. */
const mostBytes = 8 * 1024 * 1024;

/** The text of a 200. Throws RuntimeFailure for any other answer, and for none within `timeoutMs`. */
export function fetchText(url: URL, timeoutMs: number, options: RequestOptions = {}): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const fail = (why: string): void => reject(new RuntimeFailure(`${url.href} ${why}`));
  const signal = AbortSignal.timeout(timeoutMs);
  const request = open(url, { ...options, signal, agent: false }, (response) => {
    const chunks: Buffer[] = [];
    let size = 0;
    response.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size > mostBytes) response.destroy(new Error('too much'));
    });
    response.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      if (response.statusCode === 200) resolve(text);
      else fail(`answered ${response.statusCode}${messageIn(text)}`);
    });
    response.on('error', () => fail('broke off'));
  });
  request.on('error', (error: NodeJS.ErrnoException) =>
    fail(error.name === 'AbortError' ? `gave no answer within ${timeoutMs} ms` : `cannot be reached (${error.code})`),
  );
  request.end();
  return promise;
}

/** The message of an error of `/admin`, after a colon; '' for other answers. */
function messageIn(text: string): string {
  const message = memberOf(text, 'message');
  return typeof message === 'string' ? `: ${message.replace(/\p{Cc}/gu, '?')}` : '';
}

/** The member of a JSON object; `undefined`: there is none, or the text is something else. */
function memberOf(text: string, name: string): unknown {
  try {
    return (JSON.parse(text) as Readonly<Record<string, unknown>>)[name];
  } catch {
    return undefined;
  }
}
