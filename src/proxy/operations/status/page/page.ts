/**
 * The status page: one self-contained answer, whose script fetches it again, so that only the server renders facts; and the
 * runbook beside it.
 */
import { readFileSync } from 'node:fs';
import type { StatusFacts } from '../present.ts';
import { pagePolicy } from '../../../routes/index.ts';
import { html, Markup, type Piece } from './html.ts';
import { encodeSection, eventSection, limitSection, storeSection } from './details.ts';
import { script, style } from './assets.ts';
import { axisSection } from './axis.ts';
import { fleetSection, nodesOf, tableViewOf, type TableView } from './fleet.ts';
import { outcomeSection, routeSection, trendSection, windowSection } from './traffic.ts';
import { clock, duration } from '../format.ts';
import { overallStates } from '../states.ts';

/** Content-Security-Policy of the pages of this port. */
export const policy = pagePolicy({ style, script }, `'self'`, 'img-src data:');

const styling = new Markup(`<style>${style}</style>`);
const scripting = new Markup(`<script>${script}</script>`);

/** Problems on the page at once; the others are one click away. */
const mostProblems = 8;

/** The icon has the colour of the state, visible in a background tab. */
const iconColours = { good: '1d8348', warn: 'b9770e', bad: 'c0392b', idle: '6c7a89' } as const;

/** The whole page, as HTML; `view`: the nodes that it shows. */
export function statusPage(facts: StatusFacts, view: TableView = tableViewOf({})): string {
  const { state } = facts;
  const nodes = nodesOf(facts.nodes, view);
  const icon = `data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' rx='4' fill='%23${iconColours[overallStates[state].tone]}'/%3E%3C/svg%3E`;
  const head = html`<meta name="robots" content="noindex" />
    <link rel="icon" href="${icon}" />
    <noscript><meta http-equiv="refresh" content="10" /></noscript>`;
  const body = html`<body>
    <a class="skip" href="#content">Skip to the status</a>
    ${headerOf(facts)}
    <main id="content" tabindex="-1">
      ${section('state', undefined, stateOf(facts))} ${section('fleet', 'Fleet', fleetSection(facts, nodes, view))}
      ${section('trends', 'Last 15 minutes', trendSection(facts))}
      ${section('axis', 'Retention windows', axisSection(facts, nodes))}
      ${section('windows', 'Traffic', windowSection(facts))}
      ${section('outcomes', 'Sources of answers', outcomeSection(facts))}
      ${section('routes', 'Requests by class', routeSection(facts))}
      ${section('store', 'Cache and Redis', storeSection(facts))}
      ${section('encode', 'Signing messages', encodeSection(facts))}
      ${section('limits', 'Limits and repairs', limitSection(facts))}
      ${section('events', 'Recent events', eventSection(facts))}
    </main>
    <footer>
      <p>
        The same for programs: <a href="status.json">status.json</a>. In a terminal: <code>ledgergate status</code>.
      </p>
    </footer>
    ${scripting}
  </body>`;
  return documentOf(state, head, body);
}

/** A page of the operations port with its style. */
function documentOf(title: string, head: Markup | undefined, body: Markup): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title} · Ledgergate</title>
        ${head} ${styling}
      </head>
      ${body}
    </html> `.text;
}

const runbookFile = new URL('../../../../../docs/runbook.md', import.meta.url);

/** The sections of `docs/runbook.md`, each with its alert as anchor: at night its links need no other network. */
export function runbookPage(): string {
  const [first = '', ...sections] = textOfRunbook().split(/^## /m);
  const body = html`<body class="runbook">
    <p><a href="status">Status</a></p>
    ${[first.replace(/^# /, ''), ...sections].map(runbookSection)}
  </body>`;
  return documentOf('Runbook', undefined, body);
}

function runbookSection(text: string): Markup {
  const [title = ''] = text.split('\n', 1);
  return html`<section id="${title.toLowerCase()}" class="card">
    <h2>${title}</h2>
    <pre>${text.slice(title.length).trim()}</pre>
  </section>`;
}

function textOfRunbook(): string {
  try {
    return readFileSync(runbookFile, 'utf8');
  } catch {
    return '# Runbook\n\nThis build has no docs/runbook.md: read that of its release.';
  }
}

/** A part of the page that the script replaces on its own. */
function section(name: string, title: string | undefined, content: Piece): Markup {
  if (title === undefined) return html`<section id="${name}" data-live>${content}</section>`;
  return html`<section aria-labelledby="${name}-title" class="card" id="${name}-card">
    <h2 id="${name}-title">${title}</h2>
    <div id="${name}" data-live>${content}</div>
  </section>`;
}

function headerOf(facts: StatusFacts): Markup {
  const { version, uptimeSeconds, workers, at } = facts;
  const workersText = workers === undefined ? '' : `${workers.answering} of ${workers.wanted} workers`;
  return html`<header>
    <h1>Ledgergate</h1>
    <p id="about" data-live>
      <span>version ${version}</span>
      <span>up ${duration(uptimeSeconds)}</span> ${workersText === '' ? undefined : html`<span>${workersText}</span>`}
    </p>
    <p class="live">
      <span id="shown" data-live>as of <time datetime="${at}">${clock(at)}</time> UTC</span>
      <button id="pause" type="button" aria-pressed="false" hidden>Pause</button>
    </p>
    <p id="connection" role="alert" hidden></p>
  </header>`;
}

function stateOf({ state, summary, actions }: StatusFacts): Markup {
  const [first, more] = [actions.slice(0, mostProblems), actions.slice(mostProblems)];
  const { sign, tone } = overallStates[state];
  return html`<div class="state ${tone}" role="status">
    <p class="word">
      <span class="sign" aria-hidden="true">${sign}</span> <strong>${state}</strong>
      <span class="summary">${summary}</span>
    </p>
    ${first.length === 0 ? undefined : listOf(first)}
    ${
      more.length === 0
        ? undefined
        : html`<details>
            <summary>and ${more.length} more</summary>
            ${listOf(more)}
          </details>`
    }
  </div>`;
}

function listOf(problems: StatusFacts['actions']): Markup {
  return html`<ul>
    ${problems.map(
      ({ text, remedy, runbook }) =>
        html`<li>
          ${text} <small>${remedy} · <a href="runbook#${runbook.toLowerCase()}">runbook</a></small>
        </li>`,
    )}
  </ul>`;
}
