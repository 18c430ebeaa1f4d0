/** What the checker is proven on: a plain round-robin balancer, as fleets have it in front today. */
import { createServer } from 'node:http';
import type { TestContext } from 'node:test';
import { request as send } from 'undici';
import { listen } from './listen.ts';

export async function naiveProxy(t: TestContext, nodes: readonly { readonly url: string }[]): Promise<{ url: string }> {
  let turn = 0;
  const server = createServer((request, response) => {
    const node = nodes[(turn += 1) % nodes.length];
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const origin = new URL(node?.url ?? '').origin;
      const method = request.method === 'POST' ? 'POST' : 'GET';
      const headers = { 'content-type': 'application/json' };
      send(origin + (request.url ?? ''), { method, headers, body: method === 'POST' ? Buffer.concat(chunks) : null })
        .then(async ({ statusCode, body }) => response.writeHead(statusCode).end(await body.text()))
        .catch(() => response.writeHead(502).end());
    });
  });
  const port = await listen(t, server);
  return { url: `http://127.0.0.1:${port}/v1` };
}
