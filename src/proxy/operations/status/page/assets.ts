/** Script and style of the page, byte for byte as its policy has their hashes. */

/** The script of the page: it fetches the page every two seconds and applies the differences. */
export const script = `
(() => {
  const everyMs = 2000;
  const patienceMs = 5000;
  const pause = document.getElementById('pause');
  const connection = document.getElementById('connection');
  let isPaused = false;
  let isBusy = false;

  // In place: replaced elements would lose focus, selection and scroll position.
  const update = (old, next) => {
    if (old.isEqualNode(next)) return;
    for (const { name } of [...old.attributes]) {
      if (!next.hasAttribute(name) && name !== 'open') old.removeAttribute(name);
    }
    for (const { name, value } of [...next.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const nodes = [...next.childNodes];
    nodes.forEach((node, index) => {
      const known = old.childNodes[index];
      if (known === undefined) old.append(document.importNode(node, true));
      else if (known.nodeName !== node.nodeName) known.replaceWith(document.importNode(node, true));
      else if (node.nodeType === Node.ELEMENT_NODE) update(known, node);
      else if (known.nodeValue !== node.nodeValue) known.nodeValue = node.nodeValue;
    });
    while (old.childNodes.length > nodes.length) old.lastChild.remove();
  };

  const renew = async () => {
    if (isBusy || isPaused || document.hidden) return;
    isBusy = true;
    try {
      const answer = await fetch(location.pathname + location.search, { cache: 'no-store', signal: AbortSignal.timeout(patienceMs) });
      if (!answer.ok) throw new Error('status ' + answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      if (isPaused) return;
      for (const part of document.querySelectorAll('[data-live]')) {
        const next = page.getElementById(part.id);
        if (next !== null) update(part, next);
      }
      document.title = page.title;
      const icon = document.querySelector('link[rel=icon]');
      const nextIcon = page.querySelector('link[rel=icon]');
      if (icon.href !== nextIcon.href) icon.href = nextIcon.href;
      connection.hidden = true;
      document.body.classList.remove('lost');
    } catch {
      if (connection.hidden) connection.textContent = 'Connection lost: this page is out of date.';
      connection.hidden = false;
      document.body.classList.add('lost');
      document.title = 'connection lost · Ledgergate';
    } finally {
      isBusy = false;
    }
  };

  pause.hidden = false;
  pause.addEventListener('click', () => {
    isPaused = !isPaused;
    pause.setAttribute('aria-pressed', String(isPaused));
    renew();
  });
  document.addEventListener('input', ({ target }) => {
    const query = new URLSearchParams(location.search);
    query.set(target.name, target.value);
    history.replaceState(null, '', '?' + query);
    renew();
  });
  document.addEventListener('visibilitychange', renew);
  setInterval(renew, everyMs);
})();
`;

