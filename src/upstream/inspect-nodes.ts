/** One look at every node from outside, without a gateway: its ledger, and why the gateway could not use it. */
import { ClientTls, type Config } from '../config/index.ts';
import { Dialect, type LedgerInfo } from '../ledger/index.ts';
import { Agent, request } from 'undici';
import { elect } from './contradictions.ts';
import { lookupOf } from './node/node-client.ts';
import type { NodeConfig } from './node/node-credentials.ts';
import { connectionFault, describeFault, dialectOfLook, faultOfLook, type NodeFaultReport } from './node/node-fault.ts';
import { SharedAddress, sharedAddressMessage } from './node/shared-address.ts';
import { lookUpBySystem, lookUpNames, nodesOf, shownAddress } from './nodes.ts';

/**
 * Probes every node. Throws when files of TLS cannot be used. Without a chain or dialect in the config, those of most
 * nodes count.
 */
export async function inspectNodes(config: Config) {
  const { chainId: fixedChainId, dialect: fixedDialect } = config;
  const { timeoutMs } = config.upstream;
  const addresses = await lookUpNames(config, lookUpBySystem, timeoutMs);
  const probed = await Promise.all(
    config.upstreams.flatMap((upstream, index) =>
      nodesOf([upstream], addresses).map(async (node) => {
        const { name, tier } = node;
        return { index, address: shownAddress(node), name, tier, outcome: await probeAddress(node, timeoutMs) };
      }),
    ),
  );
  const fleetDialect = fixedDialect === 'auto' ? elect(probed.map(({ outcome }) => outcome.dialect)) : fixedDialect;
  const ofDialect = probed.filter(({ outcome }) => outcome.dialect === fleetDialect);
  const chainId = fixedChainId ?? elect(ofDialect.map(({ outcome }) => outcome.ledger?.chainId));
  const ledgers = probed.flatMap(({ outcome }) => outcome.ledger ?? []);
  const fleetHead = ledgers.reduce((head, { version }) => (version > head ? version : head), 0n);
  return probed.map(({ index, address, name, tier, outcome }) => {
    const { reachable, dialect, ledger, fault, isShared } = outcome;
    const found = fault ?? faultInFleet(outcome, fleetDialect, chainId);
    const shared = isShared === true ? sharedAddressMessage : undefined;
    return {
      index,
      /** One of several that its name has; `undefined`: its name was not looked up. */
      address,
      name,
      tier,
      reachable,
      dialect,
      chainId: ledger?.chainId,
      // 64-bit numbers as text: they do not fit into a JSON number.
      oldest: ledger?.oldestVersion.toString(),
      head: ledger?.version.toString(),
      lag: ledger === undefined ? undefined : (fleetHead - ledger.version).toString(),
      /** The word that log, status and metrics of a running gateway have. */
      reason: found?.reason,
      fault: found === undefined ? shared : describeFault(found),
    };
  });
}

/** Why a node could not be used beside those of the fleet. */
function faultInFleet(
  { dialect, ledger }: ProbeOutcome,
  fleetDialect: Dialect['name'] | undefined,
  chainId: number | undefined,
): NodeFaultReport | undefined {
  if (dialect !== undefined && dialect !== fleetDialect)
    return { reason: 'other dialect', value: `it speaks ${dialect}, the fleet ${fleetDialect}` };
  if (ledger !== undefined && ledger.chainId !== chainId)
    return { reason: 'other chain', value: `it is of chain ${ledger.chainId}, the fleet of ${chainId}` };
  return undefined;
}

/** `fault`: why the gateway could not use the node, whatever its chain. */
interface ProbeOutcome {
  readonly reachable: boolean;
  readonly dialect?: Dialect['name'] | undefined;
  readonly ledger?: LedgerInfo;
  readonly fault?: NodeFaultReport;
  readonly isShared?: boolean;
}

/** Never throws and never takes longer than `timeoutMs`. */
async function probe({ url, headers, address, tls }: NodeConfig, timeoutMs: number): Promise<ProbeOutcome> {
  const connect = { ...(address === undefined ? {} : { lookup: lookupOf(address) }), ...(tls && ClientTls.once(tls)) };
  const dispatcher = new Agent({ connections: 1, connect });
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const answer = await request(url, { dispatcher, signal, headers: { accept: 'application/json', ...headers } });
    await answer.body.dump();
    const dialect = dialectOfLook(answer.statusCode, answer.headers);
    const ledger = dialect && new Dialect(dialect).findInfo(answer.headers);
    if (ledger !== undefined) return { reachable: true, dialect, ledger };
    return { reachable: true, fault: faultOfLook(answer.statusCode, answer.headers, 'node') };
  } catch (error) {
    return { reachable: false, fault: connectionFault(error, timeoutMs) };
  } finally {
    await dispatcher.destroy();
  }
}

/** Looks, each over a connection of its own, that find most balancers. */
const mostLooks = 8;

async function probeAddress(node: NodeConfig, timeoutMs: number): Promise<ProbeOutcome> {
  const address = new SharedAddress();
  const untilMs = performance.now() + timeoutMs;
  let first: ProbeOutcome | undefined;
  for (let looks = 0; looks < mostLooks && !address.isShared; looks += 1) {
    const sentAtMs = performance.now();
    if (first !== undefined && sentAtMs >= untilMs) break;
    const outcome = await probe(node, timeoutMs);
    first ??= outcome;
    if (outcome.ledger === undefined) break;
    address.observe(outcome.ledger, sentAtMs, performance.now());
  }
  return { reachable: false, ...first, isShared: address.isShared };
}
