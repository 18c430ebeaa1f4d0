/**
 * A proxy without a cache, as small as it gets: `node bench/support/plain-proxy.ts http|fastify UPSTREAM PORT`. Reads the
 * node's answer whole and hands it on.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Pool } from 'undici';

const [kind, upstream = '', port = '0'] = process.argv.slice(2);
const pool = new Pool(new URL(upstream).origin, { connections: 64 });
const ownHeaders = new Set(['date', 'connection', 'keep-alive', 'transfer-encoding']);

async function ask(path: string) {
  const { statusCode, headers, body } = await pool.request({ method: 'GET', path });
  const head = Object.entries(headers).filter(([name]) => !ownHeaders.has(name));
  return { statusCode, head: head as [string, string][], body: Buffer.from(await body.arrayBuffer()) };
}

if (kind === 'fastify') {
  const { fastify } = await import('fastify');
  const server = fastify();
  server.get('/*', async (request, reply) => {
    const { statusCode, head, body } = await ask(request.url);
    return reply.code(statusCode).headers(Object.fromEntries(head)).send(body);
  });
  tell((await server.listen({ host: '127.0.0.1', port: Number(port) })) && server.server.address());
} else {
  const server = createServer((request, response) => {
    void ask(request.url ?? '/').then(({ statusCode, head, body }) => {
      response.writeHead(statusCode, head.flat());
      response.end(body);
    });
  });
  server.keepAliveTimeout = 75_000;
  server.listen(Number(port), '127.0.0.1', () => tell(server.address()));
}

function tell(address: unknown): void {
  process.stdout.write(`http://127.0.0.1:${(address as AddressInfo).port}\n`);
}
