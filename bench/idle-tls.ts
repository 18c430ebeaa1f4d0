/**
 * Memory of idle connections with TLS, after one hit each, beside those without: resident memory of the gateway before
 * the crowd and with it. Each crowd has a gateway of its own, on core 0; the crowd itself and the node are on core 1.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { accountAt } from './support/load.ts';
import { askWhole } from './support/ask-all.ts';
import { readPath, startCheapNode } from './support/cheap-node.ts';
import { loadCpu, serverCpu } from './support/contest.ts';
import { startGateway } from './support/gateway.ts';
import { optionsOf, type Flags, type Part } from './support/options.ts';
import { requirePrograms } from './support/process-under-test.ts';
import { table } from './support/report.ts';
import { createCertificate, type Certificate } from './support/shape-servers.ts';
import { requireFiles, startCrowd } from './support/start-crowd.ts';

const path = readPath(400, '2400000000').replace('%A', accountAt(0));
/** The memory of the compiler and the collector is not the crowd's. */
const warmUpRequests = 20_000;
const settleMs = 1_000;
const sampleMs = 100;

interface Measured {
  readonly beforeMiB: number;
  readonly mostMiB: number;
  readonly lastMiB: number;
}

interface Idle {
  readonly nodeUrl: string;
  /** Without it the connections are plain. */
  readonly certificate?: Certificate;
  readonly count: number;
  readonly seconds: number;
}

async function measure({ nodeUrl, certificate, count, seconds }: Idle): Promise<Measured> {
  const tls = certificate === undefined ? {} : { tls: { cert: certificate.certFile, key: certificate.keyFile } };
  const listen = { host: '127.0.0.1', port: 0, maxConnections: count + 100, ...tls };
  const gateway = await startGateway({ name: 'ledgergate', nodeUrl, cpu: serverCpu, config: { listen } });
  const requests = Array.from({ length: warmUpRequests }, () => ({ method: 'GET', path }) as const);
  await askWhole(gateway.url, requests, { ca: certificate?.ca });
  await sleep(settleMs);
  const beforeMiB = gateway.residentMiB();
  const crowd = await startCrowd({
    kind: 'idle',
    count,
    url: new URL(path, gateway.url).href,
    ...(certificate === undefined ? {} : { caFile: certificate.certFile }),
  });
  let [mostMiB, lastMiB] = [0, 0];
  for (const endMs = performance.now() + seconds * 1_000; performance.now() < endMs; await sleep(sampleMs)) {
    lastMiB = gateway.residentMiB();
    mostMiB = Math.max(mostMiB, lastMiB);
  }
  await crowd.stop();
  gateway.stop();
  return { beforeMiB, mostMiB, lastMiB };
}

export const idleTls: Part = {
  name: 'idle-tls',
  heading: 'Idle connections with TLS',
  async run(flags: Flags) {
    requirePrograms('nginx', 'openssl');
    const { connections: count, seconds } = optionsOf(flags, { connections: 10_000, seconds: 10 });
    requireFiles(count);
    const node = await startCheapNode({ cpu: loadCpu });
    const [nodeUrl = ''] = node.urls;
    const rows: (readonly string[])[] = [];
    for (const [title, secured] of [
      ['plain', {}],
      ['TLS', { certificate: createCertificate() }],
    ] as const) {
      process.stderr.write(`${title}\n`);
      const { beforeMiB, mostMiB, lastMiB } = await measure({ nodeUrl, count, seconds, ...secured });
      const each = ((mostMiB - beforeMiB) * 2 ** 20) / count;
      const megabytes = [beforeMiB, mostMiB, lastMiB].map((value) => ((value * 2 ** 20) / 1e6).toFixed(0));
      rows.push([title, ...megabytes, (each / 1e3).toFixed(1)]);
    }
    node.server.stop();
    const heads = ['connections', 'RSS MB without', 'with, at most', 'at the end', 'kB each'];
    return `Resident memory of the gateway without and with ${count.toLocaleString('en')} connections of HTTP/1.1 that stay idle after one hit each, in the ${seconds} s after the last handshake, each crowd in a gateway of its own. "kB each" is the difference of the most and the first, so garbage that handshakes leave counts.

${table(heads, rows)}`;
  },
};
