/** The dialect of the fleet, where the config names none: that of most nodes, decided once by the first answers. */
import { Dialect, type LedgerInfo, settlesWithin } from '../ledger/index.ts';
import type { AnswerHead } from './dispatch/exchange.ts';
import type { FleetState } from './fleet-state.ts';
import { elect } from './contradictions.ts';
import type { Upstream } from './node/upstream.ts';

/** A look at the ledger info. */
type Look = Pick<AnswerHead, 'status' | 'headers'>;

/** The dialect of the ledger headers of a look; `undefined`: it has none. */
export function dialectSpoken({ status, headers }: Look): Dialect['name'] | undefined {
  if (status !== 200) return undefined;
  return (['node', 'aptos'] as const).find((name) => new Dialect(name).findInfo(headers) !== undefined);
}

/** Longest wait of the start for the nodes that show the dialect, without a majority. */
const longestVoteMs = 500;

/**
 * Settles an open dialect as that which most nodes speak; of two that as many speak, that of the first node. Resolves once
 * more than half have answered `look` alike, all have answered or failed, or the wait is over; no answer with ledger headers
 * leaves it open.
 */
export async function voteOnDialect(fleet: FleetState, look: (upstream: Upstream) => Promise<Look>): Promise<void> {
  if (!fleet.isDialectOpen) return;
  const { upstreams } = fleet;
  const spoken: (Dialect['name'] | undefined)[] = upstreams.map(() => undefined);
  const { promise: isDecided, resolve: decide } = Promise.withResolvers<void>();
  const looks = upstreams.map(async (upstream, index) => {
    const name = await look(upstream).then(dialectSpoken, () => undefined);
    spoken[index] = name;
    if (name !== undefined && spoken.filter((other) => other === name).length * 2 > upstreams.length) decide();
  });
  await settlesWithin(Promise.race([Promise.all(looks), isDecided]), longestVoteMs);
  const elected = elect(spoken);
  if (elected !== undefined) fleet.takeDialect(elected);
}

/** The ledger of the look that decides an open dialect; `undefined` for any other. */
export function takeDialectOf(fleet: FleetState, look: Look): LedgerInfo | undefined {
  const spoken = fleet.isDialectOpen ? dialectSpoken(look) : undefined;
  if (spoken === undefined) return undefined;
  fleet.takeDialect(spoken);
  return fleet.dialect.findInfo(look.headers);
}
