import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { start } from './command-line.ts';

/** A printed line as a POSIX shell splits it, sent by fetch: not every machine has curl. */
async function run(command: string): Promise<Response> {
  const shell = `curl() { for word in "$@"; do printf '%s\\n' "$word"; done; }\n${command}`;
  const words = execFileSync('/bin/sh', ['-c', shell], { encoding: 'utf8' }).trimEnd().split('\n');
  const after = (flag: string): string | undefined =>
    words.includes(flag) ? words[words.indexOf(flag) + 1] : undefined;
  const [name, value] = after('-H')?.split(': ') ?? [];
  const body = after('-d');
  return fetch(words.find((word) => word.startsWith('http')) ?? '', {
    ...(body === undefined ? {} : { method: 'POST', body }),
    ...(name === undefined || value === undefined ? {} : { headers: { [name]: value } }),
  });
}

const anyPorts = { LEDGERGATE_PORT: '0', LEDGERGATE_OPERATIONS_PORT: '0' };

test('without arguments the sample fleet is served under a clear banner, and every printed curl line works', async (t) => {
  const gateway = start(t, [], { env: anyPorts });
  const lines = [/^curl .*::account::Account/, /^curl .*::Probe/, /^curl .*\/view/, /^curl .*encode_submission/];
  const commands = await Promise.all(lines.map(async (pattern) => (await gateway.line(pattern)).input));

  const twice = commands[0] ?? '';
  const replies = [await run(twice), await run(twice), ...(await Promise.all(commands.slice(1).map(run)))];
  gateway.process.kill('SIGTERM');
  const { code, out } = await gateway.ended;

  assert.deepEqual(
    replies.map(({ status }) => status),
    [200, 200, 200, 200, 200],
  );
  assert.match(replies[0]?.headers.get('cache-status') ?? '', /fwd=miss/);
  assert.match(replies[1]?.headers.get('cache-status') ?? '', /hit/);
  assert.match(replies[2]?.headers.get('cache-status') ?? '', /detail=sample-archival/);
  assert.equal(code, 0);
  assert.match(out, /^No command was given: serving the built-in SAMPLE fleet/);
  assert.match(out, /^SAMPLE NODES, NOT A REAL LEDGER/m);
  assert.match(out, /^sample-full +http:\S+ +full +1 +\d+ +\d+ +\d+ +usable$/m);
  assert.match(out, /^sample-archival +http:\S+ +archival +1 +0 +\d+ +\d+ +usable$/m);
});

test('the sample gateway listens on this machine alone, unless a flag or a variable names a host', async (t) => {
  const listening = /listening on ([\d.]+), port \d+/;
  const runs = [
    start(t, [], { env: anyPorts }),
    start(t, ['sample'], { env: anyPorts }),
    start(t, ['sample', '--host', '0.0.0.0'], { env: anyPorts }),
    start(t, [], { env: { ...anyPorts, LEDGERGATE_HOST: '127.0.0.2' } }),
  ];

  const hosts = await Promise.all(runs.map(async (run) => (await run.line(listening))[1]));

  assert.deepEqual(hosts, ['127.0.0.1', '127.0.0.1', '0.0.0.0', '127.0.0.2']);
});
