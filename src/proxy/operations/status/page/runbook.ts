/** The runbook as a page of the operations port: at night its links lead nowhere else, and need no other network. */
import { readFileSync } from 'node:fs';
import { html, Markup } from './html.ts';
import { style } from './assets.ts';

const file = new URL('../../../../../docs/runbook.md', import.meta.url);

/** The sections of `docs/runbook.md`, as they are written, each with its alert as anchor; where the file is missing, a line. */
export function runbookPage(): string {
  const [first = '', ...sections] = textOfRunbook().split(/^## /m);
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>Runbook · Ledgergate</title>
        ${new Markup(`<style>${style}</style>`)}
      </head>
      <body class="runbook">
        <p><a href="status">Status</a></p>
        ${[first.replace(/^# /, ''), ...sections].map(section)}
      </body>
    </html> `.text;
}

function section(text: string): Markup {
  const [title = ''] = text.split('\n', 1);
  return html`<section id="${title.toLowerCase()}" class="card">
    <h2>${title}</h2>
    <pre>${text.slice(title.length).trim()}</pre>
  </section>`;
}

function textOfRunbook(): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '# Runbook\n\nThis build has no docs/runbook.md: read that of its release.';
  }
}
