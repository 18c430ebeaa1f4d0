/**
 * Signing messages encoded by the gateway with a warm ABI, beside a bare node:http server around the same encoder and
 * beside the gateway handing the same request to a node on loopback, in interleaved rounds of one run.
 *
 *     npm run bench:encode -- [--starts N] [--rounds N] [--seconds S] [--connections N] [--warm-up S]
 *
 * Servers on core 0, wrk and the node on core 1. The proxied figure counts the gateway's own processor time, without
 * the node's. The standing proof runs as it does by default: one request of a hundred also goes to the node.
 */
import { encodeVectors } from '../src/sample/recorded.ts';
import { loadCpu, runContest, serverCpu } from './support/contest.ts';
import { benchOptions } from './support/options.ts';
import {
  requirePrograms,
  startGateway,
  startNode,
  startServer,
  type ServerProcess,
} from './support/process-under-test.ts';
import { cpu, cpuOfFirst, p99, printStandings, rate } from './support/report.ts';

const options = benchOptions();
const path = '/v1/transactions/encode_submission';
const bodyOf = (name: string): string =>
  encodeVectors.find((vector) => vector.name === name && vector.chainId === 1)?.request ?? '';
/** Recorded requests; the second calls a module whose answer is 66 kB. */
const requests = [
  { title: 'coin transfer', path, body: bodyOf('coin transfer') },
  { title: 'stake, 66 kB module', path, body: bodyOf('initialise a stake owner') },
];

requirePrograms();
const node = await startNode(loadCpu);
const standings = await runContest({
  options,
  requests,
  async start() {
    const bare = ['bench/support/bare-encoder.ts', node.url, 'coin', 'stake'];
    const gateway = { nodeUrl: node.url, cpu: serverCpu };
    const servers = [
      await startServer('node:http', bare, serverCpu),
      await startGateway({ ...gateway, name: 'ledgergate' }),
      await startGateway({ ...gateway, name: 'ledgergate, node encodes', config: { encode: { enabled: false } } }),
    ];
    for (const { body } of requests) await checkAnswers(servers, body);
    return servers;
  },
});
node.stop();

const columns = { 'encodes/s': rate, 'CPU us/request': cpu, 'node:http to it, CPU': cpuOfFirst, 'p99 ms': p99 };
for (const [{ title }, servers] of standings) printStandings(title, servers, { options, columns });

/** Whoever answers other bytes is not worth measuring. */
async function checkAnswers(servers: readonly ServerProcess[], body: string): Promise<void> {
  const answers = new Set<string>();
  for (const server of servers) {
    const headers = { 'content-type': 'application/json' };
    answers.add(await (await fetch(new URL(path, server.url), { method: 'POST', headers, body })).text());
  }
  if (answers.size !== 1) throw new Error(`the servers do not agree: ${[...answers].join(' ')}`);
}
