/** Three equal nodes of limited strength, in processes of their own, and what is done to them. */
import { request as send } from 'undici';
import type { NodeCounts, NodeSettings } from './capacity-node.ts';
import { startServer, type ServerProcess } from './process-under-test.ts';

export interface StrainedNode {
  readonly url: string;
  set(settings: Partial<NodeSettings>): Promise<void>;
  counts(): Promise<NodeCounts>;
}

export interface StrainedFleet {
  readonly nodes: readonly StrainedNode[];
  /** Reads that came to each node so far, in their order. */
  reads(): Promise<readonly number[]>;
  stop(): void;
}

/** Processes run where the system puts them. */
export const anyCpu = '0,1';

export async function strainedFleet(settings: Partial<NodeSettings> = {}): Promise<StrainedFleet> {
  const servers = await Promise.all(
    [1, 2, 3].map((seed) => startServer('node', ['bench/support/capacity-node.ts', String(seed)], anyCpu)),
  );
  const nodes = servers.map(nodeAt);
  await Promise.all(nodes.map((node) => node.set(settings)));
  return {
    nodes,
    reads: () => Promise.all(nodes.map(async (node) => (await node.counts()).reads)),
    stop() {
      for (const server of servers) server.stop();
    },
  };
}

function nodeAt({ url }: ServerProcess): StrainedNode {
  const control = new URL('/control', url);
  const ask = async (body?: string): Promise<NodeCounts> => {
    const answer = await send(control, { method: body === undefined ? 'GET' : 'POST', body: body ?? null });
    return (await answer.body.json()) as NodeCounts;
  };
  return {
    url,
    async set(settings) {
      await ask(JSON.stringify(settings));
    },
    counts: () => ask(),
  };
}
