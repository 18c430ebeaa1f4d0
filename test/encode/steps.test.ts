// The work of one encoding has a bound of its own, whatever the ABIs and the arguments are.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileModule, type CompiledModule } from '../../src/encode/abi.ts';
import { encodeSubmission } from '../../src/encode/encode-submission.ts';
import { maxSteps, type EncodeOutcome } from '../../src/encode/outcome.ts';
import { countWork, startCounting } from '../support/counted-work.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { generateWork, type WorkCase } from './generate-abi.ts';
import { encodeWork } from './work.ts';

interface Struct {
  readonly name: string;
  readonly generics: number;
  readonly fields: readonly (readonly [name: string, type: string])[];
}

const constraints = (count: number): readonly unknown[] => Array.from({ length: count }, () => ({ constraints: [] }));

function moduleOf(params: readonly string[], structs: readonly Struct[], generics = 0): CompiledModule {
  const abi = {
    address: '0xcafe',
    name: 'm',
    exposed_functions: [{ name: 'f', is_entry: true, generic_type_params: constraints(generics), params }],
    structs: structs.map(({ name, generics: count, fields }) => ({
      name,
      is_native: false,
      generic_type_params: constraints(count),
      fields: fields.map(([field, type]) => ({ name: field, type })),
    })),
  };
  return compileModule(JSON.stringify({ bytecode: '0x', abi }));
}

function encode(module: CompiledModule, values: string, types: readonly string[] = []): Promise<EncodeOutcome> {
  const call = `"function":"0xcafe::m::f","type_arguments":${JSON.stringify(types)},"arguments":${values}`;
  const envelope = '"sequence_number":"0","max_gas_amount":"1","gas_unit_price":"1","expiration_timestamp_secs":"1"';
  const body = `{"sender":"0x1",${envelope},"payload":{"type":"entry_function_payload",${call}}}`;
  return encodeSubmission(body, { chainId: 4, signingDomain: 'APTOS', loadModule: () => Promise.resolve(module) });
}

const tooMuch = { kind: 'forward', reason: 'too many steps' };

test('a chain of structs whose type argument grows eightfold with each is left to a node', async () => {
  const last = 10;
  const shared = `0xcafe::m::P<${Array.from({ length: 8 }, () => 'T0').join()}>`;
  const structs = Array.from({ length: last + 1 }, (_, at): Struct => {
    const field = at === last ? '0x1::object::Object<T0>' : `0xcafe::m::S${at + 1}<${shared}>`;
    return { name: `S${at}`, generics: 1, fields: [['x', field]] };
  });
  const module = moduleOf(['0xcafe::m::S0<u8>'], structs);

  const started = cpuMs();
  const outcome = await encode(module, '[{}]');

  assert.deepEqual(outcome, tooMuch);
  assert.ok(cpuMs() - started < 300);
});

test('a type argument that stands in a parameter ten thousand times is left to a node', async () => {
  const parameter = `0xcafe::m::S<${Array.from({ length: 10_000 }, () => 'T0').join()}>`;
  const argument = `0x1::option::Option<${'vector<'.repeat(5)}u8${'>'.repeat(5)}>`;
  assert.deepEqual(await encode(moduleOf([parameter], [], 1), '[{}]', [argument]), tooMuch);
});

test('a struct of fields without end is left to a node', async () => {
  const type = `${'vector<'.repeat(6)}bool${'>'.repeat(6)}`;
  const fields = Array.from({ length: 2_500 }, (_, at): [string, string] => [`f${at}`, type]);
  const module = moduleOf(['0xcafe::m::S'], [{ name: 'S', generics: 0, fields }]);
  assert.deepEqual(await encode(module, '[{}]'), tooMuch);
});

test('a struct that has a field twice is left to a node', async () => {
  const fields: readonly [string, string][] = [
    ['a', 'u64'],
    ['a', 'u64'],
  ];
  const module = moduleOf(['0xcafe::m::S'], [{ name: 'S', generics: 0, fields }]);
  assert.deepEqual(await encode(module, '[{"a":"1"}]'), { kind: 'forward', reason: 'struct argument' });
});

function answerOf(bytecode: string): string {
  const abi = { address: '0x1', name: 'm', exposed_functions: [], structs: [] };
  return JSON.stringify({ bytecode, abi });
}

test('a module answer above 256 KiB has no ABI here', () => {
  const room = 256 * 1024 - answerOf('').length;
  assert.notEqual(compileModule(answerOf('0'.repeat(room))).abi, undefined);
  assert.equal(compileModule(answerOf('0'.repeat(room + 1))).abi, undefined);
});

test('5,000 values in one argument are encoded', async () => {
  const items = JSON.stringify(Array.from({ length: 4_980 }, (_, at) => String(at)));
  assert.equal((await encode(moduleOf(['vector<u64>'], []), `[${items}]`)).kind, 'encoded');
});

// The encoder's work stays within its steps and texts for all ABIs and arguments.

/** Matches the sources that take part in an encoding. */
const files = /\/src\/(?:encode|ledger)\//;
/** Blocks of code that one step may take, and one character of request and ABIs. */
const perStep = 10;
const perCharacter = 8;
const perRequest = 2_500;

await startCounting();

async function assertCounted(made: WorkCase, title: string): Promise<void> {
  const run: { steps?: number } = {};
  const blocks = await countWork(files, async () => {
    run.steps = (await encodeWork(made)).steps;
  });
  const { steps = Infinity } = run;
  const characters = [made.bodyText, ...made.modules.values()].reduce((sum, text) => sum + text.length, 0);

  assert.ok(steps <= maxSteps, `${title}: ${steps} steps`);
  const bound = perStep * steps + perCharacter * characters + perRequest;
  assert.ok(blocks <= bound, `${title}: ${blocks} blocks with ${steps} steps and ${characters} characters`);
}

test('the code that runs for an encoding is bounded by its steps and its texts', async () => {
  for (let seed = 1; seed <= 300; seed += 1) await assertCounted(generateWork(seed), `case ${seed}`);
});
