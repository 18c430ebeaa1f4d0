/** Clients who send large bodies from an address of their own, in a thread that leaves the test's alone. */
import { once } from 'node:events';
import { connect as connectH2, type ClientHttp2Session } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import type { TestContext } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

export interface BodyCrowdOptions {
  readonly transport: 'HTTP/1.1' | 'HTTP/2';
  readonly port: number;
  /** PEM text; absent over HTTP/1.1, which is without TLS. */
  readonly ca?: string;
  /** Source address of the connections. */
  readonly address: string;
  /** Bodies under way at once. */
  readonly clients: number;
  readonly path: string;
  readonly body: Uint8Array;
  /** `unfinished`: the last byte never comes. `again`: each is answered, and then the next is sent. */
  readonly kind: 'unfinished' | 'again';
}

/** Starts them; they end with the test. `statuses`: answers by status; 0: the connection ended without one. */
export function bodyCrowd(t: TestContext, options: BodyCrowdOptions) {
  const statuses = new Map<number, number>();
  const worker = new Worker(new URL(import.meta.url), { workerData: options });
  worker.on('message', (status: number) => statuses.set(status, (statuses.get(status) ?? 0) + 1));
  t.after(() => worker.terminate());
  return { statuses };
}

async function attack(options: BodyCrowdOptions): Promise<void> {
  const session = options.transport === 'HTTP/2' ? await openSession(options) : undefined;
  const one = async (): Promise<void> => {
    do {
      const status = await (session === undefined ? sendH1(options) : sendH2(session, options));
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's port has no origin
      parentPort?.postMessage(status);
    } while (options.kind === 'again');
  };
  await Promise.all(Array.from({ length: options.clients }, one));
}

function sent({ kind, body }: BodyCrowdOptions): Uint8Array {
  return kind === 'unfinished' ? body.subarray(0, -1) : body;
}

/** The status of the answer, 0 where none came; the connection ends with it. */
async function sendH1(options: BodyCrowdOptions): Promise<number> {
  const { port, address: localAddress, path, body } = options;
  const socket = connectTcp({ port, host: '127.0.0.1', localAddress });
  socket.write(`POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\n`);
  socket.write(`Content-Length: ${body.length}\r\n\r\n`);
  socket.write(sent(options));
  // An answer that comes before the end of the body may be lost in a reset.
  socket.on('error', () => undefined);
  let status = 0;
  socket.once('data', (head) => (status = Number(head.toString('latin1', 9, 12))));
  socket.resume();
  await new Promise((resolve) => socket.once('close', resolve));
  return status;
}

async function openSession({ port, ca = '', address: localAddress }: BodyCrowdOptions): Promise<ClientHttp2Session> {
  const socket = connectTls({
    socket: connectTcp({ port, host: '127.0.0.1', localAddress }),
    ca,
    ALPNProtocols: ['h2'],
  });
  const session = connectH2('https://127.0.0.1', {
    createConnection: () => socket,
    // Of what is still to be sent, in MB: all bodies.
    maxSessionMemory: 1_000,
  });
  await once(session, 'connect');
  return session;
}

async function sendH2(session: ClientHttp2Session, options: BodyCrowdOptions): Promise<number> {
  const { path, body } = options;
  const headers = { 'content-type': 'application/json', 'content-length': String(body.length) };
  const stream = session.request({ ':method': 'POST', ':path': path, ...headers });
  stream.on('error', () => undefined);
  stream.write(sent(options));
  if (options.kind === 'again') stream.end();
  const [head] = (await once(stream, 'response')) as [{ readonly ':status'?: number }];
  stream.resume();
  if (!stream.closed) await once(stream, 'close');
  return head[':status'] ?? 0;
}

if (!isMainThread) await attack(workerData as BodyCrowdOptions);
