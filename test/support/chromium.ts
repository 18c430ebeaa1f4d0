/** A real browser, where there is one. */
import { spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import process from 'node:process';
import { after, type TestContext } from 'node:test';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { listen } from './listen.ts';

const executablePath = spawnSync('sh', ['-c', 'command -v chromium'], { encoding: 'utf8' }).stdout.trim();

/** For the `skip` of a test: a reason where no browser is installed. Where CI is set, it is an error not to have one. */
export function withoutChromium(): string | false {
  if (executablePath !== '' || process.env['CI'] !== undefined) return false;
  return 'NOT TESTED IN A BROWSER: chromium is not installed (apt-get install chromium)';
}

/** One for all tests of a file: a start of it costs more than most of them. */
let browser: Promise<Browser> | undefined;
after(async () => (await browser)?.close());

/** A page that shares nothing with pages of other tests. It is closed after the test. */
export async function newPage(t: TestContext, options: BrowserContextOptions = {}): Promise<Page> {
  browser ??= chromium.launch({ executablePath, args: ['--no-sandbox'] });
  const context = await (await browser).newContext(options);
  t.after(() => context.close());
  return context.newPage();
}

/** A page of an origin of its own, empty. The browser believes any certificate; it is closed after the test. */
export async function openPage(t: TestContext): Promise<Page> {
  const site = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>wallet</title>');
  });
  const port = await listen(t, site);
  const page = await newPage(t, { ignoreHTTPSErrors: true });
  await page.goto(`http://localhost:${port}/`);
  return page;
}
