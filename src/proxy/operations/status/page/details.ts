/** Cache, Redis, the encoder and its proof, refusals, and events. */
import type { WindowedCount, EventFacts, StatusFacts } from '../present.ts';
import { refusals, repairs } from '../counts.ts';
import { html, list, meter, table, type Markup, type Piece } from './html.ts';
import { bytes, clock, duration, milliseconds, percent, short } from '../format.ts';
import { levels } from '../states.ts';

/** Events on the page; `status.json` has all. */
const mostEvents = 60;
/** From here on the alert LedgergateFollowerLag counts. */
const longLagSeconds = 5;

/** Memory, store, Redis, connections, streams, the follower, event loop and certificate. */
export function storeSection({ cache, store, redis, load, follower, certificateExpires, at }: StatusFacts): Markup {
  const share = cache.maxBytes === 0 ? 0 : cache.bytes / cache.maxBytes;
  const tls = certificateExpires === undefined ? undefined : leftOf(certificateExpires, at);
  return list([
    ['Memory', html`${meter(share)} ${bytes(cache.bytes)} of ${bytes(cache.maxBytes)} (${percent(share)})`],
    ['Reads held', `${short(cache.entries)}, ${short(cache.evicted.last100s)} pushed out in 100 s`],
    ['Store', tierWords(store, html` ${bytes(store.bytes ?? 0)} of ${bytes(store.maxBytes ?? 0)}`)],
    ['Redis', tierWords(redis)],
    ['Connections', `${short(load.connections)} of ${short(load.maxConnections)}`],
    ['Streams', `${short(load.streams)} of ${short(load.maxStreams)}`],
    ['Follower', followerWords(follower)],
    ['Event loop', `${milliseconds(load.loopLagMs)} late${load.isOverloaded ? ', overloaded' : ''}`],
    ['Waiting for a node', short(load.waiting)],
    ...(tls === undefined ? [] : [['Certificate', tls] as const]),
  ]);
}

function followerWords({ state, next, lagSeconds }: StatusFacts['follower']): Piece {
  if (state === 'off') return 'turned off';
  if (state === 'idle') return 'not needed now';
  if (state === 'distrusted') {
    return html`<span class="bad"><span aria-hidden="true">■</span> left alone: a node contradicted its page</span>`;
  }
  const place = next === undefined ? 'starting' : `next is version ${next}`;
  return lagSeconds < longLagSeconds
    ? place
    : html`<span class="warn"><span aria-hidden="true">▲</span> ${place}, ${duration(lagSeconds)} late</span>`;
}

function tierWords({ state, reason }: StatusFacts['redis'], fill?: Piece): Piece {
  if (state === 'off') return 'not used';
  return state === 'up'
    ? html`<span class="good"><span aria-hidden="true">●</span> up</span>${fill}`
    : html`<span class="warn"><span aria-hidden="true">▲</span> degraded: ${reason}</span>`;
}

function leftOf(expires: string, at: string): string {
  const seconds = (Date.parse(expires) - Date.parse(at)) / 1_000;
  return seconds > 0 ? `ends in ${duration(seconds)}` : `ended ${expires.slice(0, 10)}`;
}

const encodeRows = {
  local: 'encoded here',
  forwarded: 'left to a node',
  refused: 'refused here',
  equal: 'compared: equal',
  inconclusive: 'compared: inconclusive',
  mismatch: 'compared: mismatch',
} as const;

/** Signing messages, and the results of their comparison with nodes. */
export function encodeSection({ encode }: StatusFacts): Markup {
  const { isOn, counts, distrusted } = encode;
  const proof = html`<p>
    ${
      distrusted.length === 0
        ? html`<span class="good"><span aria-hidden="true">●</span> No node has encoded other bytes.</span>`
        : html`<span class="bad"
              ><span aria-hidden="true">■</span> Left to nodes, because one encoded other bytes:</span
            >
            ${distrusted.slice(0, 20).join(', ')}${distrusted.length > 20 ? ` and ${distrusted.length - 20} more` : ''}`
    }
  </p>`;
  return html`${isOn ? undefined : html`<p class="none">Nodes encode: it is turned off here.</p>`}${table(
    'Encoded, and compared with the bytes of a node',
    ['Outcome', '100 s', '1000 s', 'in all'],
    Object.entries(encodeRows).map(([name, words]) =>
      countedRow(words, counts.find(({ what }) => what === name)?.count),
    ),
  )}${proof}`;
}

/** Refused requests and repairs on the way to nodes. */
export function limitSection(facts: StatusFacts): Markup {
  const { tenants } = facts;
  const refused = facts.refusals.filter(({ count }) => count.total > 0);
  return html`${table(
    'Refused',
    ['Reason', '100 s', '1000 s', 'in all'],
    refused.map(({ reason, count }) => countedRow(refusals[reason] ?? reason, count)),
  )}${table(
    'Repaired on the way',
    ['Repair', '100 s', '1000 s', 'in all'],
    facts.repairs.map(({ what, count }) => countedRow(repairs[what] ?? what, count)),
  )}${tenants.asked.length === 0 ? undefined : [tenantTable('asked', tenants.asked), tenantTable('were refused', tenants.refused)]}`;
}

function tenantTable(verb: string, top: StatusFacts['tenants']['asked']): Markup {
  const rows = top.map(({ name, count }) => [name, short(count)]);
  return table(`Tenants that ${verb} most`, ['Tenant', '100 s'], rows);
}

function countedRow(name: string, count: WindowedCount | undefined): readonly string[] {
  return [name, short(count?.last100s ?? 0), short(count?.last1000s ?? 0), short(count?.total ?? 0)];
}

/** The last events, newest first. */
export function eventSection({ events, at }: StatusFacts): Markup {
  if (events.length === 0) return html`<p class="none">Nothing has changed since the start.</p>`;
  return html`<div class="scroll" role="group" aria-labelledby="events-title" tabindex="0">
    <ol class="events">
      ${events.slice(0, mostEvents).map((event) => eventLine(event, at))}
    </ol>
  </div>`;
}

function eventLine({ at, level, text, workers }: EventFacts, now: string): Markup {
  const { sign, tone, word } = levels[level];
  const ago = duration(Math.max(0, (Date.parse(now) - Date.parse(at)) / 1_000));
  return html`<li>
    <time datetime="${at}" title="${at}">${clock(at)}</time>
    <span class="${tone}" role="img" aria-label="${word}">${sign}</span>
    <span class="text">${text}${workers === undefined ? undefined : html` <small>(${workers} workers)</small>`}</span>
    <small class="ago">${ago} ago</small>
  </li>`;
}
