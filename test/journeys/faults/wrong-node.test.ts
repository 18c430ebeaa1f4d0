/**
 * One node is wrong in each of some thirty ways, beside a full node, an archive, or two full nodes: no read is refused
 * that another node can answer. A long run: LEDGERGATE_MATRIX_MS sets how long each cell is read after its first second,
 * and without it nothing runs. LEDGERGATE_MATRIX_ONLY is a pattern of the cells.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { createServer as createTcpServer } from 'node:net';
import { test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { Pool } from 'undici';
import { advancingClock } from '../../../src/sample/ledger-clock.ts';
import { call } from '../../commands/command-line.ts';
import { configFile } from '../../config/config-file.ts';
import { distortingNode, type Distort } from '../../support/distorting-node.ts';
import { eventually } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { freePort } from '../../support/free-port.ts';
import { fetchReply, probeAt, testGateway, type LogLine } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { listen } from '../../support/listen.ts';
import type { SampleFault } from '../../support/sample-faults.ts';
import { createSampleNode, type SampleNode } from '../../support/sample-node.ts';
import { watchStalls } from '../../support/stalls.ts';
import { statusOf, statusWhen } from '../../support/status.ts';
import { authority } from '../../support/tls.ts';
import { wrongWays } from '../../support/wrong-ways.ts';

const firstMs = 1_000;
const matrixMs = process.env['LEDGERGATE_MATRIX_MS'];
const afterMs = Number(matrixMs ?? 1_000);
const skip = matrixMs === undefined ? 'a long run, by LEDGERGATE_MATRIX_MS' : false;
const readsPerSecond = 60;
/** Cells that are read at one time. */
const atOnce = 18;
const window = 500_000n;
/** Hedges that are saved up, and trials of a node that is passed over: of few reads they are a large share. */
const savedUp = 20 + 10;

interface Beside {
  readonly full: number;
  readonly archives: number;
}

const besides: Readonly<Record<string, Beside>> = {
  'a full node': { full: 1, archives: 0 },
  'an archive': { full: 0, archives: 1 },
  'two full nodes': { full: 2, archives: 0 },
};

interface Tally {
  reads: number;
  refused: number;
  wrong: number;
  /** Reads that nodes were sent. */
  sent: number;
}

interface Cell {
  readonly what: string;
  readonly distort: Distort;
  readonly beside: string;
  /** How far its ledger is behind that of the others, ms. */
  readonly lagMs: number;
}

const unchanged: Distort = (said) => said;
const only = new RegExp(process.env['LEDGERGATE_MATRIX_ONLY'] ?? '');
const ways: readonly Omit<Cell, 'beside'>[] = [
  ...Object.entries(wrongWays).map(([what, distort]) => ({ what, distort, lagMs: 0 })),
  { what: 'lagging by 300 ms', distort: unchanged, lagMs: 300 },
  { what: 'lagging by a minute', distort: unchanged, lagMs: 60_000 },
  { what: 'ahead of the others by 300 ms', distort: unchanged, lagMs: -300 },
];
const every: readonly Cell[] = Object.keys(besides).flatMap((beside) =>
  ways.map(({ what, distort, lagMs }) => ({ what, distort, lagMs, beside })),
);
const cells = every.filter(({ what, beside }) => only.test(`${what}, beside ${beside}`));

/** Defaults of the gateway that tests override elsewhere. */
const upstream = {
  timeoutMs: 5_000,
  deadlineMs: 10_000,
  probeIntervalMs: 1_000,
  hedge: { quantile: 0.95, share: 0.04 },
};
const config = { upstream, latest: { waitForVersionMs: 500 } };

async function nodeOf(t: TestContext, startMs: number, lagMs: number, kept?: bigint): Promise<SampleNode> {
  const ledger = { startHead: 2_000_000n, startMs, versionsPerSecond: 1_000, lag: BigInt(lagMs) };
  const clock = advancingClock({ ...ledger, ...(kept === undefined ? {} : { window: kept }) });
  const node = await createSampleNode({ clock, keepRequests: 1 });
  t.after(() => node.close());
  return node;
}

