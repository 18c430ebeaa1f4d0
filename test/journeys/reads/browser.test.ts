// A wallet’s page in a real browser reads a gateway on another origin: bodies, the headers that fetch exposes, streams.
import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import type { Page } from 'playwright-core';
import { openBrowser, openPage, withoutChromium } from '../../support/chromium.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { FaultProxy } from '../../support/fault-proxy.ts';
import { probe, testGateway, statusesOf } from '../../support/gateway.ts';
import { accessConfig, keysFile, testKey } from '../../support/keys.ts';
import { authority } from '../../support/tls.ts';

const skip = withoutChromium();
const browser = skip === false ? await openBrowser({ after }) : undefined;

function newPage(t: TestContext): Promise<Page> {
  assert.ok(browser !== undefined);
  return openPage(t, browser);
}

const view = JSON.stringify({ function: '0x1::ledgergate_sample::version', type_arguments: [], arguments: [] });

interface Seen {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

interface Wanted {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
  readonly credentials?: 'omit' | 'include';
}

for (const scheme of ['http', 'https'] as const) {
  test(`a page of another origin reads answers, errors and ledger headers over ${scheme}`, { skip }, async (t) => {
    const node = await fakeNode(t);
    const listen = scheme === 'https' ? { tls: authority(t).certify('gateway') } : {};
    const gateway = await testGateway(t, { full: [node], config: { listen } });
    const page = await newPage(t);
    const protocols = await protocolsOf(page, gateway.url);
    const ask = (path: string, wanted: Wanted = {}): Promise<Seen> => fetchOn(page, gateway.url + path, wanted);

    for (const credentials of ['omit', 'include'] as const) {
      const pinned = await ask(`${probe}?ledger_version=900`, { credentials });
      const latest = await ask(probe, { credentials });
      const viewed = await ask('/view?ledger_version=900', {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-api-key': 'k',
          authorization: 'Bearer k',
          'x-aptos-client': 'c',
        },
        body: view,
        credentials,
      });
      const fault = await ask(`${probe}?ledger_version=x`, { credentials });
      const hurried = await ask(probe, { headers: { 'ledgergate-max-staleness': '0' }, credentials });

      assert.deepEqual(statusesOf([pinned, latest, viewed, fault, hurried]), [200, 200, 200, 400, 200]);
      assert.equal(JSON.parse(pinned.text).data.ledger_version, '900');
      assert.deepEqual(JSON.parse(viewed.text), ['900']);
      assert.equal(JSON.parse(fault.text).error_code, 'web_framework_error');
      for (const { headers } of [pinned, latest, viewed, fault]) {
        assert.equal(headers['x-node-ledger-version'], '1000');
        assert.equal(headers['x-node-chain-id'], '1');
        assert.ok(headers['x-node-ledger-oldest-version']);
      }
      assert.match(pinned.headers['cache-status'] ?? '', /^ledgergate; /);
      assert.equal(pinned.headers['ledgergate-served-version'], '900');
      assert.match(pinned.headers['etag'] ?? '', /^"/);
    }
    assert.deepEqual(protocols, new Set([scheme === 'https' ? 'h2' : 'http/1.1']));
  });
}

test('one preflight serves all requests of a page for a while', { skip }, async (t) => {
  const node = await fakeNode(t);
  const lines: string[] = [];
  const gateway = await testGateway(t, {
    full: [node],
    onLog: ({ msg, method }) => void (msg === 'answered' && lines.push(String(method))),
  });
  const page = await newPage(t);
  const headers = { 'content-type': 'application/json' };
  for (let round = 0; round < 3; round += 1) {
    const seen = await fetchOn(page, `${gateway.url}/view?ledger_version=900`, {
      method: 'POST',
      headers,
      body: view,
    });
    assert.equal(seen.status, 200);
  }
  assert.deepEqual(lines, ['OPTIONS', 'POST', 'POST', 'POST']);
});

/** `fetch` on the page. */
function fetchOn(page: Page, url: string, wanted: Wanted): Promise<Seen> {
  return page.evaluate(
    async ([url, wanted]) => {
      const response = await fetch(url, wanted);
      const text = await response.text();
      return { status: response.status, headers: Object.fromEntries(response.headers), text };
    },
    [url, wanted] as const,
  );
}

/** The browser's connections to the gateway from now on. */
async function protocolsOf(page: Page, url: string): Promise<ReadonlySet<string>> {
  const protocols = new Set<string>();
  const devTools = await page.context().newCDPSession(page);
  devTools.on('Network.responseReceived', ({ response }) => {
    if (response.url.startsWith(url)) protocols.add(String(response.protocol));
  });
  await devTools.send('Network.enable');
  return protocols;
}

// Event streams: by EventSource, and by fetch where the page has a key.

/** What the page has of its stream: the version of each event, and the times that the browser has opened it. */
interface Received {
  readonly versions: string[];
  opened: number;
}

test(
  'an EventSource resumes behind its last event, without a gap or a double, and fetch reads a stream with a key',
  { skip },
  async (t) => {
    const node = await fakeNode(t, { head: 900n });
    const key = testKey('wallet');
    const access = accessConfig({ keys: { file: keysFile(t, [key]).path, redis: false }, anonymous: 'free' });
    const listen = { tls: authority(t).certify('gateway') };
    const gateway = await testGateway(t, { full: [node], access, config: { listen } });
    const proxy = new FaultProxy(gateway.port);
    await proxy.accept();
    t.after(() => proxy.refuse());
    const url = `https://127.0.0.1:${proxy.port}/v1/transactions`;
    const page = await newPage(t);
    const seen = await page.evaluateHandle((url): Received => {
      const seen: Received = { versions: [], opened: 0 };
      const source = new EventSource(url, { withCredentials: true });
      source.addEventListener('open', () => (seen.opened += 1));
      source.addEventListener('transaction', (event) => {
        const { lastEventId, data } = event as Event & { readonly lastEventId: string; readonly data: string };
        const { version } = JSON.parse(data) as { readonly version: string };
        seen.versions.push(version === lastEventId ? version : `${version} as ${lastEventId}`);
      });
      return seen;
    }, `${url}?start=898`);
    const has = (count: number): Promise<void> =>
      until(async () => (await seen.jsonValue()).versions.length >= count, 50);
    await has(3);
    proxy.reset();
    node.clock.head = 902n;
    // The browser reconnects by itself, with the id of its last event beside the same `start`.
    await has(5);
    assert.deepEqual(await seen.jsonValue(), { versions: ['898', '899', '900', '901', '902'], opened: 2 });

    const text = await page.evaluate(
      async ([url, key]) => {
        const headers = { accept: 'text/event-stream', authorization: `Bearer ${key}`, 'last-event-id': '899' };
        const leave = new AbortController();
        const { body } = await fetch(url, { headers, signal: leave.signal });
        const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
        let text = '';
        while (!text.includes('id: 901\n')) text += (await reader?.read())?.value ?? '';
        leave.abort();
        return text;
      },
      [url, key.text] as const,
    );
    assert.match(text, /^retry: \d{4}\n\nid: 900\nevent: transaction\ndata: \{/);
    // One is left.
    await until(async () => (await gateway.metric('ledgergate_streams{kind="transactions"}')) === 1);
  },
);
