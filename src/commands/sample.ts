import { once } from 'node:events';
import { loadConfig } from '../config/index.ts';
import { curlExamples, startSampleFleet } from '../sample/index.ts';
import type { CommandCall, ExitCode } from './command.ts';
import { noFleet } from './given-config.ts';
import { listenProblem, runGateway } from './run-gateway.ts';

/** `sample`: two sample nodes, a gateway in front of them, and commands to try on it. */
export async function sample(call: CommandCall): Promise<ExitCode> {
  const { given, terminal } = call;
  if (given.has('nodes')) return sampleNodes(call);
  const fleet = await startSampleFleet();
  try {
    const upstreams = fleet.nodes.map(({ name, url, tier }) => ({ name, url, tier }));
    const preset = [
      { path: ['upstreams'], value: upstreams, origin: 'the sample fleet' },
      // For trying things out on this machine; `serve`, and the nodes alone for a gateway elsewhere, listen on all addresses.
      { path: ['listen', 'host'], value: '127.0.0.1', origin: 'the sample fleet' },
      // Log lines would bury the examples.
      { path: ['log', 'level'], value: 'error', origin: 'the sample fleet' },
    ];
    const loaded = loadConfig({ preset, given });
    terminal.out('SAMPLE NODES, NOT A REAL LEDGER: recorded answers, a ledger that only counts.');
    terminal.out('Your own nodes: ledgergate serve --upstream http://HOST:PORT/v1\n');
    return await runGateway(loaded, {
      terminal,
      announce: (gateway) => [
        '\nTry:',
        ...curlExamples(gateway.url, fleet.state()).flatMap(({ title, command }) => [`# ${title}`, `${command}\n`]),
      ],
    });
  } finally {
    await fleet.close();
  }
}

/** `sample --nodes`: both nodes without a gateway, for one that runs elsewhere. */
async function sampleNodes({ given, terminal }: CommandCall): Promise<ExitCode> {
  const stop = terminal.stopSignal();
  const loaded = loadConfig({ preset: [noFleet], given });
  const { host, port } = loaded.config.listen;
  const fleet = await startSampleFleet({ host, port }).catch((error: unknown) => {
    throw listenProblem(error, loaded);
  });
  terminal.out('SAMPLE NODES, NOT A REAL LEDGER: recorded answers, a ledger that only counts.');
  for (const { name, url } of fleet.nodes) terminal.out(`${name}: ${url}`);
  if (!stop.aborted) await once(stop, 'abort');
  await fleet.close();
  return 0;
}
