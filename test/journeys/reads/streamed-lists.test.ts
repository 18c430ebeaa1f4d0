/** Lists that are larger than any answer that is read whole: they are streamed, as if they had no cache. */
import assert from 'node:assert/strict';
import { createServer, get, type IncomingMessage } from 'node:http';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { test, type TestContext } from 'node:test';
import { fakeNode } from '../../support/fake-node.ts';
import { patient, probeAt, testGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { listen } from '../../support/listen.ts';

/** Above the bound of 64 MiB. */
const size = 70_000_000;
const chunk = Buffer.alloc(1_000_000, ' ');

/** A node whose answers have `size` bytes of JSON, and the targets that it was asked for. */
async function largeNode(t: TestContext, isAnnounced: boolean) {
  const targets: string[] = [];
  const server = createServer((request, response) => {
    const isLook = /^\/v1\/?$/.test(request.url ?? '');
    const length = isAnnounced && !isLook ? { 'content-length': size } : {};
    response.writeHead(200, { ...ledgerHeaders({ version: 900n }), 'content-type': 'application/json', ...length });
    if (isLook) return void response.end('{}');
    targets.push(request.url ?? '');
    const body = Array.from({ length: size / chunk.length }, (_, at) => (at === 0 ? firstOf(chunk) : chunk));
    void pipeline(Readable.from(body), response).catch(() => undefined);
  });
  return { url: `http://127.0.0.1:${await listen(t, server)}/v1`, targets };
}

function firstOf(block: Buffer): Buffer {
  return Buffer.concat([Buffer.from('[]'), block.subarray(2)]);
}

/** Status and bytes of the answer. */
async function ask(url: string): Promise<readonly [status: number | undefined, bytes: number]> {
  const [response] = (await once(get(url, { agent: false }), 'response')) as [IncomingMessage];
  let bytes = 0;
  response.on('data', (part: Buffer) => (bytes += part.length));
  await once(response, 'end');
  return [response.statusCode, bytes];
}

/** Status of an answer whose body the client gives up. */
async function askHead(url: string): Promise<number | undefined> {
  const [response] = (await once(get(url, { agent: false }), 'response')) as [IncomingMessage];
  response.destroy();
  return response.statusCode;
}

const lists = {
  'a page of resources': '/accounts/0x1/resources?ledger_version=5',
  'a list of transactions': '/transactions?start=5&limit=100',
  'a block with transactions': '/blocks/by_height/5?with_transactions=true',
};

for (const isAnnounced of [true, false]) {
  for (const fastPath of [true, false]) {
    const how = `${isAnnounced ? 'with an announced length' : 'in chunks'}, ${fastPath ? 'with' : 'without'} the fast path`;

    test(`lists that are too large to be read whole are streamed, ${how}`, async (t) => {
      const node = await largeNode(t, isAnnounced);
      const gateway = await testGateway(t, { full: [node], config: { listen: { fastPath }, upstream: patient } });
      // Each list meets both ways of framing and both ways of answering.
      const some = isAnnounced === fastPath ? Object.entries(lists) : Object.entries(lists).slice(0, 1);
      for (const [what, target] of some) {
        node.targets.length = 0;
        assert.deepEqual(await ask(gateway.url + target), [200, size], what);
        assert.equal(await askHead(gateway.url + target), 200, what);
        // One that the gateway began to read whole, and one for each client.
        assert.equal(node.targets.length, 3, what);
      }
      // At every version.
      node.targets.length = 0;
      assert.equal(await askHead(`${gateway.url}/accounts/0x1/resources?ledger_version=6`), 200);
      assert.equal(node.targets.length, 1);
      assert.deepEqual(await ask(`${gateway.url}/accounts/0x1/transactions`), [200, size]);
    });
  }
}

test('a resource that is too large at one node is read from another', async (t) => {
  const broken = await largeNode(t, true);
  const whole = await fakeNode(t, { head: 900n, chainId: 4 });
  const gateway = await testGateway(t, { full: [broken], archival: [whole], config: { upstream: patient } });
  const reply = await gateway.get(probeAt(600));
  assert.deepEqual([reply.status, broken.targets.length, whole.reads], [200, 1, 1]);
});
