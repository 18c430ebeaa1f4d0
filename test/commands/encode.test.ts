import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { moduleText, readGroup, readText } from '../encode/vectors.ts';
import { binary } from './command-line.ts';

const vectors = readGroup('13-framework.json');
const vector = vectors.find(({ name }) => name === 'coin transfer');
assert.ok(vector !== undefined);
const { request, abi, chain_id: chainId, expected_hex: hex } = vector;
const onChain = ['--chain-id', String(chainId)];

/** Runs the real binary with `request.json` on its standard input and the ABIs as files. */
function encode(t: TestContext, input: unknown, args: readonly string[] = onChain, abis: readonly unknown[] = [abi]) {
  const folder = mkdtempSync(join(tmpdir(), 'encode-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const files = abis.flatMap((module, index) => {
    const file = join(folder, `${index}.json`);
    writeFileSync(file, typeof module === 'string' ? moduleText(module) : JSON.stringify(module));
    return ['--module-abi', file];
  });
  const body = Buffer.isBuffer(input) ? input : JSON.stringify(input);
  return spawnSync(process.execPath, [binary, 'encode', ...files, ...args], { input: body, encoding: 'utf8' });
}

test('encode prints the bytes of a recorded request', (t) => {
  const { status, stdout } = encode(t, request);

  assert.deepEqual([status, stdout.trim()], [0, hex]);
});

test('with --explain the bytes are parted where people parted them by hand', (t) => {
  const { status, stdout } = encode(t, request, [...onChain, '--explain']);

  assert.equal(status, 0);
  const [first, ...table] = stdout.split('\n');
  assert.equal(first, hex);
  const byHand = readText('hand-checked.md').split(/^## /m)[1] ?? '';
  assert.ok(byHand.startsWith('13-framework / coin transfer'));
  const parts = [...byHand.matchAll(/^\| `([0-9a-f]+)` \|/gm)].map((match) => match[1]);
  assert.deepEqual(
    table.flatMap((line) => /^ *\d+ {2}([0-9a-f]+) +\S/.exec(line)?.[1] ?? []),
    parts,
  );
  assert.match(stdout, /argument 1, u64: u64 100000000$/m);
});

test('several modules may be given, and one that is needed and was not is named', (t) => {
  const struct = readGroup('14-beyond-spec.json').find(({ name }) => name === 'FixedPoint32 as a struct');
  assert.ok(struct !== undefined);
  const args = ['--chain-id', String(struct.chain_id)];

  const alone = encode(t, struct.request, args, [struct.abi]);
  const both = encode(t, struct.request, args, [struct.abi, 'recorded/modules/0x1__fixed_point32.json']);

  assert.deepEqual([alone.status, alone.stdout], [1, '']);
  assert.match(alone.stderr, /needs the module 0x1::fixed_point32, given by one more --module-abi/);
  assert.deepEqual([both.status, both.stdout.trim()], [0, struct.expected_hex]);
});

test('another signing domain makes another prefix, of the same length', (t) => {
  const { stdout } = encode(t, request, [...onChain, '--signing-domain', 'NODE']);
  const wrong = encode(t, request, [...onChain, '--signing-domain', 'a b']);

  const prefix = createHash('sha3-256').update('NODE::RawTransaction').digest('hex');
  assert.equal(stdout.trim(), `0x${prefix}${hex?.slice(66)}`);
  assert.equal(wrong.status, 2);
});

test('a refused request, and one that is left to nodes, are reported with exit code 1', (t) => {
  const unknown = {
    ...(request as object),
    payload: { type: 'script_payload', code: { bytecode: '0x' }, type_arguments: [], arguments: [] },
  };
  const refused = encode(t, { sender: '0x1' });
  const forwarded = encode(t, unknown);
  const marked = encode(t, Buffer.from(`\ufeff${JSON.stringify(request)}`));
  const notUtf8 = encode(t, Buffer.from([0x7b, 0xff]));

  for (const { status, stdout } of [refused, forwarded, marked, notUtf8]) assert.deepEqual([status, stdout], [1, '']);
  assert.match(notUtf8.stderr, /refused: the body is not UTF-8/);
  assert.match(refused.stderr, /refused: /);
  assert.match(forwarded.stderr, /hand it to a node: script payload/);
});

test('the chain id is never guessed', (t) => {
  for (const args of [[], ['--chain-id', '256'], ['--chain-id', 'main']]) {
    const { status, stdout, stderr } = encode(t, request, args);
    assert.deepEqual([status, stdout], [2, '']);
    assert.match(stderr, /--chain-id.* a number from 0 to 255, mainnet or testnet/);
  }
});

test('a module that cannot be read is bad usage, as is none', (t) => {
  const none = encode(t, request, onChain, []);
  const noModule = encode(t, request, onChain, [{ bytecode: '0x' }]);
  const noFile = encode(t, request, [...onChain, '--module-abi', join(tmpdir(), 'no-such-module.json')]);

  assert.deepEqual([none.status, noModule.status, noFile.status], [2, 2, 2]);
  assert.match(none.stderr, /--module-abi FILE is needed/);
  assert.match(noModule.stderr, /is no module answer with an ABI/);
  assert.match(noFile.stderr, /cannot read/);
});