/** Style of the page. Contrast is at least 4.5:1 for text and signs, 3:1 for bars, in light and in dark. */
export const style = `
:root {
  color-scheme: light dark;
  --ground: #f4f6f8; --card: #ffffff; --line: #d5dce3; --grid: #e8edf1;
  --text: #17212b; --soft: #55626f; --accent: #1f618d;
  --good: #1a7440; --warn: #8a5a00; --bad: #b03022; --idle: #5d6b79;
  --data: #2e86ab; --track: #e6ebf0;
  --good-ground: #e6f4ec; --warn-ground: #fdf3dc; --bad-ground: #fbe9e7; --idle-ground: #edf1f4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #10161c; --card: #18212a; --line: #303d4a; --grid: #24303b;
    --text: #e4ebf1; --soft: #a0afbd; --accent: #7cc4ec;
    --good: #56c98a; --warn: #e7b450; --bad: #f28b7d; --idle: #a0afbd;
    --data: #4aa8cf; --track: #273440;
    --good-ground: #15301f; --warn-ground: #34280f; --bad-ground: #3a1d19; --idle-ground: #212c37;
  }
}
* { box-sizing: border-box; }
html { background: var(--ground); color: var(--text); font: 14px/1.4 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 1200px; padding: 16px; }
h1, h2, p, ul, ol, dl, dd, figure { margin: 0; padding: 0; }
h1 { font-size: 18px; letter-spacing: -0.01em; }
h2 { font-size: 12px; font-weight: 600; color: var(--soft); letter-spacing: 0.04em; text-transform: uppercase; margin-bottom: 8px; }
a { color: var(--accent); }
small { font-size: 12px; color: var(--soft); }
code { font: 12px ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
main:focus { outline: none; }
.skip { position: absolute; left: -999px; }
.skip:focus { left: 16px; top: 8px; background: var(--card); padding: 4px 8px; z-index: 1; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 4px 16px; margin-bottom: 12px; }
#about { color: var(--soft); }
#about span + span::before { content: "·"; margin-right: 4px; }
.live { margin-left: auto; color: var(--soft); display: flex; align-items: baseline; gap: 8px; }
button { font: inherit; font-size: 12px; color: var(--text); background: var(--card); border: 1px solid var(--soft); border-radius: 4px; padding: 2px 10px; cursor: pointer; }
button[aria-pressed="true"] { background: var(--text); color: var(--card); }
#connection { flex-basis: 100%; background: var(--bad-ground); color: var(--bad); border: 1px solid; border-radius: 6px; padding: 6px 12px; font-weight: 600; }
.lost main { filter: grayscale(1); }
main { display: grid; grid-template-columns: repeat(6, minmax(0, 1fr)); gap: 12px; }
main > * { grid-column: span 6; min-width: 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px; }
@media (min-width: 760px) {
  #store-card, #encode-card { grid-column: span 3; }
}
@media (min-width: 900px) {
  #windows-card, #outcomes-card { grid-column: span 3; }
}
@media (min-width: 1120px) {
  #store-card, #encode-card, #limits-card { grid-column: span 2; }
}
/* A tone is set once, on the element that has it. */
.good { --tone: var(--good); --tone-ground: var(--good-ground); }
.warn { --tone: var(--warn); --tone-ground: var(--warn-ground); }
.bad { --tone: var(--bad); --tone-ground: var(--bad-ground); }
.idle { --tone: var(--idle); --tone-ground: var(--idle-ground); }
span:is(.good, .warn, .bad, .idle), tspan:is(.good, .warn, .bad, .idle) { color: var(--tone); fill: var(--tone); }
.word strong, .word .sign, .fleet .sign, .fleet .tone { color: var(--tone); }
.axis .window { fill: var(--tone); }
.state { background: var(--tone-ground); border: 1px solid var(--tone); border-left-width: 6px; border-radius: 8px; padding: 10px 16px; }
.word { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 8px; }
.word strong { font-size: 18px; }
.state ul { margin: 4px 0 0 28px; }
.state li small { margin-left: 4px; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--soft); font-size: 12px; padding-bottom: 4px; }
table + table { margin-top: 12px; }
tbody th { overflow-wrap: anywhere; }
#windows td, #outcomes td, #routes td, #windows th, #outcomes th, #routes th { padding-right: 8px; }
#windows :last-child, #outcomes :last-child, #routes :last-child { padding-right: 0; }
th, td { text-align: left; font-weight: 400; padding: 4px 10px 4px 0; vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
tbody tr { border-top: 1px solid var(--grid); }
thead th { color: var(--soft); font-size: 12px; white-space: nowrap; }
.number { text-align: right; white-space: nowrap; }
.none { color: var(--soft); }
.fleet th[scope="row"] { max-width: 38ch; }
.fleet thead a { color: inherit; text-decoration: underline dotted; text-underline-offset: 3px; }
.filter { display: flex; flex-wrap: wrap; align-items: baseline; gap: 4px 12px; margin-bottom: 8px; color: var(--soft); font-size: 12px; }
input { font: inherit; color: var(--text); background: var(--ground); border: 1px solid var(--soft); border-radius: 4px; padding: 3px 8px; width: 22ch; }
summary { cursor: pointer; margin: 4px 0 0 14px; }
.fleet small { display: block; }
.fleet .name { font-weight: 600; }
.fleet .tone { font-weight: 600; }
.fleet th small { padding-left: 17px; }
.fleet .sign { display: inline-block; width: 13px; }
.meter { vertical-align: 0; margin-right: 4px; }
.share { display: inline-block; min-width: 48px; }
.track { fill: var(--track); }
.fill { fill: var(--data); }
.axis { display: block; overflow: visible; }
.axis text { fill: var(--text); font-size: 12px; }
.axis .tick, .axis .more { fill: var(--soft); font-size: 11px; }
.axis .end { text-anchor: end; }
.axis .middle { text-anchor: middle; }
.axis .grid { stroke: var(--grid); }
.axis .grid.major, .axis .base { stroke: var(--line); }
.axis .reads { fill: var(--data); }
.axis .window.bad { fill: none; stroke: var(--tone); stroke-width: 2; stroke-dasharray: 4 3; }
.trends { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 8px 24px; }
.trend { display: block; }
.trend path { fill: none; stroke: var(--data); stroke-width: 1.5; }
figcaption { color: var(--soft); }
figcaption strong { color: var(--text); }
.legend { color: var(--soft); font-size: 12px; margin-top: 6px; }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 4px 0 12px; }
.key:first-child { margin-left: 0; }
.key.reads { background: var(--data); }
.legend .more { margin-left: 12px; }
dl div { display: flex; justify-content: space-between; gap: 12px; padding: 4px 0; border-top: 1px solid var(--grid); }
dl div:first-child { border-top: 0; }
dt { color: var(--soft); }
dd { text-align: right; }
#encode p { margin-top: 8px; }
.scroll { max-height: 340px; overflow-y: auto; }
.events { list-style: none; }
.events li { display: grid; grid-template-columns: 62px 14px minmax(0, 1fr) auto; gap: 0 8px; padding: 3px 0; border-top: 1px solid var(--grid); }
.events li:first-child { border-top: 0; }
.events time { color: var(--soft); }
.events .text { overflow-wrap: anywhere; }
.runbook .card { margin-bottom: 12px; }
.runbook .card:target { border-color: var(--accent); border-width: 2px; }
.runbook h2 { text-transform: none; font-size: 14px; color: var(--text); }
pre { font: 13px/1.45 ui-monospace, "SF Mono", Menlo, Consolas, monospace; white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }
footer { color: var(--soft); font-size: 12px; margin-top: 12px; }
@media (max-width: 1000px) {
  #windows .meter, #outcomes .meter, #routes .meter { display: none; }
  #windows .share, #routes .share { min-width: 0; }
}
@media (max-width: 700px) {
  body { padding: 10px; }
  .card { padding: 10px 12px; }
  th, td { padding-right: 8px; }
  .live { margin-left: 0; }
  .fleet, .fleet tbody, .fleet th, .fleet td { display: block; }
  .fleet thead, .fleet thead tr { display: flex; flex-wrap: wrap; padding: 0; }
  .fleet thead { padding-bottom: 4px; }
  .fleet tbody tr { display: grid; grid-template-columns: 1fr 1fr; padding: 6px 0; }
  .fleet th[scope="row"] { grid-column: span 2; }
  .fleet.many tbody tr:is(.good, .bad) { grid-template-columns: minmax(0, 1fr) auto auto; align-items: baseline; padding: 3px 0; }
  .fleet.many tr:is(.good, .bad) th[scope="row"] { grid-column: auto; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; padding: 0; }
  .fleet.many tr.good th small, .fleet.many tr:is(.good, .bad) :is(td[data-label="Oldest"], td[data-label="Load"], td[data-label="Failures"], td[data-label="Answers"] small) { position: absolute; width: 1px; height: 1px; padding: 0; overflow: hidden; clip-path: inset(50%); }
  .fleet.many tbody tr:is(.good, .bad) td { padding: 0 0 0 12px; }
  .fleet.many tbody tr:is(.good, .bad) td::before { content: none; }
  .fleet.many tbody tr:is(.good, .bad) td[data-label="Head"] { font-size: 0; }
  .fleet.many tbody tr.bad { grid-template-columns: minmax(0, 1fr); }
  .fleet.many tr.bad td { position: absolute; width: 1px; height: 1px; padding: 0; overflow: hidden; clip-path: inset(50%); }
  .fleet.many tr.bad th small { display: inline; padding-left: 6px; }
  .fleet.many tr.good td[data-label="Head"] small { display: inline; }
  .fleet td { text-align: left; padding: 2px 8px 4px 17px; white-space: normal; line-height: 1.25; }
  .fleet td::before { content: attr(data-label) " "; color: var(--soft); font-size: 12px; }
  .events li { grid-template-columns: 62px 14px minmax(0, 1fr); }
  .events .ago { grid-column: 3; }
  .meter { display: none; }
  #windows :is(th, td), #routes :is(th, td) { padding-right: 4px; }
  :is(#windows, #routes) :is(th, td):nth-child(6) { display: none; }
  thead th.number { white-space: normal; }
  .legend .more { display: block; margin: 2px 0 0; }
}
@media (forced-colors: active) {
  .axis .window, .axis .reads, .fill { fill: CanvasText; }
  .track { fill: Canvas; stroke: CanvasText; }
  .key { forced-color-adjust: none; }
  .key.reads { background: CanvasText; }
  .trend path { stroke: CanvasText; }
}
`;
