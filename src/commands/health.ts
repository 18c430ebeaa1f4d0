/** `health [URL]`: readiness of the gateway in this container. Imports little, because it runs every few seconds. */
import { type CommandCall, type ExitCode, RuntimeFailure } from './command.ts';
import { fetchText, operationsUrl } from './operations-port.ts';

const timeoutMs = 2_000;

/** `health`: exit code 0 when `/readyz` of a running gateway answers 200, else 1 with the reason. */
export async function health(call: CommandCall): Promise<ExitCode> {
  const url = await operationsUrl('health', '/readyz', call);
  try {
    await fetchText(url, timeoutMs);
  } catch (error) {
    if (!(error instanceof RuntimeFailure)) throw error;
    call.terminal.error(`not ready: ${error.message}`);
    return 1;
  }
  call.terminal.out('ready');
  return 0;
}
