/** Which ledger the fleet is on. */

/**
 * The chain id of most nodes that have told one (`told`, in the order of the config). Of equals it is `standing`, the one
 * agreed on before, so that a single node that changes its mind does not turn the fleet round; without one, the one
 * told by the node configured first.
 */
export function electChain(told: readonly (number | undefined)[], standing: number | undefined): number | undefined {
  const votes = new Map<number, number>();
  for (const chainId of told) {
    if (chainId !== undefined) votes.set(chainId, (votes.get(chainId) ?? 0) + 1);
  }
  let elected = standing;
  for (const [chainId, count] of votes) {
    if (elected === undefined || count > (votes.get(elected) ?? 0)) elected = chainId;
  }
  return elected;
}
