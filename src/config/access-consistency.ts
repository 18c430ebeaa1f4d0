/** What `access` says that cannot all be so: names of plans that are not there, keys that are nowhere. */
import { findValue, isMapping, type KeyPath } from './key-path.ts';
import { nearMissHint } from './near-miss.ts';
import type { Positions } from './positions.ts';
import type { Problem } from './problem.ts';

export function findAccessContradictions(root: unknown, positions: Positions): readonly Problem[] {
  const access = findValue(root, ['access']);
  if (!isMapping(access)) return [];
  return [...unknownPlan(access, positions), ...noRedis(root, positions), ...nobodyMay(access, positions)];
}

function unknownPlan(access: unknown, positions: Positions): readonly Problem[] {
  const name = findValue(access, ['anonymous']);
  const plans = findValue(access, ['plans']);
  if (typeof name !== 'string' || !isMapping(plans) || Object.hasOwn(plans, name)) return [];
  const path = ['access', 'anonymous'];
  const message = `there is no plan "${name}" in access.plans${nearMissHint(name, Object.keys(plans))}`;
  return [{ where: positions.ofValue(path), path, message }];
}

function noRedis(root: unknown, positions: Positions): readonly Problem[] {
  const path: KeyPath = ['access', 'keys', 'redis'];
  if (findValue(root, path) !== true || isMapping(findValue(root, ['cache', 'redis']))) return [];
  return [{ where: positions.ofValue(path), path, message: 'needs cache.redis: that is where the keys are' }];
}

/** An endpoint that refuses everybody is nobody's wish; the commonest way there is a key that is left out. */
function nobodyMay(access: unknown, positions: Positions): readonly Problem[] {
  const isThere = (path: KeyPath): boolean => ![undefined, null, false].includes(findValue(access, path) as never);
  if (isThere(['keys', 'file']) || isThere(['keys', 'redis']) || isThere(['anonymous'])) return [];
  const path = ['access'];
  const message = 'needs keys (keys.file or keys.redis), or a plan for requests without one (anonymous)';
  return [{ where: positions.ofKey(path), path, message }];
}
