/** The status page in a real browser: without scripts, with them, on a phone, in the dark, by keyboard, by screen reader. */
import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { openBrowser, withoutChromium } from '../../support/chromium.ts';
import { contrastOf } from '../../support/contrast.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { probeAt, testGateway, type TestGateway, twoTiers } from '../../support/gateway.ts';
import { statusWhen } from '../../support/status.ts';

const skip = withoutChromium();
/** One for all tests: a start costs more than most of them. */
const browser = skip === false ? await openBrowser({ after }) : undefined;

/** Shares nothing with pages of other tests. */
async function newPage(t: TestContext, options: BrowserContextOptions = {}): Promise<Page> {
  assert.ok(browser !== undefined);
  const context = await browser.newContext(options);
  t.after(() => context.close());
  return context.newPage();
}

interface Scene {
  readonly gateway: TestGateway;
  readonly full: FakeNode;
  readonly page: Page;
  /** Complaints of the browser. */
  readonly complaints: readonly string[];
}

async function scene(t: TestContext, options: BrowserContextOptions = {}): Promise<Scene> {
  const { full, gateway } = await twoTiers(
    t,
    { config: { upstream: { probeIntervalMs: 50 } } },
    { oldest: 4_000_000n, head: 5_000_000n },
  );
  for (const version of [4_999_000, 4_999_000, 4_500_000, 20]) await gateway.get(probeAt(version));
  const page = await newPage(t, options);
  const complaints: string[] = [];
  page.on('console', (message) => void (message.type() === 'error' && complaints.push(message.text())));
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(`${gateway.operationsUrl}/status`);
  return { gateway, full, page, complaints };
}

test('without scripts the page has every part, and asks to be loaded again', { skip }, async (t) => {
  const { page } = await scene(t, { javaScriptEnabled: false });

  for (const heading of ['Fleet', 'Retention windows', 'Traffic', 'Requests by class', 'Recent events']) {
    assert.equal(await page.getByRole('heading', { name: heading, exact: true }).count(), 1, heading);
  }
  assert.equal(await page.getByRole('table', { name: 'Fleet' }).getByRole('row').count(), 3);
  assert.match((await page.locator('noscript').first().innerHTML()) || (await page.content()), /http-equiv="refresh"/);
  assert.equal(await page.getByRole('button').count(), 0);
});

test('with scripts it renews itself, keeps the focus, and shows a lost connection', { skip }, async (t) => {
  const { gateway, full, page, complaints } = await scene(t);
  assert.match(await page.title(), /^ready/);
  const events = page.getByRole('group', { name: 'Recent events' });
  await page.locator('#events .scroll').focus();

  await full.refuse();
  await page.getByText('full-0 is down').first().waitFor();

  assert.match(await page.title(), /^degraded/);
  assert.equal(await page.locator('#fleet tr.bad').count(), 1);
  assert.equal(await events.count(), 1);
  assert.equal(await page.evaluate('document.activeElement.className'), 'scroll');
  assert.deepEqual(complaints, []);

  await gateway.close();
  const alert = page.getByRole('alert');
  await alert.waitFor();
  assert.match((await alert.textContent()) ?? '', /^Connection lost/);
});

test('a paused or hidden page sends no request', { skip }, async (t) => {
  const { page } = await scene(t);
  await page.clock.install();
  await page.reload();
  let asked = 0;
  page.on('request', () => (asked += 1));
  const pause = page.getByRole('button', { name: 'Pause' });
  const askedIn = async (ms: number): Promise<number> => {
    asked = 0;
    await page.clock.runFor(ms);
    return asked;
  };
  assert.ok((await askedIn(2_000)) > 0);

  await pause.focus();
  await page.keyboard.press('Space');
  assert.equal(await pause.getAttribute('aria-pressed'), 'true');
  assert.equal(await askedIn(20_000), 0);

  await page.keyboard.press('Space');
  await until(async () => (await askedIn(2_000)) > 0);
  await page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })");
  assert.equal(await askedIn(20_000), 0);
});

/** Runs in the page: elements wider than it, or cut off by a card. */
const overflow = `({
  page: document.documentElement.scrollWidth,
  wide: [...document.querySelectorAll('main *')]
    .filter((element) => {
      const { right, width } = element.getBoundingClientRect();
      return width > 1 && right > document.documentElement.clientWidth + 0.5;
    })
    .map((element) => element.outerHTML.slice(0, 80)),
  cut: [...document.querySelectorAll('.card')].filter((card) => card.scrollWidth > card.clientWidth + 1).map((card) => card.id),
})`;

