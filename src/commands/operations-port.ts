/** Requests to a running gateway's operations port, given by URL, by config, or by host and port. */
import { get } from '../proxy/http/server/lean-http.ts';
import { type CommandCall, RuntimeFailure, UsageError } from './command.ts';

/** Throws UsageError for what cannot be an address. */
export async function operationsUrl(command: string, path: string, call: CommandCall): Promise<URL> {
  if (call.operand !== undefined) {
    if (!/^http:\/\/./.test(call.operand) || !URL.canParse(call.operand)) {
      throw new UsageError(`${command}: expected a URL such as http://127.0.0.1:9090, got "${call.operand}"`);
    }
    return new URL(path, call.operand);
  }
  const { host, port } = await operationsAddress(command, call);
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return new URL(`http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}${path}`);
}

async function operationsAddress(
  command: string,
  call: CommandCall,
): Promise<{ readonly host: string; readonly port: number }> {
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
export function fetchText(url: URL, timeoutMs: number): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const fail = (why: string): void => reject(new RuntimeFailure(`${url.href} ${why}`));
  const request = get(url, { signal: AbortSignal.timeout(timeoutMs), agent: false }, (response) => {
    if (response.statusCode !== 200) {
      fail(`answered ${response.statusCode}`);
      response.destroy();
      return;
    }
    const chunks: Buffer[] = [];
    let size = 0;
    response.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size > mostBytes) response.destroy(new Error('too much'));
    });
    response.on('end', () => resolve(Buffer.concat(chunks).toString()));
    response.on('error', () => fail('broke off'));
  });
  request.on('error', (error: NodeJS.ErrnoException) =>
    fail(error.name === 'AbortError' ? `gave no answer within ${timeoutMs} ms` : `cannot be reached (${error.code})`),
  );
  return promise;
}
