import { stringify } from 'yaml';
import type { CommandCall, ExitCode } from './command.ts';
import { loadGivenConfig } from './given-config.ts';

/** `config FILE`: the effective config as YAML that could be read again, secrets masked. */
export async function config(call: CommandCall): Promise<ExitCode> {
  const { redacted, warnings } = loadGivenConfig('config', call);
  for (const warning of warnings) call.terminal.error(`warning: ${warning}`);
  call.terminal.out(stringify(redacted).trimEnd());
  return Promise.resolve(0);
}
