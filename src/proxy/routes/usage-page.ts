/**
 * The page of a key's holder: the same for all, so that it cannot show anything of others. Its script asks this
 * address for the JSON with the key that the holder enters, which it keeps until the page is left.
 */
import { hash } from 'node:crypto';

const script = `
(() => {
  const everyMs = 10000;
  const main = document.querySelector('main');
  const form = document.querySelector('form');
  const input = document.querySelector('input');
  const note = document.getElementById('note');
  const header = main.dataset.header;
  let key;

  const node = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
    made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
    return made;
  };
  const number = (value) => Number(value).toLocaleString('en', { maximumFractionDigits: value < 1000 ? 1 : 0 });
  const bytes = (value) => {
    const units = ['B', 'kB', 'MB', 'GB', 'TB'];
    let at = 0;
    for (; value >= 1000 && at < units.length - 1; at += 1) value /= 1000;
    return number(value) + ' ' + units[at];
  };
  const span = (seconds) => {
    for (const [unit, length] of [['day', 86400], ['hour', 3600], ['minute', 60]]) {
      if (seconds < length) continue;
      const count = Math.round(seconds / length);
      return count + ' ' + unit + (count === 1 ? '' : 's');
    }
    return Math.ceil(seconds) + ' s';
  };
  const moment = (time) => time.slice(0, 16).replace('T', ' ') + ' UTC';

  const words = {
    requests: 'Requests', cost: 'Cost', burst: 'Requests at once', address: 'Requests of your address', day: 'This day', month: 'This month',
    hit: 'from the cache', miss: 'by a node', collapsed: 'with another read', local: 'made here',
    error: 'failed', refused: 'over a limit',
  };
  const wordOf = (name) => words[name] ?? name;
  const cells = (values) => values.map((value) => node('td', value instanceof Node ? { class: 'bar' } : {}, value));
  const table = (caption, heads, rows) => {
    const head = node('thead', {}, node('tr', {}, ...heads.map((text) => node('th', text === 'Used' ? { scope: 'col', class: 'bar' } : { scope: 'col' }, text))));
    return node('table', {}, node('caption', {}, caption), head, node('tbody', {}, ...rows));
  };
  const row = (name, ...values) => node('tr', {}, node('th', { scope: 'row' }, name), ...cells(values));
  const card = (title, ...children) => node('section', {}, node('h2', {}, title), ...children);
  const meter = ({ limit, remaining }) => {
    const used = Math.max(0, limit - remaining);
    return node('meter', { min: 0, max: limit, value: used, high: limit * 0.9, 'aria-label': 'used' });
  };

  const left = ({ at, limits, quota, in_flight }) => {
    if (limits === null) return card('Limits', node('p', {}, 'Cannot be read at the moment.'));
    const rows = [
      ...quota.map((one) => [one, wordOf(one.name), 'of ' + one.unit, 'in ' + span((Date.parse(one.resets_at) - Date.parse(at)) / 1000)]),
      ...limits.map((one) => [
        one, wordOf(one.name), 'within ' + span(one.window_seconds), one.reset_seconds === 0 ? 'all free' : 'in ' + span(one.reset_seconds),
      ]),
    ].map(([one, name, unit, reset]) => row(node('span', {}, name, ' ', node('small', {}, unit)), number(one.limit), number(one.remaining), meter(one), reset));
    const further = Object.entries(in_flight).filter(([, most]) => most !== null);
    const more = further.map(([name, most]) => 'At most ' + number(most) + ' ' + (name === 'streams' ? 'open event streams' : 'requests in flight') + '.');
    const shown = rows.length === 0 ? node('p', {}, 'The plan has no limit over time.')
      : table('What is left of the plan', ['', 'Limit', 'Left', 'Used', 'More is free'], rows);
    const made = card('Limits', shown, ...(more.length === 0 ? [] : [node('p', {}, more.join(' '))]));
    made.id = 'limits';
    return made;
  };

  const use = (title, period) => {
    const rows = Object.entries(period.outcomes).map(([name, of]) => row(wordOf(name), number(of.requests), bytes(of.bytes), number(of.cost)));
    const sum = row('all', number(period.requests), bytes(period.bytes), number(period.cost));
    sum.className = 'sum';
    return card(title, table(period.period + ' (UTC)', ['', 'Requests', 'Bytes', 'Cost'], [...rows, sum]));
  };

  const chart = (days) => {
    const most = Math.max(1, ...days.map(({ requests }) => requests));
    const rows = days.map(({ period, requests, bytes: size }) =>
      row(period.slice(8), node('progress', { max: most, value: requests, 'aria-label': 'requests' }), number(requests), bytes(size)));
    return card('Days', table('Requests of each day of the month (UTC)', ['Day', 'Used', 'Requests', 'Bytes'], rows));
  };

  const show = (facts) => {
    const { usage } = facts;
    const about = node('p', { id: 'about' }, node('strong', {}, facts.key), ' · tenant ' + facts.tenant + ' · plan ' + facts.plan);
    const parts = usage === null ? [card('Use', node('p', {}, 'Cannot be read at the moment.'))] : [
      use('This day', usage.day), use('This month', usage.month), use('Last month', usage.last_month), chart(usage.days),
    ];
    main.replaceChildren(about, left(facts), ...parts);
    note.textContent = 'As of ' + moment(facts.at) + '. Use is up to some seconds behind.';
    form.hidden = true;
  };

  const fail = (text) => {
    main.replaceChildren();
    form.hidden = false;
    note.textContent = text;
  };

  const renew = async () => {
    if (document.hidden) return;
    const headers = { Accept: 'application/json', [header]: header === 'authorization' ? 'Bearer ' + key : key };
    try {
      const answer = await fetch(location.pathname, { headers, cache: 'no-store', credentials: 'omit', redirect: 'error' });
      if (answer.ok) return show(await answer.json());
      const { message } = await answer.json();
      fail('The endpoint refuses this key: ' + message);
    } catch {
      note.textContent = 'The endpoint does not answer.';
    }
  };

  form.hidden = false;
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    key = input.value.trim();
    input.value = '';
    renew();
  });
  document.addEventListener('visibilitychange', () => key !== undefined && renew());
  setInterval(() => key !== undefined && form.hidden && renew(), everyMs);
})();
`;

