/** The page of a key's holder in a real browser: it shows the JSON of the key, in narrow and wide windows, and nothing leaves. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Page } from 'playwright-core';
import { openBrowser, withoutChromium } from '../../support/chromium.ts';
import { fetchReply, probeAt, nodeAndGateway } from '../../support/gateway.ts';
import { jwtConfig, signingKey, testIssuer, tokenOf } from '../../support/issuer.ts';
import { accessConfig, keysFile, planConfig, testKey } from '../../support/keys.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

/** A key with a month of use, of large numbers, and an issuer of tokens. */
async function world(t: TestContext, header = 'authorization') {
  const key = testKey('wallet-with-a-long-name-of-some-customer', { tenant: 'acme' });
  const { path } = keysFile(t, [key]);
  const folder = temporaryFolder(t);
  const month = new Date().toISOString().slice(0, 7);
  const days = Array.from({ length: 28 }, (_, at) => `${month}-${String(at + 1).padStart(2, '0')}`);
  const sums = [
    ['hit', 43_210_987, 43_210_987.5, 98_765_432_100, 0],
    ['collapsed', 1_234, 1_234, 5_000_000, 0],
  ];
  const lines = days.map((day) => JSON.stringify([day, [key.entry['name'], 'acme'], sums]));
  writeFileSync(join(folder, 'usage.jsonl'), `${lines.join('\n')}\n`);
  const quota = { day: 999_999_999, month: 1_000_000_000, unit: 'requests' } as const;
  const plan = planConfig({ requests: 1_000_000, cost: 500_000_000, burst: 50, concurrency: 20, streams: 5, quota });
  const usage = { metricsByKey: false, path: folder };
  const signing = signingKey('first');
  const jwt = jwtConfig((await testIssuer(t, [signing])).url);
  const access = accessConfig({ header, keys: { file: path, redis: false }, plans: { free: plan }, usage, jwt });
  const { gateway } = await nodeAndGateway(t, { access });
  const value = header === 'authorization' ? `Bearer ${key.text}` : key.text;
  await gateway.get(probeAt(500), { [header]: value });
  await fetchReply(`${gateway.operationsUrl}/admin/usage`, { method: 'GET' });
  return { key, signing, url: `${gateway.url}/-/usage` };
}

async function enter(page: Page, key: string): Promise<void> {
  await page.fill('input', key);
  await page.click('button');
}

test('the page of a holder, in a browser', { skip: withoutChromium() }, async (t) => {
  const browser = await openBrowser(t);
  const { url, key, signing } = await world(t);

  for (const [name, width, colorScheme] of [
    ['narrow', 360, 'light'],
    ['wide', 1300, 'dark'],
  ] as const) {
    await t.test(`shows a key's limits and use in a ${name} window`, async () => {
      const page = await browser.newPage({ viewport: { width, height: 800 }, colorScheme });
      const asked: string[] = [];
      const faults: string[] = [];
      page.on('request', (request) => asked.push(request.url()));
      page.on('console', (message) => faults.push(message.text()));
      page.on('pageerror', (error) => faults.push(String(error)));

      await page.goto(url);
      await enter(page, key.text);
      await page.waitForSelector('#about');

      const text = await page.innerText('main');
      const shown = [String(key.entry['name']), 'acme', '43,212,221', '98.8 GB', '1,000,000,000', 'from the cache'];
      assert.deepEqual(
        shown.filter((one) => !text.includes(one)),
        [],
      );
      // No part is cut off, or has to be scrolled sideways.
      const cut = await page.$$eval('html, section', (parts) => {
        return parts
          .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
          .map(({ id, tagName }) => id || tagName);
      });
      assert.deepEqual(cut, []);
      // The key is in no address and in no storage, and no other server is asked.
      const kept = await page.evaluate<string>(
        'location.href + JSON.stringify([localStorage, sessionStorage, document.cookie])',
      );
      assert.equal(kept, `${url}[{},{},""]`);
      assert.deepEqual([...new Set(asked)], [url]);
      assert.deepEqual(faults, []);
      assert.equal((await page.content()).includes(key.text), false);
    });
  }

  await t.test('shows a tenant of a token that looks like markup as text', async () => {
    const tenant = '<img/src=x/onerror=document.title=1>';
    const page = await browser.newPage();
    await page.goto(url);
    await enter(page, tokenOf(signing, tenant));
    await page.waitForSelector('#about');

    assert.equal((await page.innerText('#about')).includes(tenant), true);
    assert.deepEqual([await page.title(), await page.$$('img')], ['Usage of a key', []]);
  });

  await t.test('names the refusal of a wrong key, and takes another, also in a header of its own', async (st) => {
    const other = await world(st, 'x-api-key');
    const page = await browser.newPage();
    await page.goto(other.url);
    await enter(page, testKey('none').text);
    await page.waitForSelector('#note:has-text("refuses this key")');
    await enter(page, other.key.text);
    await page.waitForSelector('#about');

    assert.match(await page.innerText('main'), /plan free/);
  });
});
