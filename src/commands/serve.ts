import type { Call, ExitCode } from './command.ts';
import { loadGivenConfig } from './given-config.ts';
import { runGateway } from './run-gateway.ts';

/** Balancers that watch endpoints or readiness every second or two have heard by then; slower ones need a `preStop`. */
const drainDelayMs = 2_000;

/** `serve`: the gateway in front of the nodes the config names. */
export async function serve(call: Call): Promise<ExitCode> {
  return runGateway(loadGivenConfig('serve', call), { terminal: call.terminal, drainDelayMs });
}
