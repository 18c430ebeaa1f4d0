/**
 * `keys create|list|revoke`: the keys of clients, in a keys file (`--file FILE`, or `--config FILE` that names it), or at a
 * running gateway (`--url`). A running gateway reads a changed file again by itself.
 */
import { z } from 'zod';
import { describeKey, KeysFault, KeysFileEditor } from '../access/index.ts';
import { ConfigError, type Problem } from '../config/index.ts';
import { nearMissHint } from '../ledger/index.ts';
import { type CommandCall, type ExitCode, RuntimeFailure, UsageError, formatTable } from './command.ts';
import type { FlagName } from './flags.ts';
import { type GivenConfig, loadGivenConfig } from './given-config.ts';
import { askAdmin } from './operations-port.ts';

const actions: Readonly<Record<string, (call: CommandCall) => Promise<ExitCode>>> = { create, list, revoke };

/** Runs the action of the call. */
export async function keys(call: CommandCall): Promise<ExitCode> {
  const { operand } = call;
  const action = operand !== undefined && Object.hasOwn(actions, operand) ? actions[operand] : undefined;
  if (action === undefined) {
    const met = operand === undefined ? '' : `, got "${operand}"${nearMissHint(operand, Object.keys(actions))}`;
    throw new UsageError(`keys: expected create, list or revoke${met}`);
  }
  try {
    return await action(call);
  } catch (error) {
    throw error instanceof KeysFault ? new RuntimeFailure(error.message, { cause: error }) : error;
  }
}

/** The file and its config, if given; `undefined`: the keys of a running gateway. */
function findFile(call: CommandCall): { readonly file: string; readonly config: GivenConfig | undefined } | undefined {
  const given = text(call, 'file');
  if (call.given.has('url')) {
    if (given === undefined) return undefined;
    throw new UsageError(`keys ${call.operand}: give either --file or --url`);
  }
  const config = call.given.has('config') ? loadGivenConfig('keys', { ...call, operand: undefined }) : undefined;
  const file = given ?? config?.config.access?.keys.file;
  if (file !== undefined) return { file, config };
  if (config !== undefined) throw new UsageError(`keys: ${config.file} has no access.keys.file: give --file FILE`);
  throw new UsageError(`keys ${call.operand}: --file, --config or --url is needed; see ledgergate keys --help`);
}

/** Prints the key, the only time that it is there to be read. */
async function create(call: CommandCall): Promise<ExitCode> {
  const key = {
    name: required(call, 'name'),
    tenant: text(call, 'tenant'),
    plan: required(call, 'plan'),
    // A faulty value is reported by the checks of the file, with its place.
    operations: words(call, 'operations'),
    origins: words(call, 'origins'),
    addresses: words(call, 'addresses'),
    expires: text(call, 'expires'),
  };
  const found = findFile(call);
  let made: string;
  if (found === undefined) made = parse(created, await askGateway(call, 'POST', '', key)).key;
  else {
    if (found.config !== undefined) checkPlan(key.plan, found.config);
    made = await KeysFileEditor.create(found.file, key);
    if (found.config === undefined) call.terminal.error(`The plan is not checked without --config FILE.`);
  }
  const place = found?.file ?? 'the gateway';
  call.terminal.error(`The key of ${key.name}, shown this once; ${place} has its SHA-256 only:`);
  call.terminal.out(made);
  return 0;
}

/** A key of a missing plan admits no request. */
function checkPlan(plan: string, { config, file }: GivenConfig): void {
  const plans = Object.keys(config.access?.plans ?? {});
  if (plans.includes(plan)) return;
  const hint = nearMissHint(plan, plans) || (plans.length === 0 ? '' : `; it has ${plans.join(', ')}`);
  throw new UsageError(`--plan: access.plans of ${file} has no plan "${plan}"${hint}`);
}

