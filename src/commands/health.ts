/** `health [URL]`: readiness of the gateway in this container. Imports little, because it runs every few seconds. */
import { get } from '../proxy/http/server/lean-http.ts';
import type { CommandCall, ExitCode } from './command.ts';
import { operationsUrl } from './operations-url.ts';

const timeoutMs = 2_000;

/** `health`: exit code 0 when `/readyz` of a running gateway answers 200, else 1 with the reason. */
export async function health(call: CommandCall): Promise<ExitCode> {
  const url = await operationsUrl('health', '/readyz', call);
  const answer = await ask(url);
  if (answer === 200) {
    call.terminal.out('ready');
    return 0;
  }
  call.terminal.error(`not ready: ${url.href} ${typeof answer === 'number' ? `answered ${answer}` : answer}`);
  return 1;
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
