/** Whose word is the last. */
import type { Candidate } from './ranking.ts';

/** The node whose word on "no such version" or "no such transaction" is final: the one with the lowest edge. */
export function deepest<C extends Candidate>(candidates: readonly C[]): C | undefined {
  return candidates
    .filter((candidate) => candidate.health !== 'foreign')
    .reduce<C | undefined>(
      (found, candidate) => (found === undefined || isDeeper(candidate, found) ? candidate : found),
      undefined,
    );
}

/**
 * The deepest node, when it is deeper than all of `refusers`: while it has not been heard, what they call pruned may be
 * there.
 */
export function deeperThan<C extends Candidate>(candidates: readonly C[], refusers: (candidate: C) => boolean) {
  const final = deepest(candidates);
  if (final === undefined || refusers(final)) return undefined;
  return candidates.some((candidate) => refusers(candidate) && !isDeeper(final, candidate)) ? undefined : final;
}

function isDeeper(a: Candidate, b: Candidate): boolean {
  if (a.window === undefined || b.window === undefined) {
    return a.tier === 'archival' && b.tier === 'full';
  }
  return a.window.oldest === b.window.oldest
    ? a.tier === 'archival' && b.tier === 'full'
    : a.window.oldest < b.window.oldest;
}
