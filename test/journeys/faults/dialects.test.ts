/** `dialect: auto`: the fleet speaks the dialect of most nodes, decided once; the others are down. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { call } from '../../commands/command-line.ts';
import { configFile } from '../../config/config-file.ts';
import { eventually } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, probeAt, testGateway, type LogLine, type NodeAddress } from '../../support/gateway.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { get } from '../../support/workers.ts';
import { statusWhen } from '../../support/status.ts';

const upstream = { probeIntervalMs: 50 };

async function autoGateway(t: TestContext, full: readonly NodeAddress[]) {
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, { full, config: { upstream }, onLog: (line) => lines.push(line) }, 'auto');
  return { gateway, taken: () => lines.flatMap(({ dialect }) => (dialect === undefined ? [] : [dialect])), lines };
}

for (const dialect of ['node', 'aptos'] as const) {
  test(`a fleet of the ${dialect} dialect is read without a word in the config, and the log names it once`, async (t) => {
    const { gateway, taken } = await autoGateway(t, [await fakeNode(t, { dialect }), await fakeNode(t, { dialect })]);

    const [miss, hit] = [await gateway.get(probeAt(5)), await gateway.get(probeAt(5), { origin: 'https://page.test' })];

    for (const { status, headers } of [miss, hit]) {
      assert.deepEqual([status, headers[`x-${dialect}-chain-id`]], [200, '1']);
    }
    const exposed = String(hit.headers['access-control-expose-headers']).split(', ');
    assert.deepEqual(
      ['node', 'aptos'].filter((name) => exposed.includes(`x-${name}-ledger-version`)),
      [dialect],
    );
    assert.deepEqual(taken(), [dialect]);
  });
}

test('a node that answers first after the start decides', async (t) => {
  const node = await fakeNode(t, { dialect: 'aptos' });
  await node.refuse();
  const { gateway, taken } = await autoGateway(t, [node]);
  assert.equal((await gateway.get(probeAt(5))).status, 503);
  assert.deepEqual(taken(), []);

  await node.accept();
  const reply = await eventually(
    () => gateway.get(probeAt(5)),
    ({ status }) => status === 200,
  );

  assert.equal(reply.headers['x-aptos-chain-id'], '1');
  assert.deepEqual(taken(), ['aptos']);
});

test('in a fleet of both dialects the odd node is down, is an error of the log, and check names it', async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t, { dialect: 'aptos' }), await fakeNode(t, { dialect: 'aptos' })];
  const { gateway, lines } = await autoGateway(t, nodes);
  const file = configFile(
    t,
    `upstreams:\n${nodes.map(({ url }, index) => `  - { name: full-${index}, url: "${url}" }\n`).join('')}`,
  );

  const { nodes: shown, problems } = await statusWhen(gateway, ({ nodes: [odd] }) => odd?.state === 'down');
  const readyz = await fetchReply(`${gateway.operationsUrl}/readyz`, { method: 'GET' });
  const { out, code } = await call(['check', file]);
  nodes[1]?.clock.advance(10n);

  assert.deepEqual(
    shown.map(({ reason }) => reason),
    ['other dialect', undefined, undefined],
  );
  assert.deepEqual(problems, ['full-0 is down: other dialect']);
  assert.match(readyz.text, /"name":"full-0","tier":"full","state":"down","reason":"other dialect"/);
  assert.deepEqual(
    lines.filter(({ level }) => level === 50).map(({ upstream: name, reason }) => [name, reason]),
    [['full-0', 'other dialect']],
  );
  assert.equal(code, 1);
  assert.match(out, /upstreams\[0\]\.url: other dialect \(it speaks node, the fleet aptos\)/);
  assert.ok(!/upstreams\[[12]\]/.test(out), out);
  assert.equal((await gateway.get(probeAt(5))).headers['x-aptos-chain-id'], '1');
});

test('without a dialect in the file several workers take that of the nodes', async (t) => {
  const node = await fakeNode(t, { dialect: 'aptos' });
  const gateway = await gatewayProcess(t, { full: [node], config: { workers: 2 } });

  const { status, headers } = await get(`${gateway.url}${probeAt(5)}`);

  assert.deepEqual([status, headers['x-aptos-chain-id']], [200, '1']);
});
