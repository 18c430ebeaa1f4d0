/** Findings about the fleet as a whole, from a probe of every upstream. Pure. */
import type { KeyPath } from '../../config/source/key-path.ts';
import type { Config } from '../../config/config.ts';
import type { DialectName, LedgerInfo } from '../../ledger/ledger-headers.ts';
import type { ProbeOutcome } from './probe.ts';

/** One upstream of the config and the outcome of its probe. */
export interface ProbedUpstream {
  readonly name: string;
  readonly tier: 'full' | 'archival';
  /** Without credentials. */
  readonly url: string;
  readonly outcome: ProbeOutcome;
}

/** One upstream's line. 64-bit numbers as text: they do not fit into a JSON number. */
export interface InspectedUpstream {
  readonly name: string;
  readonly tier: 'full' | 'archival';
  readonly url: string;
  readonly reachable: boolean;
  readonly dialect: DialectName | undefined;
  readonly chainId: number | undefined;
  readonly oldest: string | undefined;
  readonly head: string | undefined;
  /** Versions behind the highest head of the fleet. */
  readonly lag: string | undefined;
  readonly fault: string | undefined;
}

/** `at`: the key to which the message belongs. */
export interface CheckFinding {
  readonly path: KeyPath;
  readonly message: string;
}

/** All upstreams with their state, and the findings about them. */
export interface Inspection {
  readonly upstreams: readonly InspectedUpstream[];
  readonly findings: readonly CheckFinding[];
}

/** `fixedChainId`: the chain that the config names; absent: that of most nodes. */
export function inspectFleet(
  probed: readonly ProbedUpstream[],
  { dialect, chainId: fixedChainId }: Pick<Config, 'dialect' | 'chainId'>,
): Inspection {
  const ledgers = probed.flatMap(({ outcome }) => ledgerOf(outcome) ?? []);
  const chainId = fixedChainId ?? mostCommon(ledgers.map((ledger) => ledger.chainId));
  const wanted =
    fixedChainId === undefined ? `the fleet is of chain ${chainId}` : `chainId is ${fixedChainId} (other chain)`;
  const fleetHead = ledgers.reduce((head, { version }) => (version > head ? version : head), 0n);
  const upstreams = probed.map(({ name, tier, url, outcome }) => {
    const ledger = ledgerOf(outcome);
    const foreign = ledger === undefined || ledger.chainId === chainId ? undefined : foreignChain(ledger, wanted);
    return {
      name,
      tier,
      url,
      reachable: outcome.kind !== 'unreachable',
      dialect: outcome.kind === 'ledger' ? dialect : outcome.kind === 'other dialect' ? outcome.dialect : undefined,
      chainId: ledger?.chainId,
      oldest: ledger?.oldestVersion.toString(),
      head: ledger?.version.toString(),
      lag: ledger === undefined ? undefined : (fleetHead - ledger.version).toString(),
      fault: faultOf(outcome, dialect) ?? foreign,
    };
  });
  const findings = upstreams.flatMap(({ fault }, index) =>
    fault === undefined ? [] : [{ path: ['upstreams', index, 'url'], message: fault }],
  );
  return { upstreams, findings };
}

function ledgerOf(outcome: ProbeOutcome): LedgerInfo | undefined {
  return outcome.kind === 'ledger' || outcome.kind === 'other dialect' ? outcome.ledger : undefined;
}

function faultOf(outcome: ProbeOutcome, dialect: DialectName): string | undefined {
  switch (outcome.kind) {
    case 'ledger':
      return undefined;
    case 'other dialect':
      return `speaks the ${outcome.dialect} dialect, the config says ${dialect} (set "dialect: ${outcome.dialect}")`;
    case 'no ledger':
      return outcome.status < 300
        ? 'answers without ledger headers: is this the base address of a ledger node?'
        : `answers ${outcome.status} instead of its ledger: is this the base address, path included?`;
    case 'unreachable':
      return `cannot be reached: ${outcome.why}`;
  }
}

function foreignChain(ledger: LedgerInfo, wanted: string): string {
  return `is of chain ${ledger.chainId}, ${wanted}: the gateway will not ask it`;
}

/** The value that occurs most often; of equals, the first. */
function mostCommon(values: readonly number[]): number | undefined {
  const counts = new Map<number, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  const most = Math.max(...counts.values());
  return values.find((value) => counts.get(value) === most);
}
