/** The status page and its JSON, while nodes and traffic change. */
import assert from 'node:assert/strict';
import { test, after, type TestContext } from 'node:test';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { call } from '../../commands/command-line.ts';
import { openBrowser, withoutChromium } from '../../support/chromium.ts';
import { contrastOf } from '../../support/contrast.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, nodeAndGateway, testGateway, probeAt, type TestGateway, twoTiers } from '../../support/gateway.ts';
import { kindsOf, statusOf, statusWhen } from '../../support/status.ts';

const skip = withoutChromium();
/** One for all tests: a start costs more than most of them. */
const browser = skip === false ? await openBrowser({ after }) : undefined;

test('the facts hold the fleet, its windows, and the outcomes of requests', async (t) => {
  const [full, archival] = [await fakeNode(t, { oldest: 500n }), await fakeNode(t, { archival: true })];
  const gateway = await testGateway(t, { full: [full], archival: [archival] });
  for (const version of [600, 600, 600, 20]) assert.equal((await gateway.get(probeAt(version))).status, 200);
  assert.equal((await gateway.get('/accounts/nobody/resource/no')).status, 400);

  const { state, problems, ledger, nodes, windows, cache } = await statusOf(gateway);

  assert.deepEqual({ state, problems }, { state: 'ready', problems: [] });
  assert.deepEqual(
    { head: ledger.head, oldest: ledger.oldest, chainId: ledger.chainId },
    { head: '1000', oldest: '0', chainId: 1 },
  );
  assert.deepEqual(
    nodes.map(({ name, tier, state, oldest, head, lag }) => [name, tier, state, oldest, head, lag]),
    [
      ['full-0', 'full', 'usable', '500', '1000', '0'],
      ['archive-0', 'archival', 'usable', '0', '1000', '0'],
    ],
  );
  for (const window of windows) {
    const counts = Object.fromEntries(window.outcomes.map(({ outcome, requests }) => [outcome, requests]));
    assert.deepEqual(counts, { memory: 2, miss: 2, refused: 1 });
    assert.equal(window.hitShare, 0.5);
    assert.equal(window.withoutNodeShare, 0.5);
    assert.deepEqual(
      window.routes.map(({ route, withoutNodeShare }) => [route, withoutNodeShare]),
      [['resource', 0.5]],
    );
    // The latest state alone is counted by its distance from the head.
    assert.deepEqual(window.distances, []);
  }
  assert.equal(cache.entries, 2);
});

test('a node that dies is one event, and its return another', async (t) => {
  const [one, other] = [await fakeNode(t), await fakeNode(t)];
  const lines: unknown[] = [];
  const gateway = await testGateway(t, {
    full: [one, other],
    config: { upstream: { probeIntervalMs: 50 } },
    onLog: ({ msg, upstream }) => upstream === 'full-0' && String(msg).startsWith('upstream is') && lines.push(msg),
  });

  await one.refuse();
  const down = await statusWhen(gateway, ({ state }) => state === 'degraded');
  assert.deepEqual(down.problems, ['full-0 is down: connection refused']);
  assert.equal(down.nodes[0]?.state, 'down');
  assert.ok((down.nodes[0]?.failures.total ?? -1) >= 0);
  const page = (await fetchReply(`${gateway.operationsUrl}/status`, { method: 'GET' })).text;
  assert.match(page, /full-0 is down/);

  await one.accept();
  const back = await statusWhen(gateway, ({ state }) => state === 'ready');

  // One event per line of the log, newest first.
  assert.deepEqual(kindsOf(back, 'full-0'), ['node usable', 'node down', 'node usable']);
  assert.deepEqual(lines, ['upstream is usable', 'upstream is down', 'upstream is usable']);
});

test('a node behind maxLag is a problem by name, and no longer when it has caught up', async (t) => {
  const [ahead, behind] = [await fakeNode(t, { head: 50_000n }), await fakeNode(t, { head: 1_000n })];
  const upstream = { probeIntervalMs: 50, maxLagMs: 10_000 };
  const gateway = await testGateway(t, { full: [ahead, behind], config: { upstream } });

  const { problems, nodes } = await statusWhen(gateway, ({ state }) => state === 'degraded');
  const { out } = await call(['status', gateway.operationsUrl]);
  behind.clock.head = 50_000n;
  const after = await statusWhen(gateway, ({ state }) => state === 'ready');

  assert.match(problems.join(), /^full-1 is \d+ (?:min|h)[^(]* behind \(49k versions\), more than upstream\.maxLag$/);
  assert.deepEqual(
    nodes.map(({ name, isLagging }) => [name, isLagging]),
    // Problems first.
    [
      ['full-1', true],
      ['full-0', false],
    ],
  );
  assert.match(out, /full-1 is [^(]* behind \(49k versions\)[^]*full-1 +▲ behind/);
  assert.deepEqual(after.problems, []);
});

test('a purge and refusals are published without their targets', async (t) => {
  const { gateway } = await nodeAndGateway(t, { isOverloaded: () => true }, { head: 1_000n });
  await gateway.get(probeAt(600));
  const purged = await fetchReply(`${gateway.operationsUrl}/admin/purge`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ account: '0xabcdef0123456789' }),
  });
  assert.equal(purged.status, 200);

  const facts = await statusOf(gateway);

  assert.equal(kindsOf(facts)[0], 'purge');
  assert.equal(facts.refusals.find(({ reason }) => reason === 'event loop')?.count.last10s, 1);
  assert.match(facts.problems.join(), /the event loop is late/);
  assert.doesNotMatch(JSON.stringify(facts), /abcdef0123456789/);
});

test('the page shows no address of a node, is not cacheable, and runs its own script alone', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { head: 1_000n });

  for (const path of ['/status', '/status.json']) {
    const { status, headers, text } = await fetchReply(gateway.operationsUrl + path, { method: 'GET' });
    assert.equal(status, 200);
    assert.equal(headers['cache-control'], 'no-store');
    assert.equal(headers['x-content-type-options'], 'nosniff');
    assert.doesNotMatch(text, new RegExp(`127\\.0\\.0\\.1|:${new URL(node.url).port}`));
  }
  const { headers } = await fetchReply(`${gateway.operationsUrl}/status`, { method: 'GET' });
  assert.match(headers['content-security-policy'] ?? '', /^default-src 'none'; style-src 'sha256-/);
});

// The status page in a real browser: without scripts, with them, on a phone, in the dark, by keyboard, by screen reader.

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
