/** Applies events of other workers, checked against the state here like an answer of a node. */
import type { ShadowProof } from '../encode/shadow.ts';
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import type { Submissions } from '../proxy/routes/submissions.ts';
import type { Fleet } from '../upstream/fleet.ts';
import type { Latest } from '../upstream/latest.ts';
import type { Cache } from './tiers/cache.ts';
import type { PeerEvent } from './peer-workers.ts';

/** The parts of a worker that events change. */
interface PeerEventParts {
  readonly cache: Pick<Cache, 'purgeHere'>;
  readonly fleet: Fleet;
  readonly latest: Latest;
  readonly proof: ShadowProof;
  readonly submissions: Submissions;
}

/** Applies one event; an event that contradicts the fleet here changes nothing. */
export function applyPeerEvent(parts: PeerEventParts, event: PeerEvent): void {
  const { cache, fleet, latest, proof, submissions } = parts;
  switch (event.kind) {
    case 'head':
      observe(fleet, event.upstream, event.info);
      break;
    case 'served':
      latest.onPeerVersion(event.version);
      break;
    case 'snapshot':
      if (observe(fleet, event.snapshot.upstream, event.snapshot.info)) latest.onPeerState(event.snapshot);
      break;
    case 'refused':
      fleet.onPeerRefusal(event.fingerprint, event.version, performance.now());
      break;
    case 'ledger replaced':
      fleet.follow(event.reports, performance.now());
      break;
    case 'submitted':
      submissions.record(event.hash, event.upstream);
      break;
    case 'distrusted':
      proof.distrust(event.functionId);
      break;
    case 'fork found':
      void cache.purgeHere({ kind: 'everything' });
      break;
    case 'dropped':
      void cache.purgeHere({ kind: 'read', key: event.key });
      break;
    default:
      event satisfies never;
  }
}

/**
 * A node reported `info` to a peer. Returns whether the report counts here: the node is one of the fleet, on its chain,
 * and other nodes do not contradict it. None counts until a node has shown here in which dialect answers carry it.
 */
function observe(fleet: Fleet, name: string, info: LedgerInfo): boolean {
  const upstream = fleet.upstreams.find((known) => known.name === name);
  if (upstream === undefined || fleet.isDialectOpen) return false;
  if (info.version > (upstream.window.info?.version ?? -1n)) {
    const nowMs = performance.now();
    // The node has just answered a peer: an outage here is over.
    upstream.recordAnswer(upstream.latencyMs(nowMs), nowMs);
    if (fleet.observe(upstream, info, nowMs)) fleet.headersOfLedger.onReport(upstream, info);
    fleet.refresh();
  }
  return fleet.isOurs(upstream, info) && !upstream.isSuspect;
}
