/**
 * Signing messages encoded by the gateway with a warm ABI, beside a bare node:http server around the same encoder and
 * beside the gateway handing the same request to a node on loopback. The proxied figure counts the gateway's own
 * processor time, without the node's. The standing proof runs as it does by default: one request of a hundred also goes
 * to the node.
 */
import { encodeVectors } from '../src/sample/recorded.ts';
import { loadCpu, runContest, serverCpu } from './support/contest.ts';
import { startGateway } from './support/gateway.ts';
import { optionsOf, type Flags, type Part } from './support/options.ts';
import { startServer, type ServerProcess } from './support/process-under-test.ts';
import { cpu, cpuBeside, howTaken, p99, rate, standingsTable } from './support/report.ts';
import { startSampleNode } from './support/sample-node.ts';

const path = '/v1/transactions/encode_submission';
const bodyOf = (name: string): string =>
  encodeVectors.find((vector) => vector.name === name && vector.chainId === 1)?.request ?? '';
/** Recorded requests; the second calls a module whose answer is 66 kB. */
const requests = [
  { title: 'coin transfer', path, body: bodyOf('coin transfer') },
  { title: 'stake, 66 kB module', path, body: bodyOf('initialise a stake owner') },
];
const [bare, own, handedOn] = ['node:http', 'ledgergate', 'ledgergate, node encodes'];

/** A server that answers other bytes is not worth measuring. */
async function checkAnswers(servers: readonly ServerProcess[], body: string): Promise<void> {
  const answers = new Set<string>();
  for (const server of servers) {
    const headers = { 'content-type': 'application/json' };
    answers.add(await (await fetch(new URL(path, server.url), { method: 'POST', headers, body })).text());
  }
  if (answers.size !== 1) throw new Error(`the servers do not agree: ${[...answers].join(' ')}`);
}

export const encode: Part = {
  name: 'encode',
  heading: 'Signing messages',
  async run(flags: Flags) {
    const options = optionsOf(flags);
    const node = await startSampleNode(loadCpu);
    const standings = await runContest({
      options,
      requests,
      async start() {
        const encoder = ['bench/support/bare-encoder.ts', node.url, 'coin', 'stake'];
        const gateway = { nodeUrl: node.url, cpu: serverCpu };
        const servers = [
          await startServer(bare, encoder, serverCpu),
          await startGateway({ ...gateway, name: own, fastPath: true }),
          await startGateway({ ...gateway, name: handedOn, config: { encode: { enabled: false } }, fastPath: true }),
        ];
        for (const { body } of requests) await checkAnswers(servers, body);
        return servers;
      },
    });
    node.stop();
    const columns = { 'encodes/s': rate, 'CPU µs/request': cpu, '× node:http': cpuBeside(bare), 'p99 ms': p99 };
    const text = `\`encode_submission\` with a warm ABI, beside a bare \`node:http\` server that does the same encoding with the module at hand, and beside the same request sent on to a node on loopback (\`encode.enabled: false\`). ${options.connections} connections, ${howTaken(options)}. "× node:http": the bare server's processor time divided by the row's.

${standingsTable(standings, columns)}`;
    return text;
  },
};