/** 2: some entries are wrong. */
async function list(call: CommandCall): Promise<ExitCode> {
  const file = findFile(call)?.file;
  const { keys, problems } =
    file === undefined ? parse(listed, await askGateway(call, 'GET')) : listOf(KeysFileEditor.list(file));
  if (text(call, 'format') === 'json') call.terminal.out(JSON.stringify(keys, null, 2));
  else {
    const heads = ['NAME', 'TENANT', 'PLAN', 'OPERATIONS', 'ORIGINS', 'ADDRESSES', 'EXPIRES', 'SHA256'];
    for (const line of formatTable([heads, ...keys.map(rowOf)])) call.terminal.out(line);
  }
  return reportWrong(call, problems);
}

function reportWrong({ terminal }: CommandCall, problems: readonly string[]): ExitCode {
  for (const problem of problems) terminal.error(`${problem}: this entry is refused`);
  return problems.length === 0 ? 0 : 2;
}

function rowOf({
  name,
  tenant,
  plan,
  operations,
  origins,
  addresses,
  expires,
  sha256Prefix,
}: ReturnType<typeof describeKey>) {
  const rights = [operations?.join(',') ?? 'all', origins?.join(',') ?? 'any', addresses?.join(',') ?? 'any'];
  return [name, tenant, plan, ...rights, expiry(expires), `${sha256Prefix}...`];
}

function expiry(expires: string | null): string {
  if (expires === null) return 'never';
  const time = expires.replace('.000Z', 'Z');
  return Date.parse(expires) <= Date.now() ? `${time} (past)` : time;
}

async function revoke(call: CommandCall): Promise<ExitCode> {
  const name = required(call, 'name');
  const file = findFile(call)?.file;
  if (file === undefined) {
    await askGateway(call, 'DELETE', `/${encodeURIComponent(name)}`);
    call.terminal.out(`Revoked ${name}: the gateway refuses it.`);
    return 0;
  }
  const { problems } = await KeysFileEditor.revoke(file, name);
  call.terminal.out(`Revoked ${name}: a running gateway refuses it within a second or two.`);
  reportWrong(call, textsOf(problems));
  return 0;
}

/** Longer than the gateway waits for its workers. */
const gatewayMs = 15_000;

function askGateway(call: CommandCall, method: 'GET' | 'POST' | 'DELETE', path = '', body?: object): Promise<unknown> {
  return askAdmin(call, { method, path: `/admin/keys${path}`, body, timeoutMs: gatewayMs });
}

function textsOf(problems: readonly Problem[]): readonly string[] {
  return problems.map((problem) => ConfigError.format(problem));
}

type Listed = { readonly keys: readonly ReturnType<typeof describeKey>[]; readonly problems: readonly string[] };

function listOf({ keys, problems }: ReturnType<typeof KeysFileEditor.list>): Listed {
  return { keys: keys.map(describeKey), problems: textsOf(problems) };
}

const created = z.object({ key: z.string() });
const wordList = z.array(z.string()).nullable();
const listed = z.object({
  // Fields of a later gateway stay.
  keys: z.array(
    z.looseObject({
      name: z.string(),
      tenant: z.string(),
      plan: z.string(),
      operations: wordList,
      origins: wordList,
      addresses: wordList,
      expires: z.string().nullable(),
      sha256Prefix: z.string(),
    }),
  ),
  problems: z.array(z.string()),
}) as z.ZodType<Listed>;

function parse<T>(schema: z.ZodType<T>, answer: unknown): T {
  const { data } = schema.safeParse(answer);
  if (data === undefined) throw new RuntimeFailure('the answer is not of a gateway');
  return data;
}

function text({ given }: CommandCall, flag: FlagName): string | undefined {
  return given.get(flag)?.values[0];
}

function required(call: CommandCall, flag: FlagName): string {
  const value = text(call, flag);
  if (value === undefined)
    throw new UsageError(`keys ${call.operand}: --${flag} is needed; see ledgergate keys --help`);
  return value;
}

/** Repeated, or separated by commas. */
function words({ given }: CommandCall, flag: FlagName): string[] | undefined {
  return given.get(flag)?.values.flatMap((value) => value.split(',').map((word) => word.trim()));
}
