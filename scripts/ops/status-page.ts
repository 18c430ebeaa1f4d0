/** What the status page says of a node, and a picture of it. */
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { chromium } from 'playwright-core';

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

/** As a browser shows it. */
export async function photograph(operationsUrl: string, file: string): Promise<void> {
  const executablePath = spawnSync('sh', ['-c', 'command -v chromium'], { encoding: 'utf8' }).stdout.trim();
  if (executablePath === '') throw new Error('chromium is not installed (apt-get install chromium)');
  mkdirSync(dirname(file), { recursive: true });
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  try {
    const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
    const answer = await page.goto(`${operationsUrl}/status`, { timeout: 15_000 });
    if (answer?.status() !== 200) throw new Error(`GET /status is ${answer?.status()}: the gateway has no status page`);
    await page.screenshot({ path: file, fullPage: true });
  } finally {
    await browser.close();
  }
}
