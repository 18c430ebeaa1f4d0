import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MixSource, type MixRequest } from '../../bench/support/mix-source.ts';
import { requestShapes, type Route } from '../../simulate/shapes.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { fakeNode } from '../support/fake-node.ts';

const head = 2_000_000n;
const ledger = { headAgo: (ms: number) => LedgerVersion.of(head - BigInt(Math.round(ms / 2))) };

function requests(count: number, seed: number, only?: Route): readonly MixRequest[] {
  const source = new MixSource({ seed, ledger, ...(only === undefined ? {} : { only }) });
  return Array.from({ length: count }, () => source.next());
}

test('one seed gives one sequence of requests, another seed another', () => {
  assert.deepEqual(requests(200, 1), requests(200, 1));
  assert.notDeepEqual(requests(200, 1), requests(200, 2));
});

test('routes come by their shares', () => {
  const all = requests(20_000, 3);
  for (const { route, share } of requestShapes) {
    const drawn = all.filter((request) => request.route === route).length / all.length;
    assert.ok(Math.abs(drawn - share) < 0.01, `${route}: ${drawn}`);
  }
});

for (const { route } of requestShapes) {
  test(`a sample node answers the mix's requests of ${route}`, async (t) => {
    const node = await fakeNode(t, { head });
    for (const { method, path, body, contentType } of requests(20, 4, route)) {
      const headers = contentType === undefined ? {} : { 'content-type': contentType };
      const bytes = body === undefined ? null : Buffer.from(body);
      const reply = await fetch(node.url + path, { method, headers, body: bytes });
      assert.equal(reply.status, route === 'submit' ? 202 : 200, `${path}: ${await reply.text()}`);
    }
  });
}
