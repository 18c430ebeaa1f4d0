/** A fleet without a gateway, over the sockets of a test's nodes. */
import { Dialect } from '../../src/ledger/ledger-headers.ts';
import { FleetState } from '../../src/upstream/fleet-state.ts';
import { Upstream } from '../../src/upstream/node/upstream.ts';
import { quietEvents } from './fleet-events.ts';

/** Full nodes called n0, n1 and so on. The test closes `upstreams`. */
export function fleetOf(nodes: readonly { readonly url: string }[]) {
  const upstreams = nodes.map(({ url }, index) => {
    return new Upstream({
      name: `n${index}`,
      url: new URL(url),
      tier: 'full',
      connections: 4,
      connectTimeoutMs: 1_000,
    });
  });
  return { upstreams, fleet: new FleetState(upstreams, new Dialect('node'), quietEvents) };
}
