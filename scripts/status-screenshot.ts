/**
 * Takes `docs/status.png`: the status page of a gateway in front of sample nodes, with sample traffic and a node that
 * fails. `npm run status:screenshot [FILE] [--dark] [--width N]`; needs chromium.
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { crc32, deflateSync, inflateSync } from 'node:zlib';
import { chromium } from 'playwright-core';
import { loadConfig } from '../src/config/load.ts';
import { startGateway } from '../src/gateway.ts';
import { advancingClock } from '../src/sample/ledger-clock.ts';
import { Mempool } from '../src/sample/mempool.ts';
import { encodeVectors } from '../src/sample/recorded.ts';
import { createSampleNode, type SampleNode } from '../src/sample/sample-node.ts';

const { values, positionals } = parseArgs({
  options: {
    dark: { type: 'boolean', default: false },
    width: { type: 'string', default: '1200' },
    height: { type: 'string', default: '996' },
    seconds: { type: 'string', default: '25' },
  },
  allowPositionals: true,
});
const [file = 'docs/status.png'] = positionals;
const [seconds, height] = [Number(values.seconds), Number(values.height)];

const startHead = 3_412_650_000n;
const ledger = { startHead, startMs: Date.now(), versionsPerSecond: 1_900, pruneStep: 5_000n };
const mempool = new Mempool();
const node = (options: { window?: bigint; lag?: bigint }): Promise<SampleNode> =>
  createSampleNode({ mempool, clock: advancingClock({ ...ledger, ...options }), keepRequests: 1 });
const [fullA, fullB, fullC, archive] = await Promise.all([
  node({ window: 90_000_000n }),
  node({ window: 20_000_000n, lag: 400n }),
  node({ window: 4_000_000n }),
  node({}),
]);
const nodes = [fullA, fullB, fullC, archive];
const upstreams = nodes.map(({ url }, index) => ({
  name: ['full-a', 'full-b', 'full-c', 'archive'][index],
  url,
  tier: index === 3 ? 'archival' : 'full',
}));
const fixed = {
  upstreams,
  'listen.port': 0,
  'operations.port': 0,
  'log.level': 'silent',
  'encode.shadow': 0.2,
  'upstream.hedge': false,
};
const { config } = loadConfig({
  overrides: Object.entries(fixed).map(([path, value]) => ({ path: path.split('.'), value, origin: 'the screenshot' })),
});
const gateway = await startGateway(config);

const account = '/accounts/0x1/resource/0x1::account::Account';
const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe';
const view = JSON.stringify({
  function: '0x1::coin::balance',
  type_arguments: ['0x1::aptos_coin::AptosCoin'],
  arguments: ['0x1'],
});
const signing = encodeVectors.find(({ chainId, status }) => chainId === 1 && status === 200)?.request ?? '';
const json = { 'content-type': 'application/json' };

/** A version that is mostly recent, sometimes old. */
function versionOf(random: number): bigint {
  const { version: head } = archive.ledger();
  return head - 50n - BigInt(Math.floor(10 ** (random ** 2 * 9)));
}

async function ask(turn: number): Promise<void> {
  const url = gateway.url;
  const kind = turn % 20;
  const pinned = `?ledger_version=${turn % 3 === 0 ? versionOf(Math.random()) : (archive.ledger().version / 4_000n) * 4_000n - 10n}`;
  const request =
    kind < 9
      ? fetch(url + (kind % 2 === 0 ? account : probe))
      : kind < 15
        ? fetch(url + account + pinned)
        : kind === 15
          ? fetch(`${url}/view${pinned}`, { method: 'POST', body: view, headers: json })
          : kind === 16
            ? fetch(`${url}/transactions/encode_submission`, { method: 'POST', body: signing, headers: json })
            : kind === 17
              ? fetch(url)
              : fetch(`${url}/accounts/0x1`);
  await (await request).arrayBuffer();
}

const endMs = Date.now() + seconds * 1_000;
let turn = 0;
const clients = Array.from({ length: 4 }, async () => {
  while (Date.now() < endMs) {
    await ask((turn += 1)).catch(() => undefined);
    await sleep(4);
  }
});
await sleep(seconds * 400);
await fullC.refuse();
await fetch(`${gateway.operationsUrl}/admin/purge`, {
  method: 'POST',
  body: JSON.stringify({ account: '0x1' }),
  headers: json,
}).catch(() => undefined);
await sleep(seconds * 400);

const executablePath = spawnSync('sh', ['-c', 'command -v chromium'], { encoding: 'utf8' }).stdout.trim();
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-lcd-text'] });
const page = await browser.newPage({
  viewport: { width: Number(values.width), height: height || 900 },
  colorScheme: values.dark ? 'dark' : 'light',
});
await page.goto(`${gateway.operationsUrl}/status`);
// The upper part, which is what people see first; all of it where a height of 0 is asked for.
writeFileSync(file, packed(await page.screenshot({ fullPage: height === 0 })));
console.log(`${file}: ${await page.title()}`);
await browser.close();
await Promise.all(clients);
await gateway.close();
await Promise.all(nodes.map((sample) => sample.close()));

/** The same picture in fewer bytes: browsers compress for speed. */
function packed(png: Buffer): Buffer {
  const [before, data, after]: [Buffer[], Buffer[], Buffer[]] = [[png.subarray(0, 8)], [], []];
  for (let at = 8; at < png.length;) {
    const end = at + 12 + png.readUInt32BE(at);
    const isData = png.toString('latin1', at + 4, at + 8) === 'IDAT';
    if (isData) data.push(png.subarray(at + 8, end - 4));
    else (data.length === 0 ? before : after).push(png.subarray(at, end));
    at = end;
  }
  const content = Buffer.concat([Buffer.from('IDAT'), deflateSync(inflateSync(Buffer.concat(data)), { level: 9 })]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(content.length - 4);
  sum.writeUInt32BE(crc32(content));
  return Buffer.concat([...before, length, content, sum, ...after]);
}
