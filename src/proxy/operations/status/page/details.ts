/** Cache, Redis, the encoder and its proof, refusals, and events. */
import type { WindowedCount, EventFacts, StatusFacts } from '../present.ts';
import { refusals, repairs } from '../counts.ts';
import { html, list, meter, table, toned, type Markup, type Piece } from './html.ts';
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
  if (state === 'distrusted') return toned('bad', 'left alone: a node contradicted its page');
  const place = next === undefined ? 'starting' : `next is version ${next}`;
  return lagSeconds < longLagSeconds ? place : toned('warn', `${place}, ${duration(lagSeconds)} late`);
}

function tierWords({ state, reason }: StatusFacts['redis'], fill?: Piece): Piece {
  if (state === 'off') return 'not used';
  return state === 'up' ? [toned('good', 'up'), fill] : toned('warn', `degraded: ${reason}`);
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
  const rows = Object.entries(encodeRows).map(([name, words]) => {
    return [words, counts.find(({ what }) => what === name)?.count] as const;
  });
  const more = distrusted.length > 20 ? ` and ${distrusted.length - 20} more` : '';
  const named = [
    toned('bad', 'Left to nodes, because one encoded other bytes:'),
    ` ${distrusted.slice(0, 20).join(', ')}`,
    more,
  ];
  const proof = distrusted.length === 0 ? toned('good', 'No node has encoded other bytes.') : named;
  return html`${isOn ? undefined : html`<p class="none">Nodes encode: it is turned off here.</p>`}
    ${countedTable('Encoded, and compared with the bytes of a node', 'Outcome', rows)}
    <p>${proof}</p>`;
}

/** Refused requests and repairs on the way to nodes. */
export function limitSection(facts: StatusFacts): Markup {
  const { asked, refused } = facts.tenants;
  const refusedRows = facts.refusals
    .filter(({ count }) => count.total > 0)
    .map(({ reason, count }) => [refusals[reason] ?? reason, count] as const);
  const repairRows = facts.repairs.map(({ what, count }) => [repairs[what] ?? what, count] as const);
  return html`${countedTable('Refused', 'Reason', refusedRows)}
  ${countedTable('Repaired on the way', 'Repair', repairRows)}
  ${asked.length === 0 ? undefined : [tenantTable('asked', asked), tenantTable('were refused', refused)]}`;
}

function tenantTable(verb: string, top: StatusFacts['tenants']['asked']): Markup {
  return table(
    `Tenants that ${verb} most`,
    [
      ['Tenant', ({ name }) => name],
      ['100 s', ({ count }) => short(count)],
    ],
    top,
  );
}

type CountedRow = readonly [name: string, count: WindowedCount | undefined];

function countedTable(caption: string, first: string, rows: readonly CountedRow[]): Markup {
  return table<CountedRow>(
    caption,
    [
      [first, ([name]) => name],
      ['100 s', ([, count]) => short(count?.last100s ?? 0)],
      ['1000 s', ([, count]) => short(count?.last1000s ?? 0)],
      ['in all', ([, count]) => short(count?.total ?? 0)],
    ],
    rows,
  );
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