/** Reads at an even rate for `ms`; answers are waited for. */
async function readFor(ms: number, read: (index: number) => Promise<void>): Promise<void> {
  const beganMs = performance.now();
  const pending: Promise<void>[] = [];
  for (let index = 0; performance.now() - beganMs < ms;) {
    const due = Math.floor(((performance.now() - beganMs) / 1000) * readsPerSecond);
    for (; index < due; index += 1) pending.push(read(index));
    await delay(10);
  }
  await Promise.all(pending);
}

/** Starts the nodes and the gateway of a cell; returns its reader. */
async function startCell(t: TestContext, { distort, beside, lagMs }: Cell) {
  const startMs = Date.now();
  const { full, archives } = besides[beside] ?? { full: 0, archives: 0 };
  const wrong = await distortingNode(t, await nodeOf(t, startMs, Math.max(0, lagMs), window), distort);
  const well = await Promise.all(
    Array.from({ length: full }, () => nodeOf(t, startMs, Math.max(0, -lagMs), window * 2n)),
  );
  const archive = await Promise.all(Array.from({ length: archives }, () => nodeOf(t, startMs, Math.max(0, -lagMs))));
  const gateway = await testGateway(t, { full: [wrong, ...well], archival: archive, config });
  const pool = new Pool(new URL(gateway.url).origin, { connections: 128 });
  t.after(() => pool.destroy());
  const sent = (): number => wrong.reads + [...well, ...archive].reduce((sum, node) => sum + node.reads, 0);
  const examples: string[] = [];
  let unique = 0;

  const phase = async (ms: number): Promise<Tally> => {
    const tally: Tally = { reads: 0, refused: 0, wrong: 0, sent: 0 };
    const before = sent();
    await readFor(ms, async (index) => {
      unique += 1;
      const head = 2_000_000n + BigInt(Date.now() - startMs);
      const version = head - (index % 2 === 0 ? 100_000n : 5_000n) - BigInt(unique);
      const isLatest = index % 4 === 3;
      // The sample nodes hold the resource under 0x1 alone; under another address each read of "latest" is a miss.
      const address = isLatest ? `0x${(unique + 4096).toString(16)}` : '0x1';
      const query = isLatest ? '' : `?ledger_version=${version}`;
      const path = `/v1/accounts/${address}/resource/0x1::ledgergate_sample::Probe${query}`;
      const { statusCode, headers, body } = await pool.request({ method: 'GET', path });
      const bytes = Buffer.from(await body.arrayBuffer());
      // The gateway passes unrequested compression on.
      const text = (headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString();
      tally.reads += 1;
      const expected = isLatest ? `404 Address(${address})` : `200 "ledger_version":"${version}"`;
      if (isAsExpected(statusCode, text, expected)) return;
      if (statusCode >= 500 || statusCode === 429) tally.refused += 1;
      else tally.wrong += 1;
      if (examples.length < 3) examples.push(`${statusCode} ${path} ${text.slice(0, 200)}`);
    });
    tally.sent = sent() - before;
    return tally;
  };
  return async () => ({ first: await phase(firstMs), after: await phase(afterMs), examples });
}

function isAsExpected(status: number, text: string, expected: string): boolean {
  return expected.startsWith(`${status} `) && text.includes(expected.slice(4));
}

const percent = (part: number, of: number): string => `${Math.round((part / of) * 1000) / 10} %`;

for (let begin = 0; begin < cells.length; begin += atOnce) {
  const group = cells.slice(begin, begin + atOnce);
  test(
    `one wrong node, cells ${begin + 1} to ${begin + group.length} of ${cells.length}: others answer`,
    { skip },
    async (t) => {
      const stalls = watchStalls(t);
      const started = await Promise.all(group.map(async (cell) => ({ cell, read: await startCell(t, cell) })));
      const ended = await Promise.all(started.map(async ({ cell, read }) => ({ cell, measured: await read() })));

      const faults: string[] = [];
      const late: string[] = [];
      for (const { cell, measured } of ended) {
        const { first, after, examples } = measured;
        const name = `${cell.what}, beside ${cell.beside}`;
        const told = `refused ${refused(first)} in the first second, ${refused(after)} afterwards; extra load ${extra(first)}, then ${extra(after)}`;
        t.diagnostic(`${name}: ${told}`);
        const whole = `${name}: ${told}: ${examples.join('; ')}`;
        if (first.wrong + after.wrong > 0) faults.push(whole);
        if (after.refused > 0 || after.sent - after.reads > after.reads * 0.1 + savedUp) late.push(whole);
      }
      assert.deepEqual(faults, []);
      stalls.judge(late.length === 0, late.join('\n'));
    },
  );
}

function refused({ refused: count, reads }: Tally): string {
  return percent(count, reads);
}

function extra({ sent, reads }: Tally): string {
  return percent(sent - reads, reads);
}

// One node that cannot be used, in each of many ways: every place names the same reason.

/** Starts a node that is wrong; resolves with its base address. */
type StartWrong = (t: TestContext) => Promise<string>;

async function httpNode(t: TestContext, status: number, headers: Record<string, string> = {}): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end('{}');
  });
  return `http://127.0.0.1:${await listen(t, server)}/v1`;
}

