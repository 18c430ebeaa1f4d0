/** The config a call asks for: its file, under its flags and variables. */
import { loadConfig, type LoadedConfig, type LoadOptions } from '../config/index.ts';
import { type CommandCall, type ExitCode, UsageError } from './command.ts';
import { strayVariables } from './flags.ts';

/** The config of a call, and the file it was read from, if any. */
export interface GivenConfig extends LoadedConfig {
  readonly file: string | undefined;
}

/** A fleet for a config that is read without its nodes. */
export const noFleet = {
  path: ['upstreams'],
  value: [{ name: 'none', url: 'http://none.invalid' }],
  origin: '',
};

/** See `LoadOptions`. Throws ConfigError for what is wrong with the config, UsageError when the call names none. */
export function loadGivenConfig(
  command: string,
  call: CommandCall,
  options: Pick<LoadOptions, 'isOfOperations' | 'readSecret'> = {},
): GivenConfig {
  const file = givenFile(command, call);
  const { given, terminal } = call;
  const { env } = terminal;
  const hasFleet = [given.get('upstream'), given.get('archival')].some((setting) => setting?.values[0] !== undefined);
  if (file === undefined && !hasFleet) {
    // A wrong value is reported before the missing file.
    loadConfig({ preset: [noFleet], given, env });
    throw new UsageError(`${command} needs a config FILE or --upstream URL; see ledgergate ${command} --help`);
  }
  const loaded = loadConfig({ given, env, ...options, ...(file === undefined ? {} : { file }) });
  return { ...loaded, file, warnings: [...loaded.warnings, ...strayVariables(env)] };
}

/** The file, as an operand or by --config. */
export function givenFile(command: string, { operand, given }: CommandCall): string | undefined {
  const setting = given.get('config');
  if (operand !== undefined && setting?.origin === '--config') {
    throw new UsageError(`${command}: give the file once: as ${operand} or by --config`);
  }
  return operand ?? setting?.values[0];
}

/** `config FILE`: the effective config as YAML that could be read again, secrets masked. */
export async function config(call: CommandCall): Promise<ExitCode> {
  const { redacted, warnings } = loadGivenConfig('config', call);
  for (const warning of warnings) call.terminal.error(`warning: ${warning}`);
  const { stringify } = await import('yaml');
  call.terminal.out(stringify(redacted).trimEnd());
  return 0;
}
