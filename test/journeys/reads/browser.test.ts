// A wallet's page in a real browser reads a gateway on another origin: bodies, and the headers that fetch exposes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { openPage, withoutChromium } from '../../support/chromium.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { probe, testGateway } from '../../support/gateway.ts';
import { authority } from '../../support/tls.ts';

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
  test(
    `a page of another origin reads answers, errors and ledger headers over ${scheme}`,
    { skip: withoutChromium() },
    async (t) => {
      const node = await fakeNode(t);
      const listen = scheme === 'https' ? { tls: authority(t).certify('gateway') } : {};
      const gateway = await testGateway(t, { full: [node], config: { listen } });
      const page = await openPage(t);
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

        assert.deepEqual(
          [pinned, latest, viewed, fault, hurried].map(({ status }) => status),
          [200, 200, 200, 400, 200],
        );
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
    },
  );
}

test('one preflight serves all requests of a page for a while', { skip: withoutChromium() }, async (t) => {
  const node = await fakeNode(t);
  const lines: string[] = [];
  const gateway = await testGateway(t, {
    full: [node],
    onLog: ({ msg, method }) => void (msg === 'answered' && lines.push(String(method))),
  });
  const page = await openPage(t);
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
