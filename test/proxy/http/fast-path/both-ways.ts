/** Two gateways over one node, with the front and without: the same bytes are sent to both, and what they say compared. */
import { connect } from 'node:net';
import type { TestContext } from 'node:test';
import { fakeNode } from '../../../support/fake-node.ts';
import { testGateway, type TestGateway } from '../../../support/gateway.ts';
import { knownTargets, makeStream, type ClientStream } from './streams.ts';

export interface BothWays {
  readonly front: TestGateway;
  readonly server: TestGateway;
  /** The two answers where they differ, however often both are asked. */
  differenceOf(pieces: readonly Buffer[]): Promise<readonly [front: string, server: string] | undefined>;
}

/** Who says no more than a part of a request is told so after this. */
const times = { headMs: 2_000, requestMs: 2_000, checkMs: 100 };
/** Bytes that come behind a `Connection: close` may make the kernel drop what was written last: asked once more. */
const mostTries = 3;

/** `slowMs`: the node takes so long over every second read, so that answers are still to come when more bytes do. */
export async function bothWays(t: TestContext, { slowMs = 0 } = {}): Promise<BothWays> {
  const node = await fakeNode(t, { head: 5_000n, keepRequests: 1 });
  let reads = 0;
  const isSlow = (): boolean => (reads += 1) % 2 === 0;
  if (slowMs > 0) node.faults.add({ kind: 'latency', ms: slowMs }, { when: isSlow });
  const make = (fastPath: boolean): Promise<TestGateway> =>
    testGateway(t, {
      full: [node],
      times,
      config: {
        listen: { fastPath },
        // One state for both, however long the run.
        latest: { maxStalenessMs: 10_000 },
      },
    });
  const [front, server] = [await make(true), await make(false)];
  for (const gateway of [front, server]) {
    // The base path is in the targets already.
    for (const target of knownTargets) await gateway.get(target.slice('/v1'.length));
  }
  return {
    front,
    server,
    async differenceOf(pieces) {
      let pair: readonly [front: string, server: string] = ['', ''];
      for (let tries = 0; tries < mostTries; tries += 1) {
        pair = await Promise.all([say(front, pieces), say(server, pieces)]);
        if (pair[0] === pair[1]) return undefined;
      }
      return pair;
    },
  };
}

function show(text: string): string {
  return JSON.stringify(text.slice(0, 2_000));
}

async function say(gateway: TestGateway, pieces: readonly Buffer[]): Promise<string> {
  return comparable(await told(gateway, pieces));
}

type MakeStream = (seed: number) => ClientStream;

/** Seeds of the streams that are compared. */
interface Comparison {
  readonly first: number;
  readonly count: number;
  readonly make?: MakeStream;
  /** Streams in flight at once. */
  readonly parallel?: number;
}

/** Sends `count` streams; resolves to the first that the two gateways answer differently. */
export async function compareStreams(
  both: BothWays,
  { first, count, make = makeStream, parallel = 24 }: Comparison,
): Promise<string | undefined> {
  let next = first;
  let failure: string | undefined;
  const work = async (): Promise<void> => {
    while (next < first + count && failure === undefined) {
      const seed = next;
      next += 1;
      const { pieces, bytes } = make(seed);
      const difference = await both.differenceOf(pieces);
      if (difference === undefined) continue;
      const [front, server] = difference;
      failure ??= `stream ${seed}\n${show(bytes.toString('latin1'))}\nwith the front: ${show(front)}\nwithout:        ${show(server)}`;
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
  return failure;
}

/** All bytes of the gateway until it ends the connection. */
function told({ url }: TestGateway, pieces: readonly Buffer[]): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', noDelay: true });
    const chunks: Buffer[] = [];
    const timer = setTimeout(() => {
      chunks.push(leftOpen);
      socket.destroy();
    }, patienceMs);
    socket.on('data', (chunk) => chunks.push(chunk));
    // A reset: what came before it counts.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(Buffer.concat(chunks).toString('latin1'));
    });
    socket.on('connect', () => void send(pieces));
    const send = async (left: readonly Buffer[]): Promise<void> => {
      for (const piece of left) {
        if (socket.destroyed) return;
        await new Promise<void>((resolve) => {
          socket.write(piece, () => resolve());
          socket.once('close', () => resolve());
        });
        // So that the pieces arrive as such, mostly.
        await new Promise(setImmediate);
      }
    };
  });
}

/** What a connection said last that is not ended by the gateway within its times. */
const leftOpen = Buffer.from('(left open)');
const patienceMs = 20_000;

/** Without the moment (Date, and the seconds of Age) and without which of several requests was the first to ask a node. */
function comparable(said: string): string {
  return said
    .replaceAll(/^Date: .*\r\n/gm, '')
    .replaceAll(/^Cache-Status: .*\r\n/gm, '')
    .replaceAll(/^Age: \d+\r\n/gm, 'Age: seconds\r\n');
}
