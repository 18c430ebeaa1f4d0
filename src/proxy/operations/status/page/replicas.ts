/** The replicas that share Redis, with their sum. */
import type { StatusFacts } from '../present.ts';
import { html, type Markup, type Piece } from './html.ts';
import { inMs, percent, perSecond, short } from '../format.ts';
import { table } from './traffic.ts';

type ReplicaRow = NonNullable<StatusFacts['replicas']>['all'];

/** A row for each replica below the sum of all; present whenever Redis is configured, so that the page's script finds it. */
export function replicaSection({ replicas }: StatusFacts): Markup {
  if (replicas === undefined) return html`<p class="none">Redis gives no answer: this page is of one replica.</p>`;
  const { all, each } = replicas;
  const columns = ['Replica', 'Requests', 'To nodes', 'Hits', 'p99 ms', 'Connections'];
  return table('Last 100 s, as each has reported in Redis; p99: the largest', columns, [all, ...each].map(rowOf));
}

function rowOf(facts: ReplicaRow): readonly Piece[] {
  const { name, isReady, requestsPerSecond, toNodesPerSecond, hitShare, p99Ms, connections } = facts;
  const rates = [perSecond(requestsPerSecond), perSecond(toNodesPerSecond)];
  return [isReady ? name : `${name} (not ready)`, ...rates, percent(hitShare), inMs(p99Ms), short(connections)];
}
