// The work of one encoding has a bound of its own, whatever the ABIs and the arguments are.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileModule } from '../../src/encode/abi.ts';
import { maxSteps } from '../../src/encode/outcome.ts';
import { countWork, startCounting } from '../support/counted-work.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { generateWork, type WorkCase } from './generate-abi.ts';
import { constraints, encodeBy, moduleOf } from './requests.ts';
import { encodeWork } from './work.ts';

/** A struct of the ABI. */
function struct(name: string, generics: number, fields: readonly (readonly [name: string, type: string])[]) {
  const typed = fields.map(([field, type]) => ({ name: field, type }));
  return { name, is_native: false, generic_type_params: constraints(generics), fields: typed };
}

const tooMuch = { kind: 'forward', reason: 'too many steps' };

await startCounting();

test('a chain of structs whose type argument grows eightfold with each is left to a node', async () => {
  const last = 10;
  const shared = `0xcafe::m::P<${Array.from({ length: 8 }, () => 'T0').join()}>`;
  const structs = Array.from({ length: last + 1 }, (_, at) => {
    const field = at === last ? '0x1::object::Object<T0>' : `0xcafe::m::S${at + 1}<${shared}>`;
    return struct(`S${at}`, 1, [['x', field]]);
  });
  const module = moduleOf(['0xcafe::m::S0<u8>'], 0, { structs });

  const started = cpuMs();
  const outcome = await encodeBy(module, { values: '[{}]' });

  assert.deepEqual(outcome, tooMuch);
  assert.ok(cpuMs() - started < 300);
});

test('a type argument that stands in a parameter ten thousand times is left to a node', async () => {
  const parameter = `0xcafe::m::S<${Array.from({ length: 10_000 }, () => 'T0').join()}>`;
  const argument = `0x1::option::Option<${'vector<'.repeat(5)}u8${'>'.repeat(5)}>`;
  assert.deepEqual(await encodeBy(moduleOf([parameter], 1), { values: '[{}]', types: [argument] }), tooMuch);
});

test('a struct of fields without end is left to a node', async () => {
  const type = `${'vector<'.repeat(6)}bool${'>'.repeat(6)}`;
  const fields = Array.from({ length: 2_500 }, (_, at): [string, string] => [`f${at}`, type]);
  const module = moduleOf(['0xcafe::m::S'], 0, { structs: [struct('S', 0, fields)] });
  assert.deepEqual(await encodeBy(module, { values: '[{}]' }), tooMuch);
});

test('a struct that has a field twice is left to a node', async () => {
  const fields: readonly [string, string][] = [
    ['a', 'u64'],
    ['a', 'u64'],
  ];
  const module = moduleOf(['0xcafe::m::S'], 0, { structs: [struct('S', 0, fields)] });
  const outcome = await encodeBy(module, { values: '[{"a":"1"}]' });
  assert.deepEqual(outcome, { kind: 'forward', reason: 'struct argument' });
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
  assert.equal((await encodeBy(moduleOf(['vector<u64>']), { values: `[${items}]` })).kind, 'encoded');
});

// The encoder's work stays within its steps and texts for all ABIs and arguments.

/** Matches the sources that take part in an encoding. */
const files = /\/src\/(?:encode|ledger)\//;
/** Blocks of code that one step may take, and one character of request and ABIs. */
const perStep = 10;
const perCharacter = 8;
const perRequest = 2_500;

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
