/**
 * The same bytes to both clients: what ours takes for an answer has to be what undici takes for one, and what is sound
 * has to be taken by both. LEDGERGATE_ANSWER_STREAMS and LEDGERGATE_ANSWER_SEED ask for more, and others.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { Pool, type Dispatcher } from 'undici';
import { NodePool } from '../../../src/upstream/wire/node-pool.ts';
import { answerStream } from './answers.ts';

const streams = Number(process.env['LEDGERGATE_ANSWER_STREAMS'] ?? 1_500);
const firstSeed = Number(process.env['LEDGERGATE_ANSWER_SEED'] ?? 1);
const bounds = { connections: 8, connectTimeoutMs: 5_000, keepAliveMs: 4_000, keepAliveMarginMs: 2_000 };

/** Writes the stream of that number for `GET /NUMBER`, and one that is sound for anything else. */
async function serverOf(t: TestContext): Promise<URL> {
  const server = createServer((socket) => {
    socket.setNoDelay(true);
    socket.on('error', () => undefined);
    let asked = '';
    socket.on('data', (chunk) => {
      asked += chunk.toString('latin1');
      if (!asked.endsWith('\r\n\r\n')) return;
      const seed = /^GET \/(\d+) /.exec(asked)?.[1];
      asked = '';
      if (seed === undefined) socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${next.length}\r\n\r\n${next}`);
      else void give(Number(seed));
    });
    async function give(seed: number): Promise<void> {
      const { pieces, isLast } = answerStream(seed);
      for (const piece of pieces) {
        socket.write(piece);
        await new Promise(setImmediate);
      }
      if (isLast) socket.end();
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
}

const next = 'the next answer';

interface Answer {
  readonly status: number;
  readonly headers: unknown;
  readonly body: string;
}

type Dispatch = (path: string, handler: Dispatcher.DispatchHandler) => void;

/** The answer, `undefined` where there is none. */
function ask(dispatch: Dispatch, path: string): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    let status = 0;
    let headers: unknown;
    let body = '';
    dispatch(path, {
      onRequestStart: () => undefined,
      onResponseStart: (_controller, given, fields) => {
        status = given;
        headers = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, trimmed(value)]));
      },
      onResponseData: (_controller, chunk) => (body += chunk.toString('latin1')),
      onResponseEnd: () => resolve({ status, headers, body }),
      onResponseError: () => resolve(undefined),
    });
  });
}

/** undici leaves the space behind a value, which is no part of it (RFC 9112 5.1). */
function trimmed(value: string | string[] | undefined): unknown {
  return Array.isArray(value) ? value.map(trimmed) : value?.replace(/[\t ]+$/, '');
}

test('what is taken for an answer is one to undici as well, and so is what comes next', async (t) => {
  const url = await serverOf(t);
  const own = new NodePool(url, bounds);
  const undici = new Pool(url.origin, { connections: 8, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 });
  t.after(() => Promise.all([own.destroy(), undici.destroy()]));
  const byOwn: Dispatch = (path, handler) => own.dispatch({ method: 'GET', path, headers: {} }, handler);
  const byUndici: Dispatch = (path, handler) => void undici.dispatch({ method: 'GET', path, headers: {} }, handler);
  const seen = { both: 0, neither: 0, undiciAlone: 0 };
  for (let seed = firstSeed; seed < firstSeed + streams; seed += 1) {
    const { pieces, isSound } = answerStream(seed);
    const text = `stream ${seed}: ${JSON.stringify(Buffer.concat(pieces).toString('latin1'))}`;
    const [ours, theirs] = await Promise.all([ask(byOwn, `/${seed}`), ask(byUndici, `/${seed}`)]);
    if (ours !== undefined) assert.deepEqual(ours, theirs, text);
    if (isSound) assert.notEqual(ours, undefined, text);
    const after = await ask(byOwn, '/next').then((answer) => answer ?? ask(byOwn, '/next'));
    assert.equal(after?.body, next, text);
    seen[ours !== undefined ? 'both' : theirs === undefined ? 'neither' : 'undiciAlone'] += 1;
  }
  // The streams are such that something is learned from them.
  for (const [outcome, count] of Object.entries(seen)) {
    assert.ok(count > streams / 200, `${outcome}: ${count} of ${streams}`);
  }
  assert.ok(seen.undiciAlone < streams / 5, `${seen.undiciAlone} of ${streams} are taken by undici alone`);
});
