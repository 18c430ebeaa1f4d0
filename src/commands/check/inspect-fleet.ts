/** The nodes of a config as they answer now, and the findings about its upstreams. */
import type { LoadedConfig, Problem } from '../../config/index.ts';
import { inspectNodes } from '../../upstream/index.ts';

/** A fault of the value at `path`. */
export interface CheckFinding {
  readonly path: Problem['path'];
  readonly message: string;
}

/** All upstreams with their state, and the findings about them. */
export type FleetInspection = Awaited<ReturnType<typeof inspectFleet>>;

/** Probes every node. */
export async function inspectFleet({ config, redacted }: Pick<LoadedConfig, 'config' | 'redacted'>) {
  const nodes = await inspectNodes(config);
  const upstreams = nodes.map(({ index, address, name, tier, ...state }) => {
    const given = redacted.upstreams[index]?.url ?? '';
    return { name, tier, url: address === undefined ? given : `${given} (${address})`, ...state };
  });
  const findings = nodes.flatMap(({ index, name, fault }): readonly CheckFinding[] => {
    if (fault === undefined) return [];
    const isOnly = nodes.filter((other) => other.index === index).length === 1;
    return [{ path: ['upstreams', index, 'url'], message: isOnly ? fault : `${name}: ${fault}` }];
  });
  return { upstreams, findings };
}