async function tcpNode(t: TestContext, bytes: string): Promise<string> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(bytes));
  });
  return `http://127.0.0.1:${await listen(t, server)}/v1`;
}

async function faultyNode(t: TestContext, fault: SampleFault): Promise<string> {
  const node = await fakeNode(t);
  node.faults.add(fault);
  return node.url;
}

const belowOldest = { ...ledgerHeaders({ version: 10n, chainId: 1 }), 'X-Node-Ledger-Oldest-Version': '11' };
const absurd = { ...ledgerHeaders({ version: 10n, chainId: 1 }), 'X-Node-Block-Height': '11' };

/** The reason, and the ways to it. */
const faultWays: readonly (readonly [reason: string, way: string, start: StartWrong])[] = [
  ['connection refused', 'no server listens', async () => `http://127.0.0.1:${await freePort()}/v1`],
  ['connection cut', 'the connection is reset', (t) => faultyNode(t, { kind: 'reset' })],
  ['name not found', 'no such host', () => Promise.resolve('http://no-such-host.invalid/v1')],
  [
    'TLS',
    'a certificate of an unknown authority',
    async (t) => {
      const { cert, key } = authority(t).certify('node');
      const server = createTlsServer({ cert: readFileSync(cert), key: readFileSync(key) }, (_, response) => {
        response.end();
      });
      return `https://127.0.0.1:${await listen(t, server)}/v1`;
    },
  ],
  ['TLS', 'a port without TLS', async (t) => (await fakeNode(t)).url.replace('http:', 'https:')],
  ['time-out', 'no answer in time', (t) => faultyNode(t, { kind: 'hang' })],
  ['not HTTP', 'another protocol', (t) => tcpNode(t, 'SSH-2.0-OpenSSH_9.2\r\n')],
  ['wrong base path', '404 at its address', (t) => httpNode(t, 404)],
  ['wrong base path', 'a redirect', (t) => httpNode(t, 302, { location: '/elsewhere' })],
  ['credentials refused', '401', (t) => httpNode(t, 401)],
  ['error status', '502 of a proxy', (t) => httpNode(t, 502)],
  ['no ledger headers', '200 without ledger headers', (t) => faultyNode(t, { kind: 'no ledger headers' })],
  ['head below oldest', 'an oldest version above the head', (t) => httpNode(t, 200, belowOldest)],
  ['absurd ledger headers', 'more blocks than versions', (t) => httpNode(t, 200, absurd)],
  ['other dialect', 'the headers of the other dialect', async (t) => (await fakeNode(t, { dialect: 'aptos' })).url],
  ['other chain', 'another chain id', async (t) => (await fakeNode(t, { chainId: 2 })).url],
];

const probes = { probeIntervalMs: 50, timeoutMs: 500 };
const isSilent = ([reason]: (typeof faultWays)[number]): boolean => reason === 'time-out';

/** Each way in a fleet with others; on a busy machine the bound that ends silence would end other answers as well. */
const fleets = [
  { faults: faultWays.filter((way) => !isSilent(way)), timeoutMs: 9_000 },
  { faults: faultWays.filter(isSilent), timeoutMs: probes.timeoutMs },
];

