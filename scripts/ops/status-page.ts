/** The words of the status page, and a picture of it. */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { TestContext } from 'node:test';
import { openBrowser } from '../../test/support/chromium.ts';

/** The words of the page; fails where there is none. */
export async function readStatusPage(operationsUrl: string): Promise<string> {
  const response = await fetch(`${operationsUrl}/status`, { signal: AbortSignal.timeout(10_000) });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`GET /status is ${response.status}: the gateway has no status page`);
  const type = response.headers.get('content-type') ?? '';
  if (!type.startsWith('text/html')) throw new Error(`GET /status is ${type}, not text/html`);
  return text
    .replaceAll(/<(script|style)\b.*?<\/\1>/gs, '')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ');
}

/** Writes a picture of the whole page to `file`. The browser is closed after `t`. */
export async function photograph(t: TestContext, operationsUrl: string, file: string): Promise<void> {
  mkdirSync(dirname(file), { recursive: true });
  const browser = await openBrowser(t);
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  const answer = await page.goto(`${operationsUrl}/status`, { timeout: 15_000 });
  if (answer?.status() !== 200) throw new Error(`GET /status is ${answer?.status()}: the gateway has no status page`);
  await page.screenshot({ path: file, fullPage: true });
}
