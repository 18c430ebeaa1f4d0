/** Findings about the fleet as a whole, from a probe of every upstream. Pure. */
import type { KeyPath } from '../../config/source/key-path.ts';
import type { Config } from '../../config/config.ts';
import type { DialectName } from '../../ledger/ledger-headers.ts';
import { elect } from '../../upstream/contradictions.ts';
import { describeFault, type NodeFaultReport } from '../../upstream/node/node-fault.ts';
import { sharedAddressMessage } from '../../upstream/node/shared-address.ts';
import type { ProbeOutcome } from './probe.ts';

/** One upstream of the config and the outcome of its probe. */
interface ProbedUpstream {
  /** Its place in the config; nodes with `discover` share one. */
  readonly index: number;
  readonly name: string;
  readonly tier: 'full' | 'archival';
  /** Without credentials; with the address of a node that was found by its name. */
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

/** A config without a chain or a dialect takes those of most nodes. */
export function inspectFleet(
  probed: readonly ProbedUpstream[],
  { chainId: fixedChainId, dialect: fixedDialect }: Pick<Config, 'chainId' | 'dialect'>,
) {
  const fleetDialect = fixedDialect === 'auto' ? elect(probed.map(({ outcome }) => outcome.dialect)) : fixedDialect;
  const ofDialect = probed.filter(({ outcome }) => outcome.dialect === fleetDialect);
  const chainId = fixedChainId ?? elect(ofDialect.map(({ outcome }) => outcome.ledger?.chainId));
  const ledgers = probed.flatMap(({ outcome }) => outcome.ledger ?? []);
  const fleetHead = ledgers.reduce((head, { version }) => (version > head ? version : head), 0n);
  const upstreams = probed.map(({ name, tier, url, outcome: { reachable, dialect, ledger, fault, isShared } }) => {
    const found = fault ?? faultOfDialect(dialect, fleetDialect) ?? faultOfChain(ledger?.chainId, chainId);
    const shared = isShared === true ? sharedAddressMessage : undefined;
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
      fault: found === undefined ? shared : describeFault(found),
    };
  });
  const findings: readonly CheckFinding[] = upstreams.flatMap(({ name, fault }, at) => {
    const index = probed[at]?.index ?? at;
    const isOnly = probed.filter((other) => other.index === index).length === 1;
    const message = isOnly ? fault : `${name}: ${fault}`;
    return fault === undefined || message === undefined ? [] : [{ path: ['upstreams', index, 'url'], message }];
  });
  return { upstreams, findings };
}

function faultOfDialect(spoken: DialectName | undefined, fleet: DialectName | undefined): NodeFaultReport | undefined {
  if (spoken === undefined || spoken === fleet) return undefined;
  return { reason: 'other dialect', value: `it speaks ${spoken}, the fleet ${fleet}` };
}

function faultOfChain(reported: number | undefined, fleet: number | undefined): NodeFaultReport | undefined {
  if (reported === undefined || reported === fleet) return undefined;
  return { reason: 'other chain', value: `it is of chain ${reported}, the fleet of ${fleet}` };
}