/** Contrast is at least 4.5:1 for text, in light and in dark. */
const style = `
:root { color-scheme: light dark; --ground: #f4f6f8; --card: #ffffff; --line: #d5dce3; --text: #17212b; --soft: #55626f; --accent: #1f618d; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #10161c; --card: #18212a; --line: #303d4a; --text: #e4ebf1; --soft: #a0afbd; --accent: #7cc4ec; }
}
* { box-sizing: border-box; }
html { background: var(--ground); color: var(--text); font: 15px/1.45 system-ui, sans-serif; font-variant-numeric: tabular-nums; }
body { margin: 0 auto; max-width: 1180px; padding: 16px; }
h1 { font-size: 18px; margin: 0; }
h2 { font-size: 12px; font-weight: 600; color: var(--soft); letter-spacing: 0.04em; text-transform: uppercase; margin: 0 0 8px; }
p { margin: 0 0 8px; }
table + p { margin: 8px 0 0; }
small, caption, #note, thead th { color: var(--soft); font-size: 12px; }
form { display: flex; flex-wrap: wrap; gap: 8px; align-items: end; margin: 16px 0; }
form[hidden] { display: none; }
form p { flex-basis: 100%; }
label { flex: 1 1 240px; }
input { display: block; width: 100%; font: inherit; padding: 8px; color: inherit; background: var(--card); border: 1px solid var(--soft); border-radius: 6px; }
button { font: inherit; padding: 8px 16px; color: var(--card); background: var(--accent); border: 1px solid var(--accent); border-radius: 6px; cursor: pointer; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
main { display: grid; grid-template-columns: minmax(0, 1fr); gap: 12px; margin: 12px 0; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px; overflow-x: auto; }
@media (min-width: 1120px) {
  main { grid-template-columns: repeat(3, minmax(0, 1fr)); }
  #about, section:first-of-type, section:last-of-type { grid-column: 1 / -1; }
}
#about { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
caption { text-align: left; padding-bottom: 4px; }
th, td { text-align: right; font-weight: 400; padding: 4px 0 4px 8px; vertical-align: baseline; }
td { white-space: nowrap; }
#limits td:last-child { white-space: normal; }
th:first-child { text-align: left; padding-left: 0; }
tbody tr { border-top: 1px solid var(--line); }
.sum th, .sum td { font-weight: 600; }
meter, progress { width: 100%; min-width: 48px; max-width: 320px; accent-color: var(--accent); }
@media (max-width: 560px) {
  html, table { font-size: 12px; }
  body { padding: 12px; }
  section { padding: 10px; }
  #limits .bar { display: none; }
}
`;

/**
 * Content-Security-Policy of a page: style and script by the hashes of their texts between the tags, byte for byte; requests
 * to the page's own origin alone. `formAction`: the source of targets of forms. `more`: further directives.
 */
export function pagePolicy(
  texts: { readonly style: string; readonly script: string },
  formAction: string,
  ...more: string[]
) {
  return [
    `default-src 'none'`,
    `style-src ${digestOf(texts.style)}`,
    `script-src ${digestOf(texts.script)}`,
    `connect-src 'self'`,
    ...more,
    `base-uri 'none'`,
    `form-action ${formAction}`,
    `frame-ancestors 'none'`,
  ].join('; ');
}

function digestOf(text: string): string {
  return `'sha256-${hash('sha256', text, 'base64')}'`;
}

/** Headers of the page, names and values in turn. */
export const pageHead: readonly string[] = [
  ['Content-Security-Policy', pagePolicy({ style, script }, `'none'`)],
  ['X-Content-Type-Options', 'nosniff'],
  ['Referrer-Policy', 'no-referrer'],
].flat();

/** The page. `header`: the lower-case name of the header that carries keys. The field has no name: no form sends it. */
export function usagePage(header: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>Usage of a key</title>
<style>${style}</style>
</head>
<body>
<h1>Usage of a key</h1>
<form hidden>
<p>A key of this endpoint shows its plan, its limits and its use. It is sent to this endpoint alone, and forgotten when you leave the page.</p>
<label>Key <input type="password" autocomplete="off" spellcheck="false" required></label>
<button>Show</button>
</form>
<main data-header="${header}"></main>
<p id="note" role="status"></p>
<noscript><p>This page needs its script. Without it, send the key to this address in the header <code>${header}</code>.</p></noscript>
<script>${script}</script>
</body>
</html>
`;
}