for (const { faults, timeoutMs } of fleets) {
  const reasons = [...new Set(faults.map(([reason]) => reason))];
  test(`every place names the same reason of a node that cannot be used: ${reasons.join(', ')}`, async (t) => {
    const urls = await Promise.all(faults.map(([, , start]) => start(t)));
    const lines: LogLine[] = [];
    const full = urls.map((url) => ({ url }));
    const gateway = await testGateway(t, {
      full,
      config: { chainId: 1, upstream: { ...probes, timeoutMs } },
      onLog: (line) => lines.push(line),
    });
    const upstreams = urls.map((url, index) => `  - { name: full-${index}, url: "${url}" }\n`).join('');
    const file = configFile(
      t,
      `chainId: 1\ndialect: node\nupstream: { timeout: ${timeoutMs}ms }\nupstreams:\n${upstreams}`,
    );

    const facts = await statusWhen(gateway, ({ nodes }) =>
      nodes.every(({ state }) => state === 'down' || state === 'foreign'),
    );
    const readyz = await fetchReply(`${gateway.operationsUrl}/readyz`, { method: 'GET' });
    const page = await fetchReply(`${gateway.operationsUrl}/status`, { method: 'GET' });
    const refused = await gateway.get(probeAt(5));
    const metrics = await fetchReply(`${gateway.operationsUrl}/metrics`, { method: 'GET' });
    const [status, checked] = await Promise.all([call(['status', gateway.operationsUrl]), call(['check', file])]);

    assert.equal(refused.status, 503);
    const ready = JSON.parse(readyz.text) as { upstreams: { reason?: string }[] };
    for (const [index, [reason, way]] of faults.entries()) {
      const name = `full-${index}`;
      assert.deepEqual([facts.nodes[index]?.reason, ready.upstreams[index]?.reason], [reason, reason], way);
      // Nodes with one reason are one problem.
      const problem = facts.problems.find((text) => text.includes(`: ${reason}`));
      assert.ok(problem?.includes(name), `${way}: ${facts.problems.join('; ')}`);
      assert.ok(page.text.includes(reason), way);
      assert.ok(status.out.includes(reason), way);
      const count = faults.filter(([other]) => other === reason).length;
      assert.ok(refused.text.includes(`${count} down: ${reason}`), `${way}: ${refused.text}`);
      const sample = `ledgergate_upstream_fault{upstream="${name}",reason="${reason}"} 1\n`;
      assert.ok(metrics.text.includes(sample), way);
      assert.ok(checked.out.includes(`upstreams[${index}].url: ${reason}`), `${way}: ${checked.out}`);
      // Several probes have failed, and one line has the reason.
      const told = lines.filter(
        ({ upstream, level, reason: given }) => upstream === name && Number(level) >= 40 && given !== undefined,
      );
      assert.deepEqual(
        told.map((line) => line['reason']),
        [reason],
        way,
      );
      // Neither clients nor readers of the operations port get an address.
      const { host } = new URL(urls[index] ?? '');
      for (const { text } of [refused, readyz, page]) assert.ok(!text.includes(host), text);
    }
  });
}

test('the remedy of a wrong base path is the end of the address', async (t) => {
  const { url } = await fakeNode(t);
  const file = configFile(t, `upstreams: [{ name: a, url: "${url.replace('/v1', '/')}" }]\n`);

  const { out } = await call(['check', file]);

  assert.ok(out.includes('upstreams[0].url: wrong base path (status 404): does the address end in /v1?'), out);
});

test('another reason is another line of the log, and a node that answers has none', async (t) => {
  const node = await fakeNode(t);
  const told: unknown[] = [];
  const onLog = ({ upstream, level, reason }: LogLine): unknown =>
    upstream === 'full-0' && Number(level) >= 30 && told.push(reason);
  const gateway = await testGateway(t, { full: [node], config: { upstream: probes }, onLog });
  const reasonOf = async (): Promise<string | undefined> => (await statusOf(gateway)).nodes[0]?.reason;

  node.fault = { kind: 'no ledger headers' };
  await eventually(reasonOf, (reason) => reason === 'no ledger headers');
  node.fault = { kind: 'hang' };
  await eventually(reasonOf, (reason) => reason === 'time-out');
  node.fault = undefined;
  await eventually(reasonOf, (reason) => reason === undefined);

  assert.deepEqual(told, [undefined, 'no ledger headers', 'time-out', undefined]);
  const { text } = await fetchReply(`${gateway.operationsUrl}/metrics`, { method: 'GET' });
  assert.ok(!text.includes('ledgergate_upstream_fault{'), text);
});
