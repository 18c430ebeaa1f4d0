/**
 * What a hostile client does to another one: times of a quiet client's hits and misses beside each pattern of
 * support/hostile-patterns.ts, each with a gateway of its own.
 *
 *     npm run bench:hostile -- [--patterns TEXT] [--seconds S] [--against DIR]
 *
 * `--patterns` keeps those with one of its texts, parted by semicolons, in their title; `--against` measures another
 * checkout ahead of this one. "Of the thread" is what the gateway's first thread computed meanwhile; on a busy machine only
 * the turns of its event loop compare (support/turn-meter.ts). Gateway on core 0; node, quiet client and hostile client, which yields to them, on core 1.
 */
import { once } from 'node:events';
import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { freePort } from '../test/support/free-port.ts';
import { startCheapNode } from './support/cheap-node.ts';
import { loadCpu, serverCpu } from './support/contest.ts';
import { quantiles } from './support/figures.ts';
import { gatewayCommand } from './support/gateway.ts';
import { hostilePatterns, type HostilePattern } from './support/hostile-patterns.ts';
import { startServer, type ServerProcess } from './support/process-under-test.ts';
import type { ProbeResult } from './support/quiet-probe.ts';
import { newFolder } from './support/run-folder.ts';
import { startSampleNode } from './support/sample-node.ts';
import { createCertificate } from './support/shape-servers.ts';
import { scriptOf, startScript } from './support/start-crowd.ts';

const { values } = parseArgs({
  options: {
    patterns: { type: 'string', default: '' },
    seconds: { type: 'string', default: '5' },
    against: { type: 'string' },
  },
});
const seconds = Number(values.seconds);
const certificate = createCertificate();
const here = fileURLToPath(new URL('..', import.meta.url));
const checkouts = values.against === undefined ? [here] : [values.against, here];
/** Of turn-meter.ts. */
const turnsFile = join(newFolder('turns'), 'turns');

async function measure(pattern: HostilePattern, checkout: string, nodeUrl: string): Promise<readonly string[]> {
  const { title, isTls = false, listen = {} } = pattern;
  const tls = isTls ? { tls: { cert: certificate.certFile, key: certificate.keyFile } } : {};
  const operationsPort = await freePort();
  const config = {
    listen: { host: '127.0.0.1', port: 0, ...tls, ...listen },
    operations: { host: '127.0.0.1', port: operationsPort },
    log: { level: 'error' },
  };
  const command = gatewayCommand({ name: title, nodeUrl, cpu: serverCpu, config, checkout, from: 'sources' });
  writeFileSync(turnsFile, '');
  const gateway = await startServer(
    title,
    ['--import', `${pathToFileURL(scriptOf('turn-meter')).href}?file=${turnsFile}`, ...command],
    serverCpu,
  );
  const probe = startScript('quiet-probe', [gateway.url, seconds, gateway.pid]);
  await once(probe.lines, 'line');
  const before = gateway.residentMiB();
  const hostile = startScript('hostile-client', [title, gateway.url, `http://127.0.0.1:${operationsPort}`], {
    niceness: 39,
  });
  await once(hostile.lines, 'line');
  const [startedMicros, startedSent, startedMs] = [gateway.cpuMicros(), Number(hostile.last()), performance.now()];
  truncateSync(turnsFile);
  probe.child.stdin.write('go\n');
  let most = before;
  const sampling = setInterval(() => (most = Math.max(most, gateway.residentMiB())), 100);
  await probe.ended;
  const turns = readFileSync(turnsFile, 'utf8').split('\n').map(Number);
  clearInterval(sampling);
  const tookMs = performance.now() - startedMs;
  const cpu = (gateway.cpuMicros() - startedMicros) / 1000 / tookMs;
  const sent = ((Number(hostile.last()) - startedSent) / tookMs) * 1000;
  await hostile.stop();
  await sleep(3_000);
  const after = gateway.residentMiB();
  gateway.stop();
  const { hitsMs, hitsCpuMs, missesMs, missesCpuMs, failed, ownLagMs } = JSON.parse(probe.last()) as ProbeResult;
  const memory = [before, most, after].map((value) => value.toFixed(0)).join(' / ');
  return [
    ...[turns, hitsMs, hitsCpuMs, missesMs, missesCpuMs].map(quantiles),
    String(failed),
    sent.toFixed(0),
    cpu.toFixed(2),
    memory,
    ownLagMs.toFixed(0),
  ];
}

const heads = [
  'beside',
  ...(checkouts.length > 1 ? ['checkout'] : []),
  'turn of the thread p50 / p99 / longest ms',
  'hits',
  'misses',
  'failed',
];
heads.push('hostile requests/s', 'cores', 'RSS MiB before / most / 3 s after', 'probe late ms');
process.stdout.write(`| ${heads.join(' | ')} |\n|${'---|'.repeat(heads.length)}\n`);
const cheap = await startCheapNode({ cpu: loadCpu });
let ledger: ServerProcess | undefined;
for (const pattern of hostilePatterns) {
  if (!values.patterns.split(';').some((text) => pattern.title.includes(text))) continue;
  if (pattern.needsLedger === true) ledger ??= await startSampleNode(loadCpu);
  const nodeUrl = pattern.needsLedger === true ? (ledger?.url ?? '') : (cheap.urls[0] ?? '');
  for (const [at, checkout] of checkouts.entries()) {
    const cells = await measure(pattern, checkout, nodeUrl);
    const which = checkouts.length > 1 ? [at === 0 ? 'other' : 'this'] : [];
    process.stdout.write(`| ${[pattern.title, ...which, ...cells].join(' | ')} |\n`);
  }
}
process.exit(0);
