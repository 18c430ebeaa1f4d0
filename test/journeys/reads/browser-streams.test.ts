// A page of another origin reads event streams in a real browser: by EventSource, and by fetch where it has a key.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPage, withoutChromium } from '../../support/chromium.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { FaultProxy } from '../../support/fault-proxy.ts';
import { testGateway } from '../../support/gateway.ts';
import { accessConfig, keysFile, testKey } from '../../support/keys.ts';
import { authority } from '../../support/tls.ts';

/** What the page has of its stream: the version of each event, and the times that the browser has opened it. */
interface Seen {
  readonly versions: string[];
  opened: number;
}

test(
  'an EventSource resumes behind its last event, without a gap or a double, and fetch reads a stream with a key',
  { skip: withoutChromium() },
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
    const page = await openPage(t);
    const seen = await page.evaluateHandle((url): Seen => {
      const seen: Seen = { versions: [], opened: 0 };
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
