/** Findings about the fleet as a whole, from a probe of every upstream. Pure. */
import type { KeyPath } from '../../config/source/key-path.ts';
import type { Config } from '../../config/config.ts';
import { describeFault, type NodeFaultReport } from '../../upstream/node/node-fault.ts';
import type { ProbeOutcome } from './probe.ts';

/** One upstream of the config and the outcome of its probe. */
interface ProbedUpstream {
  readonly name: string;
  readonly tier: 'full' | 'archival';
  /** Without credentials. */
  readonly url: string;
  readonly outcome: ProbeOutcome;
}

/** `at`: the key to which the message belongs. */
export interface CheckFinding {
  readonly path: KeyPath;
  readonly message: string;
}

/** All upstreams with their state, and the findings about them. */
export type Inspection = ReturnType<typeof inspectFleet>;

/** One upstream's line. */
export type InspectedUpstream = Inspection['upstreams'][number];

/** `fixedChainId`: the chain that the config names; absent: that of most nodes. */
export function inspectFleet(probed: readonly ProbedUpstream[], { chainId: fixedChainId }: Pick<Config, 'chainId'>) {
  const ledgers = probed.flatMap(({ outcome }) => outcome.ledger ?? []);
  const chainId = fixedChainId ?? mostCommon(ledgers.map((ledger) => ledger.chainId));
  const wanted = fixedChainId === undefined ? `the fleet of chain ${chainId}` : `chainId is ${fixedChainId}`;
  const fleetHead = ledgers.reduce((head, { version }) => (version > head ? version : head), 0n);
  const upstreams = probed.map(({ name, tier, url, outcome: { reachable, dialect, ledger, fault } }) => {
    const isForeign = ledger !== undefined && ledger.chainId !== chainId;
    const foreign: NodeFaultReport | undefined = isForeign
      ? { reason: 'other chain', value: `it is of chain ${ledger.chainId}, ${wanted}` }
      : undefined;
    const found = fault ?? foreign;
    return {
      name,
      tier,
      url,
      reachable,
      dialect,
      chainId: ledger?.chainId,
      // 64-bit numbers as text: they do not fit into a JSON number.
      oldest: ledger?.oldestVersion.toString(),
      head: ledger?.version.toString(),
      /** Versions behind the highest head of the fleet. */
      lag: ledger === undefined ? undefined : (fleetHead - ledger.version).toString(),
      /** The word that log, status and metrics of a running gateway have. */
      reason: found?.reason,
      fault: found && describeFault(found),
    };
  });
  const findings: readonly CheckFinding[] = upstreams.flatMap(({ fault }, index) =>
    fault === undefined ? [] : [{ path: ['upstreams', index, 'url'], message: fault }],
  );
  return { upstreams, findings };
}

/** The value that occurs most often; of equals, the first. */
function mostCommon(values: readonly number[]): number | undefined {
  const counts = new Map<number, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  const most = Math.max(...counts.values());
  return values.find((value) => counts.get(value) === most);
}
