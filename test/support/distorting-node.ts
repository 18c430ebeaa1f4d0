/** A node whose answers are distorted on their way: a real sample node behind a proxy that changes what it says. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Pool } from 'undici';
import type { SampleNode } from './sample-node.ts';
import { listen } from './listen.ts';

/** An answer as it goes over the wire; names of headers in lower case. */
export interface Said {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Sent after so long. Default 0. */
  readonly afterMs?: number;
  /** The connection ends after so many bytes of the body. */
  readonly cutAt?: number;
}

export interface Asked {
  readonly path: string;
  /** It asks for the ledger info. */
  readonly isLook: boolean;
  /** Reads before this one. */
  readonly count: number;
}

/** `hang`: no answer ever comes. `reset`: the connection is reset instead. */
export type Distort = (said: Said, asked: Asked) => Said | 'hang' | 'reset';

/** Stands in front of `node`; ends with the test. */
export async function distortingNode(t: TestContext, node: SampleNode, distort: Distort) {
  const pool = new Pool(new URL(node.url).origin, { connections: 64 });
  const closing = new AbortController();
  let reads = 0;
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url: path = '' } = request;
    const isLook = /^\/v1\/?$/.test(path);
    const asked = { path, isLook, count: reads };
    if (!isLook) reads += 1;
    const reply = await pool.request({
      method,
      path,
      headers: { accept: request.headers.accept ?? '*/*' },
    });
    const { connection: _c, 'keep-alive': _k, date: _d, ...headers } = reply.headers as Record<string, string>;
    const body = Buffer.from(await reply.body.arrayBuffer());
    const said = distort({ status: reply.statusCode, headers, body }, asked);
    if (said === 'hang') return;
    if (said === 'reset') return void request.socket.resetAndDestroy();
    if (said.afterMs !== undefined) await delay(said.afterMs, undefined, { signal: closing.signal });
    response.writeHead(said.status, { ...said.headers, 'content-length': said.body.length });
    if (said.cutAt === undefined) response.end(said.body);
    else response.write(said.body.subarray(0, said.cutAt), () => response.socket?.destroy());
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
  const port = await listen(t, server);
  t.after(async () => {
    closing.abort();
    await pool.destroy();
  });
  return {
    url: `http://127.0.0.1:${port}/v1`,
    /** Requests for anything but the ledger info. */
    get reads() {
      return reads;
    },
  };
}