/** Runs in the page: the focused element, and whether the focus is visible. */
const focused = `(() => {
  const element = document.activeElement;
  const isSeen = getComputedStyle(element).outlineStyle !== 'none';
  return (element.id || element.className || element.textContent) + (isSeen ? '' : ' unseen');
})()`;

test(
  'at any width nothing runs over the side; on a phone the fleet is a table to a screen reader',
  { skip },
  async (t) => {
    const { page } = await scene(t);
    for (const width of [320, 760, 1200, 400]) {
      await page.setViewportSize({ width, height: 800 });
      assert.deepEqual(await page.evaluate(overflow), { page: width, wide: [], cut: [] });
    }

    const fleet = page.getByRole('table', { name: 'Fleet' });
    assert.equal(await fleet.getByRole('columnheader').count(), 6);
    assert.equal(await fleet.getByRole('rowheader').count(), 2);
    assert.equal(await fleet.getByRole('cell').count(), 10);
  },
);

test('every text has a contrast of 4.5 to 1 and more, light and dark', { skip }, async (t) => {
  const { full, gateway, page } = await scene(t);
  for (const state of ['ready', 'degraded']) {
    if (state === 'degraded') await full.refuse();
    await statusWhen(gateway, (facts) => facts.state === state);
    await page.reload();
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      const texts = await contrastOf(page);
      assert.ok(texts.length > 80, String(texts.length));
      assert.deepEqual(
        texts.filter(({ contrast }) => contrast < 4.5),
        [],
        `${state}, ${colorScheme}`,
      );
    }
  }
});

test(
  'it has landmarks, one main heading, named tables and pictures, and an order for the keyboard',
  { skip },
  async (t) => {
    const { page } = await scene(t);

    for (const role of ['banner', 'main', 'contentinfo'] as const)
      assert.equal(await page.getByRole(role).count(), 1, role);
    assert.equal(await page.getByRole('heading', { level: 1 }).count(), 1);
    for (const table of await page.getByRole('table').all()) {
      const name = await table.evaluate(
        (element) => element.getAttribute('aria-labelledby') ?? element.querySelector('caption')?.textContent,
      );
      assert.ok(name, await table.innerText());
      assert.ok((await table.locator('thead th[scope=col]').count()) > 1);
      for (const row of await table.locator('tbody tr:not(:has(.none))').all()) {
        assert.equal(await row.locator('th[scope=row]').count(), 1);
      }
    }
    const picture = page.getByRole('img', { name: /^Retention windows of the nodes/ });
    assert.equal(await picture.count(), 1);
    assert.match((await picture.locator('desc').textContent()) ?? '', /full-0, usable, holds 4000000 to 5000000\./);
    assert.equal(await page.getByRole('status').count(), 1);

    const order: string[] = [];
    for (let presses = 0; presses < 10; presses += 1) {
      await page.keyboard.press('Tab');
      order.push(await page.evaluate<string>(focused));
    }
    const sorts = ['Node', 'Head', 'Oldest', 'Load', 'Answers', 'Failures'];
    assert.deepEqual(order, ['skip', 'pause', ...sorts, 'scroll', 'status.json']);
  },
);

test(
  'a large fleet is filtered while typing, and sorted by a click that survives the next renewal',
  { skip },
  async (t) => {
    const nodes = await Promise.all(Array.from({ length: 7 }, () => fakeNode(t)));
    const gateway = await testGateway(t, { full: nodes });
    const page = await newPage(t);
    // The root of the port leads to the page.
    await page.goto(`${gateway.operationsUrl}/`);
    const names = page.locator('#fleet tbody .name');
    assert.equal(await names.count(), 7);

    await page.getByRole('searchbox', { name: 'Filter' }).pressSequentially('full-3');
    await page.getByText('1 of 7 nodes').waitFor();
    assert.deepEqual(await names.allTextContents(), ['full-3']);
    assert.equal(await page.evaluate('document.activeElement.name'), 'filter');
    await page.getByRole('searchbox', { name: 'Filter' }).fill('');
    await page.getByText('7 of 7 nodes').waitFor();

    await page.getByRole('link', { name: 'Node' }).click();
    await page.getByRole('link', { name: 'Node' }).click();
    const reversed = Array.from({ length: 7 }, (_, index) => `full-${6 - index}`);
    assert.deepEqual(await names.allTextContents(), reversed);
    await page.getByRole('columnheader', { name: 'Node' }).and(page.locator('[aria-sort=descending]')).waitFor();
    await page.waitForResponse((response) => response.url().includes('sort=-node'));
    assert.deepEqual(await names.allTextContents(), reversed);
  },
);
