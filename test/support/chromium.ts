/** A real browser, where there is one. */
import { spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import process from 'node:process';
import type { TestContext } from 'node:test';
import { chromium, type Browser, type Page } from 'playwright-core';
import { listen } from './listen.ts';

const executablePath = spawnSync('sh', ['-c', 'command -v chromium'], { encoding: 'utf8' }).stdout.trim();

/** For the `skip` of a test: a reason where no browser is installed. Where CI is set, it is an error not to have one. */
export function withoutChromium(): string | false {
  if (executablePath !== '' || process.env['CI'] !== undefined) return false;
  return 'NOT TESTED IN A BROWSER: chromium is not installed (apt-get install chromium)';
}

/** A browser that is closed after the test, or after those of a file (`{ after }` of node:test). */
export async function openBrowser(t: { after(close: () => Promise<void>): void }): Promise<Browser> {
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  t.after(() => browser.close());
  return browser;
}

/** A page of an origin of its own, empty, until the test ends. It believes any certificate. */
export async function openPage(t: TestContext, browser: Browser): Promise<Page> {
  const site = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>wallet</title>');
  });
  const port = await listen(t, site);
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  t.after(() => context.close());
  const page = await context.newPage();
  await page.goto(`http://localhost:${port}/`);
  return page;
}
