/** `health [URL]`: is the gateway of this container ready? Loads next to nothing, because it is run every few seconds. */
import { get } from 'node:http';
import { type Call, type ExitCode, UsageError } from './command.ts';

const timeoutMs = 2_000;

export async function health(call: Call): Promise<ExitCode> {
  const url = await readyzUrl(call);
  const answer = await ask(url);
  if (answer === 200) {
    call.terminal.out('ready');
    return 0;
  }
  call.terminal.error(`not ready: ${url.href} ${typeof answer === 'number' ? `answered ${answer}` : answer}`);
  return 1;
}

async function readyzUrl(call: Call): Promise<URL> {
  if (call.operand !== undefined) {
    if (!/^http:\/\/./.test(call.operand) || !URL.canParse(call.operand)) {
      throw new UsageError(`health: expected a URL such as http://127.0.0.1:9090, got "${call.operand}"`);
    }
    return new URL('/readyz', call.operand);
  }
  const { host, port } = await operationsAddress(call);
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return new URL(`http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}/readyz`);
}

async function operationsAddress(call: Call): Promise<{ readonly host: string; readonly port: number }> {
  if (call.given.has('config')) {
    const { loadGivenConfig } = await import('./given-config.ts');
    return loadGivenConfig('health', call).config.operations;
  }
  const setting = call.given.get('operations-port');
  const text = setting?.values[0] ?? '9090';
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535)
    throw new UsageError(`${setting?.origin}: expected a port that can be asked, got "${text}"`);
  return { host: '127.0.0.1', port };
}

/** The status of the answer, or why there was none. */
async function ask(url: URL): Promise<number | string> {
  const { promise, resolve } = Promise.withResolvers<number | string>();
  const request = get(url, { signal: AbortSignal.timeout(timeoutMs), agent: false }, (response) => {
    resolve(response.statusCode ?? 0);
    response.destroy();
  });
  request.on('error', (error: NodeJS.ErrnoException) => {
    resolve(
      error.name === 'AbortError' ? `gave no answer within ${timeoutMs} ms` : `cannot be reached (${error.code})`,
    );
  });
  return promise;
}
