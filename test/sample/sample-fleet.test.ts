import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { curlExamples, startSampleFleet } from '../../src/sample/sample-fleet.ts';

const run = promisify(execFile);

/** `command` split as a shell does: the arguments of curl. */
async function argumentsOf(command: string): Promise<readonly string[]> {
  const { stdout } = await run('sh', ['-c', `curl() { printf '%s\\0' "$@"; }; ${command}`]);
  return stdout.split('\0').slice(0, -1);
}

test('the sample fleet is a pruned and an archival node of one moving ledger', async (t) => {
  let nowMs = Date.UTC(2026, 0, 1);
  const fleet = await startSampleFleet({ now: () => nowMs });
  t.after(() => fleet.close());
  const [full, archival] = fleet.nodes;
  assert.ok(full && archival);

  const before = fleet.state();
  nowMs += 60_000;
  const after = fleet.state();

  assert.deepEqual([full.tier, archival.tier], ['full', 'archival']);
  assert.match(full.url, /^http:\/\/127\.0\.0\.1:\d+\/v1$/);
  assert.equal(after.head - before.head, 60n * 190n);
  assert.ok(after.oldest > before.oldest);
  assert.equal(after.archivalOldest, 0n);
  assert.equal(full.node.ledger().version, archival.node.ledger().version);
});

test('an example survives a shell whatever stands in it', async () => {
  const url = `http://localhost/it's "$HOME" \`x\`/v1`;
  const [example] = curlExamples(url, { head: 5n, oldest: 0n, archivalOldest: 0n });
  assert.ok(example);

  const [, target = ''] = await argumentsOf(example.command);

  assert.ok(target.startsWith(`${url}/accounts/`));
});

test('what is submitted to one node is known to the other', async (t) => {
  const fleet = await startSampleFleet();
  t.after(() => fleet.close());
  const [full, archival] = fleet.nodes;
  assert.ok(full && archival);
  const headers = { 'content-type': 'application/x.aptos.signed_transaction+bcs' };

  const reply = await fetch(`${full.url}/transactions`, { method: 'POST', body: new Uint8Array([1, 2, 3]), headers });
  const { hash } = (await reply.json()) as { hash: string };

  assert.equal((await fetch(`${archival.url}/transactions/by_hash/${hash}`)).status, 200);
});
