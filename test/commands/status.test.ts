import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { runCommand } from '../../src/commands/run-command.ts';
import { configFile } from '../config/config-file.ts';
import { fakeNode } from '../support/fake-node.ts';
import { testGateway } from '../support/gateway.ts';
import { call, start } from './command-line.ts';

/** A server that answers everything with this; returns its address. */
async function answering(t: TestContext, status: number, body: string): Promise<string> {
  const server = createServer((_request, response) => {
    response.statusCode = status;
    response.end(body);
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a table of what the gateway does, by address and by port', async (t) => {
  const gateway = await testGateway(t, { full: [await fakeNode(t, { oldest: 500n, head: 1_234_567n })] });

  for (const args of [[gateway.operationsUrl], ['--operations-port', String(gateway.operationsPort)]]) {
    const { code, out, err } = await call(['status', ...args]);
    assert.deepEqual({ code, err }, { code: 0, err: '' });
    assert.match(out, /^READY All is well\.$/m);
    // Versions without spaces can be pasted into a request.
    assert.match(out, /^full-0 +● usable +1234567 +0 s +500 /m);
    assert.match(out, /^head 1234567 /m);
    assert.doesNotMatch(out, /^CLASS/m);
    assert.match(out, /^no requests in the last \d+ s$/m);
  }
  await gateway.get('/accounts/0x1/module/coin?ledger_version=700');
  const asked = await call(['status', gateway.operationsUrl]);
  assert.match(asked.out, /^CLASS +RATE .*\nmodule /m);
});

test('--format json prints the facts in one line, and so does --json', async (t) => {
  const gateway = await testGateway(t, { full: [await fakeNode(t)] });

  for (const flags of [['--format', 'json'], ['--json']]) {
    const { code, out } = await call(['status', gateway.operationsUrl, ...flags]);

    assert.equal(code, 0);
    assert.equal(out.split('\n').length, 1);
    assert.equal((JSON.parse(out) as { ledger: { head: string } }).ledger.head, '1000');
  }
});

test('no answer, another answer and another server are exit code 1 and one line', async (t) => {
  const gone = await answering(t, 200, '');
  for (const [url, why] of [
    [await answering(t, 404, '{}'), /answered 404$/],
    [await answering(t, 200, '<html>'), /is not the status of a gateway$/],
    [await answering(t, 200, '{"name":"other"}'), /is not the status of a gateway$/],
    [gone.replace(/\d+$/, '1'), /cannot be reached \(ECONNREFUSED\)$/],
  ] as const) {
    const { code, out, err } = await call(['status', url, '--watch']);
    assert.deepEqual({ code, out }, { code: 1, out: '' });
    assert.match(err, why);
  }
});

test('an address that is none, and a flag that is not known, are exit code 2', async () => {
  assert.equal((await call(['status', 'ftp://x'])).code, 2);
  assert.equal((await call(['status', '--wach'])).code, 2);
});

test('--watch appends where there is no screen, until it is ended', async (t) => {
  const gateway = await testGateway(t, { full: [await fakeNode(t)] });
  const watching = start(t, ['status', gateway.operationsUrl, '--watch', '--format', 'json']);
  await watching.line(/"name":"ledgergate"/);
  // The second comes a second later.
  await new Promise((resolve) => watching.process.stdout?.once('data', resolve));
  watching.process.kill('SIGINT');

  const { code, out } = await watching.ended;

  assert.equal(code, 0);
  assert.ok(out.trim().split('\n').length >= 2);
  assert.ok(!out.includes('\u001b'));
});

test('--watch draws on a screen within its size, and leaves it as it was', async (t) => {
  const gateway = await testGateway(t, { full: [await fakeNode(t)] });
  let text = '';
  const stop = new AbortController();
  const screen = {
    columns: 50,
    rows: 8,
    hasColours: true,
    write: (more: string) => {
      text += more;
      if (text.split('READY').length > 2) stop.abort();
    },
  };

  const code = await runCommand(['status', gateway.operationsUrl, '--watch'], {
    env: {},
    out: () => assert.fail('nothing is appended on a screen'),
    error: () => undefined,
    screen,
    stopSignal: () => stop.signal,
    onHangUp: () => undefined,
  });

  assert.equal(code, 0);
  assert.ok(text.startsWith('\u001b[?1049h') && text.endsWith('\u001b[?1049l'));
  const frames = text.split('\u001b[H').slice(1);
  assert.equal(frames.length, 2);
  for (const frame of frames) {
    const lines = stripVTControlCharacters(frame).split('\r\n');
    assert.ok(lines.length <= 8 && lines.every((line) => line.length <= 50), frame);
  }
});

test('an address by config needs no variable and no right value of another section', async (t) => {
  const gateway = await testGateway(t, { full: [await fakeNode(t)] });
  const operations = `operations: { port: ${gateway.operationsPort} }\n`;
  const file = configFile(t, `${operations}upstreams: [{ name: a, url: "\${UNSET_URL}" }]\nlisten: { prot: 1 }\n`);

  const { code, out } = await call(['status', '--config', file]);

  assert.equal(code, 0, out);
  assert.match(out, /^READY/m);
});
