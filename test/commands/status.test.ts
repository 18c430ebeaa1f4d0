import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { configFile, oneUpstream } from '../config/config-file.ts';
import { fakeNode } from '../support/fake-node.ts';
import { testGateway } from '../support/gateway.ts';
import { call } from './command-line.ts';

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
  }
  for (const version of [700, 700]) await gateway.get(`/accounts/0x1/module/coin?ledger_version=${version}`);
  const asked = await call(['status', gateway.operationsUrl]);
  assert.match(asked.out, /^ *LAST +RATE +NO NODE +HITS .*\n *10 s +\S+ +50\.0 % +50\.0 % /m);
  assert.match(asked.out, /^memory .* of .*, 1 reads; store off; Redis off$/m);
});

test('a problem is printed with its remedy', async (t) => {
  const node = await fakeNode(t);
  node.faults.add({ kind: 'unavailable' });
  const gateway = await testGateway(t, { full: [node] });

  const { code, out } = await call(['status', gateway.operationsUrl]);

  assert.equal(code, 0);
  assert.match(
    out,
    /^STARTING .*\n {2}- full-0 has not answered yet: error status; the runbook has a row for the reason$/m,
  );
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
    const { code, out, err } = await call(['status', url]);
    assert.deepEqual({ code, out }, { code: 1, out: '' });
    assert.match(err, why);
  }
});

test('an address that is none, and a flag that is not known, are exit code 2', async () => {
  assert.equal((await call(['status', 'ftp://x'])).code, 2);
  const err = 'ledgergate: status: unknown flag --watch';
  assert.deepEqual(await call(['status', '--watch']), { code: 2, out: '', err });
});

test('an address by config needs no variable and no right value of another section', async (t) => {
  const gateway = await testGateway(t, { full: [await fakeNode(t)] });
  const operations = `operations: { port: ${gateway.operationsPort} }\n`;
  const file = configFile(t, `${operations}upstreams: [{ name: a, url: "\${UNSET_URL}" }]\nlisten: { prot: 1 }\n`);

  const { code, out } = await call(['status', '--config', file]);

  assert.equal(code, 0, out);
  assert.match(out, /^READY/m);
});

test('ready is exit code 0, by address, flag, variable and config file', async (t) => {
  const { port } = new URL(await answering(t, 200, '{}'));
  const file = configFile(t, `${oneUpstream}operations: { host: 0.0.0.0, port: ${port} }\n`);
  const ready = { code: 0, out: 'ready', err: '' };

  assert.deepEqual(await call(['health', `http://127.0.0.1:${port}`]), ready);
  assert.deepEqual(await call(['health', '--operations-port', port]), ready);
  assert.deepEqual(await call(['health'], { LEDGERGATE_OPERATIONS_PORT: port }), ready);
  assert.deepEqual(await call(['health', '--config', file]), ready);
  assert.deepEqual(await call(['health'], { LEDGERGATE_CONFIG: file }), ready);
});

test('not ready, and no answer, is exit code 1 with the reason', async (t) => {
  const { port } = new URL(await answering(t, 503, '{}'));

  assert.deepEqual(await call(['health', '--operations-port', port]), {
    code: 1,
    out: '',
    err: `not ready: http://127.0.0.1:${port}/readyz answered 503`,
  });
  const err = 'not ready: http://127.0.0.1:1/readyz cannot be reached (ECONNREFUSED)';
  assert.deepEqual(await call(['health', 'http://127.0.0.1:1']), { code: 1, out: '', err });
});
