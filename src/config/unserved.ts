/** Keys the contract names and this version does not act on. Saying so beats silence: nobody should rely on them. */
import type { Positions } from './positions.ts';
import type { Problem } from './problem.ts';

/**
 * An operator who set `access` asked for a closed endpoint and must not get an open one. An empty `access:` counts as
 * set: what stood below it may have been commented out, and guessing "open" is the wrong way to be wrong.
 */
export function accessProblems(positions: Positions): readonly Problem[] {
  const path = ['access'];
  if (positions.findValue(path) === undefined) return [];
  const message =
    'is not served by this version yet; without it the endpoint is open to everybody, so this config is refused';
  return [{ where: positions.ofKey(path), path, message }];
}
