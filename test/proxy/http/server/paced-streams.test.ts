/** Streams of HTTP/2 wait for their turn: reset ones cost nothing, and no other is lost. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test, type TestContext } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { until } from '../../../support/eventually.ts';
import type { FakeNode } from '../../../support/fake-node.ts';
import { nodeAndGateway, patient, probeAt, type TestGateway } from '../../../support/gateway.ts';
import { frame, headOf } from '../../../support/h2-frames.ts';
import { askH2, authority, h2Session, tlsSocket } from '../../../support/tls.ts';

for (const fastPath of [true, false]) {
  test(`streams that are reset as soon as they begin reach no node, fastPath: ${fastPath}`, async (t) => {
    const { node, gateway, ca } = await overTls(t, fastPath);
    const before = node.reads;
    const hostile = await openH2(t, gateway, ca);
    hostile.write(Buffer.concat([...resets(1, 20), frame(6, 0, 0, Buffer.alloc(8))]));
    // The answer to the ping; the connection goes on.
    await hostile.until((type, flags) => type === 6 && flags === 1);
    const answered = await askH2(await h2Session(t, new URL(gateway.url).origin, ca), {
      path: `/v1${probeAt(800)}`,
    });
    assert.equal(answered.status, 200);
    assert.equal(node.reads, before + 1);
    assert.equal(hostile.socket.closed, false);
  });

  test(`a read full of reset streams ends the connection, and reaches no node, fastPath: ${fastPath}`, async (t) => {
    const { node, gateway, ca } = await overTls(t, fastPath);
    const before = node.reads;
    const hostile = await openH2(t, gateway, ca);
    // Fewer than the 200 of node:http2's own bound.
    hostile.write(Buffer.concat(resets(1, 64)));
    await hostile.ended;
    assert.equal(node.reads, before);
  });

  test(`an answer ends ahead of the reset for a body that nothing reads, fastPath: ${fastPath}`, async (t) => {
    const { gateway, ca } = await overTls(t, fastPath);
    const client = await openH2(t, gateway, ca);
    const requests = Array.from({ length: 60 }, (_, at) => ({ id: 2 * at + 1, kind: at % 4 }));
    // A 304 ends with its head.
    const unchanged = Buffer.concat([headOf(`/v1${probeAt(800)}`), Buffer.from('\0\x0dif-none-match\x01*')]);
    const head = [unchanged, headOf('/v1/unknown')] as const;
    client.write(Buffer.concat(requests.map(({ id, kind }) => frame(1, 4, id, head[kind < 2 ? 0 : 1]))));
    await client.until((type, flags) => type === 1 && flags > 0);
    // An empty body, and one that does not end.
    client.write(Buffer.concat(requests.map(({ id, kind }) => frame(0, kind % 2, id, Buffer.alloc(1 - (kind % 2))))));
    const ends = (id: number) => client.frames().find((it) => it.id === id && (it.type === 3 || it.flags % 2 === 1));
    await until(() => requests.every(({ id }) => ends(id) !== undefined));
    assert.deepEqual(
      requests.filter(({ id }) => ends(id)?.type === 3),
      [],
    );
  });

  test(`1,000 requests over one session are all answered, fastPath: ${fastPath}`, async (t) => {
    const { gateway, ca } = await overTls(t, fastPath);
    const session = await h2Session(t, new URL(gateway.url).origin, ca);
    const ask = async (at: number): Promise<void> => {
      const version = 500 + (at % 300);
      const stream = session.request({ ':path': `/v1${probeAt(version)}` });
      let body = '';
      stream.on('data', (chunk) => (body += String(chunk)));
      await once(stream, 'end');
      assert.match(body, new RegExp(`"ledger_version":"${version}"`));
    };
    await Promise.all(Array.from({ length: 1_000 }, (_, at) => ask(at)));
  });
}

/** HEADERS and RST_STREAM (CANCEL) of so many misses. */
function resets(first: number, count: number): Buffer[] {
  return Array.from({ length: count }, (_, at) => 2 * (first + at) - 1).flatMap((id) => [
    frame(1, 5, id, headOf(`/v1${probeAt(500 + id)}`)),
    frame(3, 0, id, Buffer.from([0, 0, 0, 8])),
  ]);
}

interface Over {
  readonly node: FakeNode;
  readonly gateway: TestGateway;
  readonly ca: string;
}

async function overTls(t: TestContext, fastPath: boolean): Promise<Over> {
  const root = authority(t);
  const config = { listen: { fastPath, tls: root.certify('gateway') }, upstream: { connections: 200, ...patient } };
  const { node, gateway } = await nodeAndGateway(t, { config });
  return { node, gateway, ca: root.ca };
}

/** A connection that has sent its settings. */
async function openH2(t: TestContext, { port }: TestGateway, ca: string) {
  const socket: TLSSocket = await tlsSocket(t, port, { ca, ALPNProtocols: ['h2'] });
  socket.on('error', () => undefined);
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  let received = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => (received = Buffer.concat([received, chunk])));
  const frames = () => {
    const all: { type: number; flags: number; id: number }[] = [];
    for (let at = 0; at + 9 <= received.length; at += 9 + received.readUIntBE(at, 3)) {
      all.push({ type: received[at + 3] ?? 0, flags: received[at + 4] ?? 0, id: received.readUInt32BE(at + 5) });
    }
    return all;
  };
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0, Buffer.alloc(0))]));
  return {
    socket,
    ended,
    write: (bytes: Buffer) => void socket.write(bytes),
    frames,
    until: (isWanted: (type: number, flags: number) => boolean) =>
      until(() => frames().some(({ type, flags }) => isWanted(type, flags))),
  };
}
