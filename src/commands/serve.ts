import type { CommandCall, ExitCode } from './command.ts';
import { digestOf } from '../config/source/text-file.ts';
import { givenFile, loadGivenConfig } from './given-config.ts';
import { runGateway } from './run-gateway.ts';

/** Balancers that poll readiness every second or two stop sending within it; slower ones need a `preStop`. */
export const drainDelayMs = 2_000;

/** `serve`: the gateway in front of the nodes the config names. */
export async function serve(call: CommandCall): Promise<ExitCode> {
  const file = givenFile('serve', call);
  // Taken before the file is read: a change in between counts as one.
  const digest = file === undefined ? undefined : digestOf(file);
  const load = () => loadGivenConfig('serve', call);
  return runGateway(load(), { terminal: call.terminal, drainDelayMs, source: { file, digest, load } });
}
