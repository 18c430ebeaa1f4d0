/** Command line and environment into settings: a flag beats its variable. */
import { parseArgs } from 'node:util';
import { nearMissHint } from '../ledger/index.ts';
import { type CliCommand, type Environment, type GivenSettings, UsageError } from './command.ts';
import { type Flag, type FlagName, flags, variableOf } from './flags.ts';

/** One command line, parsed: flags and environment together. */
export interface Arguments {
  readonly help: boolean;
  readonly operand: string | undefined;
  readonly given: GivenSettings;
}

type FlagValues = Map<string, { readonly values: readonly string[]; readonly origin: string }>;

/** Parses flags and LEDGERGATE_* variables; a flag wins over its variable. Throws `UsageError`. */
export function parseArguments(command: CliCommand, args: readonly string[], env: Environment): Arguments {
  const options = Object.fromEntries(
    command.flags.map((flag) => [flag, { type: parseKind(flags[flag]), multiple: true }]),
  );
  // Not strict: its messages name neither the near miss nor what the command takes.
  const { tokens } = parseArgs({
    args: [...args],
    options: { ...options, help: { type: 'boolean', short: 'h' } },
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const given: FlagValues = new Map();
  const operands: string[] = [];
  let help = false;
  for (const token of tokens) {
    if (token.kind === 'positional') operands.push(token.value);
    if (token.kind !== 'option') continue;
    if (token.name === 'help') help = true;
    else addFlag(command, token, given);
  }
  const extra = operands[command.operand === undefined ? 0 : 1];
  if (extra !== undefined && !help) throw new UsageError(`${command.name}: unexpected argument "${extra}"`);
  for (const flag of command.flags) if (!given.has(flag)) addVariable(flag, env, given);
  return { help, operand: operands[0], given };
}

interface OptionToken {
  readonly name: string;
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inlineValue: boolean | undefined;
}

function addFlag(command: CliCommand, { name, rawName, value, inlineValue }: OptionToken, given: FlagValues): void {
  if (!isFlag(name) || !command.flags.includes(name)) {
    const known = [...command.flags, 'help'].map((flag) => `--${flag}`);
    throw new UsageError(`${command.name}: unknown flag ${rawName}${nearMissHint(rawName, known)}`);
  }
  const flag: Flag = flags[name];
  if (flag.kind === 'switch') {
    if (value !== undefined) throw new UsageError(`${command.name}: ${rawName} takes no value`);
    given.set(name, { values: ['true'], origin: rawName });
    return;
  }
  // A flag that swallows the next flag as its value hides two mistakes in one.
  if (value === undefined || value === '' || (inlineValue !== true && value.startsWith('-'))) {
    throw new UsageError(`${command.name}: ${rawName} needs a value: ${rawName} ${flag.value ?? 'VALUE'}`);
  }
  const earlier = given.get(name)?.values ?? [];
  if (earlier.length > 0 && flag.kind !== 'list') throw new UsageError(`${command.name}: ${rawName} is given twice`);
  checkChoice(flag, rawName, value);
  given.set(name, { values: [...earlier, value], origin: rawName });
}

/** An empty variable is as good as none: that is how compose files and charts leave one out. */
function addVariable(name: FlagName, env: Environment, given: FlagValues): void {
  const flag: Flag = flags[name];
  const variable = variableOf(name);
  const text = env[variable]?.trim() ?? '';
  if (text === '') return;
  // Kubernetes describes a Service called `ledgergate` as LEDGERGATE_PORT=tcp://10.0.0.1:8080 in every container.
  if (flag.kind === 'port' && /^(?:tcp|udp|sctp):\/\//.test(text)) return;
  if (flag.kind === 'switch') {
    if (!['1', 'true', '0', 'false'].includes(text))
      throw new UsageError(`${variable}: expected true or false, got "${text}"`);
    if (text === '1' || text === 'true') given.set(name, { values: ['true'], origin: variable });
    return;
  }
  checkChoice(flag, variable, text);
  const words = flag.kind === 'list' ? text.split(',').map((word) => word.trim()) : [text];
  given.set(name, { values: words.filter((word) => word !== ''), origin: variable });
}

function checkChoice(flag: Flag, origin: string, value: string): void {
  if (flag.choices === undefined || flag.choices.includes(value)) return;
  throw new UsageError(
    `${origin}: expected ${flag.choices.join(' or ')}, got "${value}"${nearMissHint(value, flag.choices)}`,
  );
}

function isFlag(name: string): name is FlagName {
  return Object.hasOwn(flags, name);
}

function parseKind(flag: Flag): 'boolean' | 'string' {
  return flag.kind === 'switch' ? 'boolean' : 'string';
}
