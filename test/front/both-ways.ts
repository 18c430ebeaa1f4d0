/** Two gateways over one node, with the front and without: the same bytes are sent to both, and what they say compared. */
import { connect } from 'node:net';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fakeNode } from '../support/fake-node.ts';
import { testGateway, type TestGateway } from '../support/gateway.ts';
import { knownTargets, makeStream } from './streams.ts';

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
/** An answer that is not there after this does not come; longer each time, on a machine that has other work. */
const answerMs = 50;

export async function bothWays(t: TestContext): Promise<BothWays> {
  const node = await fakeNode(t, { head: 5_000n });
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
        if (isAsSaid(pair[0], pair[1])) return undefined;
        if (await isSaidInTurn(pair[0], server, pieces, answerMs * 4 ** tries)) return undefined;
        for (const gateway of [front, server]) await readAll(gateway, Buffer.concat(pieces).toString('latin1'));
      }
      return pair;
    },
  };
}

function show(text: string): string {
  return JSON.stringify(text.slice(0, 2_000));
}

async function say(gateway: TestGateway, pieces: readonly Buffer[], pauseMs = 0): Promise<string> {
  return comparable(await told(gateway, pieces, pauseMs));
}

/** Sends so many streams, a few at a time; the first that the two gateways answer differently, by its number. */
export async function compareStreams(
  both: BothWays,
  { first, count, atOnce = 24 }: { readonly first: number; readonly count: number; readonly atOnce?: number },
): Promise<string | undefined> {
  let next = first;
  let failure: string | undefined;
  const work = async (): Promise<void> => {
    while (next < first + count && failure === undefined) {
      const seed = next;
      next += 1;
      const { pieces, bytes } = makeStream(seed);
      const difference = await both.differenceOf(pieces);
      if (difference === undefined) continue;
      const [front, server] = difference;
      failure ??= `stream ${seed}\n${show(bytes.toString('latin1'))}\nwith the front: ${show(front)}\nwithout:        ${show(server)}`;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return failure;
}

/**
 * Reads what the stream asks for, one after the other. What both have in memory they answer at once; of what a node is
 * asked for, the server answers nothing any more where bytes that are no request come behind.
 */
async function readAll(gateway: TestGateway, stream: string): Promise<void> {
  for (const [, path = ''] of stream.matchAll(/(?:GET|HEAD) (?:http:\/\/[^/ ]+)?\/v1(\/accounts\/[!-~]+)/g)) {
    for (const accept of ['application/json', 'application/x-bcs']) {
      // What is no path for an HTTP client is none here.
      await gateway.get(path, { accept, connection: 'close' }).catch(() => undefined);
    }
  }
}

/** What is said last of bytes that are no request. */
const brokenOff =
  /"message":"the (?:request is not well-formed HTTP|request head is too large|chunk extensions are too large|request did not arrive in time)"[^]{0,60}$/;

/**
 * The same; or less where the server came to bytes that are no request, of which it says nothing behind an answer that
 * was the last anyway: which of the answers before are out by then is a matter of microtasks, for Node's parser reads
 * what is handed over in another way than what it reads itself.
 */
function isAsSaid(said: string, byServer: string): boolean {
  if (said === byServer) return true;
  return byServer.startsWith(said) && (brokenOff.test(byServer) || !byServer.endsWith(lastAnswer));
}

/** The answer to the request that ends each stream: where it is not the last, the connection has ended before that. */
const lastAnswer = '{"message":"aptos-node:ok"}';

/**
 * Whether the server says the same when it is given the first of the requests one by one, each after the answer to the
 * one before, and the rest at once. Where what comes behind is no request, it drops answers that it has not written yet,
 * and the front has written those of the requests that it took.
 */
async function isSaidInTurn(said: string, server: TestGateway, pieces: readonly Buffer[], pauseMs: number) {
  const parts = Buffer.concat(pieces)
    .toString('latin1')
    .split(/(?<=\r\n\r\n)/);
  for (let taken = 1; taken < parts.length; taken += 1) {
    const turns = [...parts.slice(0, taken), parts.slice(taken).join('')].map((turn) => Buffer.from(turn, 'latin1'));
    if (isAsSaid(said, await say(server, turns, pauseMs))) return true;
  }
  return false;
}

/** All that the gateway says until it ends the connection. `pauseMs`: between the pieces. */
function told({ url }: TestGateway, pieces: readonly Buffer[], pauseMs: number): Promise<string> {
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
        await (pauseMs === 0 ? new Promise(setImmediate) : sleep(pauseMs));
      }
    };
  });
}

/** What a connection said last that is not ended by the gateway within its times. */
const leftOpen = Buffer.from('(left open)');
const patienceMs = 20_000;

/** Without what may differ: the moment, and who of several requests at once was the first to ask a node. */
function comparable(said: string): string {
  return said.replaceAll(/^Date: .*\r\n/gm, '').replaceAll(/^Cache-Status: .*\r\n/gm, '');
}
