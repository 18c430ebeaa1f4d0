import { loadConfig } from '../config/source/load.ts';
import { type Override, overridesOf } from '../config/source/overrides.ts';
import { curlExamples } from '../sample/curl-examples.ts';
import { startSampleFleet } from '../sample/sample-fleet.ts';
import type { CommandCall, ExitCode } from './command.ts';
import { runGateway } from './run-gateway.ts';

/** `sample`: two sample nodes, a gateway in front of them, and commands to try on it. */
export async function sample({ given, terminal }: CommandCall): Promise<ExitCode> {
  const fleet = await startSampleFleet();
  try {
    const upstreams = fleet.nodes.map(({ name, url, tier }) => ({ name, url, tier }));
    const fixed: readonly Override[] = [
      { path: ['upstreams'], value: upstreams, origin: 'the sample fleet' },
      // Log lines would bury the examples.
      { path: ['log', 'level'], value: 'error', origin: 'the sample fleet' },
    ];
    const loaded = loadConfig({ overrides: [...fixed, ...overridesOf(given)] });
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
