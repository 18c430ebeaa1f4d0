import type { Call, ExitCode } from './command.ts';
import { loadGivenConfig } from './given-config.ts';
import { runGateway } from './run-gateway.ts';

/** `serve`: the gateway in front of the nodes the config names. */
export async function serve(call: Call): Promise<ExitCode> {
  return runGateway(loadGivenConfig('serve', call), { terminal: call.terminal });
}
