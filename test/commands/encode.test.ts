import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { moduleText, readGroup } from '../encode/vectors.ts';

const vector = readGroup('13-framework.json').find(({ name }) => name === 'coin transfer');
assert.ok(vector !== undefined);
const { request, abi, chain_id: chainId, expected_hex: hex } = vector;

function encode(t: TestContext, input: unknown, args: readonly string[] = ['--chain-id', String(chainId)]) {
  const folder = mkdtempSync(join(tmpdir(), 'encode-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'module.json');
  writeFileSync(file, moduleText(abi));
  const command = ['bin/ledgergate.js', 'encode', '--module-abi', file, ...args];
  return spawnSync(process.execPath, command, { input: JSON.stringify(input), encoding: 'utf8' });
}

test('encode prints the bytes of a recorded request', (t) => {
  const { status, stdout } = encode(t, request);

  assert.deepEqual([status, stdout.trim()], [0, hex]);
});

test('with --explain the bytes are taken apart field by field', (t) => {
  const { status, stdout } = encode(t, request, ['--chain-id', String(chainId), '--explain']);

  assert.equal(status, 0);
  assert.ok(stdout.startsWith(`${hex}\n`));
  // From the vector read byte by byte: the module's name, the amount and the chain id stand in it.
  for (const part of ['636f696e', '00e1f50500000000', 'sender', 'chain']) assert.ok(stdout.includes(part), part);
});

test('what is refused or left to nodes is said, with exit code 1', (t) => {
  const unknown = {
    ...(request as object),
    payload: { type: 'script_payload', code: { bytecode: '0x' }, type_arguments: [], arguments: [] },
  };
  const refused = encode(t, { sender: '0x1' });
  const forwarded = encode(t, unknown);

  assert.deepEqual([refused.status, forwarded.status], [1, 1]);
  assert.match(refused.stderr, /refused: /);
  assert.match(forwarded.stderr, /hand it to a node: script payload/);
});

test('the chain id is never guessed', (t) => {
  for (const args of [[], ['--chain-id', '256'], ['--chain-id', 'main']]) {
    const { status, stdout, stderr } = encode(t, request, args);
    assert.deepEqual([status, stdout], [2, '']);
    assert.match(stderr, /--chain-id N is needed/);
  }
});
