/** The dialect of the fleet, where the config names none: that of most nodes, decided once by the first answers. */
import { dialectOf, findLedgerInfo, type DialectName, type HeaderValues } from '../ledger/ledger-headers.ts';
import { elect } from './node/ledger-identity.ts';

/** The status and headers of a look at the ledger info. */
interface Look {
  readonly status: number;
  readonly headers: HeaderValues;
}

/** The dialect of the ledger headers of a look; `undefined`: it has none. */
export function dialectSpoken({ status, headers }: Look): DialectName | undefined {
  if (status !== 200) return undefined;
  return (['node', 'aptos'] as const).find((name) => findLedgerInfo(headers, dialectOf(name)) !== undefined);
}

/**
 * The dialect that most of `nodes` speak; of two that as many speak, that of the first node. Resolves once more than half
 * have answered alike, all have answered or failed, or `withinMs` is over. `undefined`: no answer had ledger headers.
 */
export async function voteOnDialect<N>(
  nodes: readonly N[],
  look: (node: N) => Promise<Look>,
  withinMs: number,
): Promise<DialectName | undefined> {
  const spoken: (DialectName | undefined)[] = nodes.map(() => undefined);
  const { promise: isDecided, resolve: decide } = Promise.withResolvers<void>();
  const timer = setTimeout(decide, withinMs);
  const looks = nodes.map(async (node, index) => {
    const name = await look(node).then(dialectSpoken, () => undefined);
    spoken[index] = name;
    if (name !== undefined && spoken.filter((other) => other === name).length * 2 > nodes.length) decide();
  });
  await Promise.race([Promise.all(looks), isDecided]);
  clearTimeout(timer);
  return elect(spoken, undefined);
}
