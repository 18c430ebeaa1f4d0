/** Sends the same bytes to two gateways over one node, with and without the fast path, and compares their answers. */
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { TestContext } from 'node:test';
import { until } from '../../../support/eventually.ts';
import { fakeNode } from '../../../support/fake-node.ts';
import { patient, testGateway, type TestGateway, type TestGatewayOptions } from '../../../support/gateway.ts';
import type { AccessConfig } from '../../../../src/config/config.ts';
import type { Authority, Certified } from '../../../support/tls.ts';
import { knownTags, knownTargets, makeStream, streamKeys, type ClientStream } from './streams.ts';

/** A certificate's files, and its root as PEM text. */
type TlsFiles = Certified & Pick<Authority, 'ca'>;

export interface BothWays {
  readonly fastPath: TestGateway;
  readonly server: TestGateway;
  /** The two answers if they differ in every try. */
  differenceOf(pieces: readonly Buffer[]): Promise<readonly [fastPath: string, server: string] | undefined>;
}

/** An incomplete request gets its 408 after this. */
const shortTimes = { headMs: 2_000, requestMs: 2_000, checkMs: 100 };
/** Bytes behind a `Connection: close` may make the kernel drop the last answer: such a difference is tried again. */
const mostTries = 3;

interface Ways {
  /** Delay of every second read of the node, so that bytes arrive while answers are in flight. */
  readonly slowMs?: number;
  readonly access?: AccessConfig;
  readonly tls?: TlsFiles;
  readonly times?: NonNullable<TestGatewayOptions['times']>;
}

export async function bothWays(
  t: TestContext,
  { slowMs = 0, access, tls, times = shortTimes }: Ways = {},
): Promise<BothWays> {
  const node = await fakeNode(t, {
    head: 5_000n,
    keepRequests: 1,
    // One header of the ledger, and one that belongs to its answer.
    headers: ({ route, url }) => ({
      'x-node-key': 'of the epoch',
      ...(route === 'resource' ? { 'x-node-own': url } : {}),
    }),
  });
  let reads = 0;
  const isSlow = (): boolean => (reads += 1) % 2 === 0;
  if (slowMs > 0) node.faults.add({ kind: 'latency', ms: slowMs }, { when: isSlow });
  // The authority's certificate is for clients alone.
  const served = tls && { cert: tls.cert, key: tls.key, ciphers: tls.ciphers };
  const make = (fastPath: boolean): Promise<TestGateway> =>
    testGateway(t, {
      full: [node],
      times,
      ...(access && { access }),
      config: {
        listen: { fastPath, ...(served && { tls: served }) },
        upstream: patient,
        // Both gateways share one state for the whole run.
        latest: { maxStalenessMs: 10_000 },
      },
    });
  const [fastPath, server] = [await make(true), await make(false)];
  // `testGateway` speaks plain HTTP: with TLS the streams themselves fill the caches.
  for (const gateway of tls === undefined ? [fastPath, server] : []) {
    // `knownTargets` include the base path.
    const headers = access === undefined ? {} : { authorization: `Bearer ${streamKeys.all.text}` };
    const [first = '', ...others] = knownTargets.map((target) => target.slice('/v1'.length));
    // Answers with a new header are stored after a look at the ledger info.
    await until(async () => (await gateway.get(first, headers)).headers['cache-status']?.includes('hit') === true);
    for (const target of others) await gateway.get(target, headers);
    for (const [at, target] of [first, ...others].entries()) {
      knownTags[at] = (await gateway.get(target, headers)).headers['etag'] ?? '*';
    }
  }
  return {
    fastPath,
    server,
    async differenceOf(pieces) {
      let pair: readonly [fastPath: string, server: string] = ['', ''];
      for (let tries = 0; tries < mostTries; tries += 1) {
        pair = await Promise.all([exchangePieces(fastPath, pieces, tls), exchangePieces(server, pieces, tls)]);
        if (pair[0] === pair[1]) return undefined;
      }
      return pair;
    },
  };
}

const show = (text: string): string => JSON.stringify(text.slice(0, 2_000));

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
      const [fastPath, server] = difference;
      failure ??= `stream ${seed}\n${show(bytes.toString('latin1'))}\nwith the fast path: ${show(fastPath)}\nwithout:        ${show(server)}`;
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
  return failure;
}

/** All bytes from the gateway until it ends the connection, in comparable form. */
function exchangePieces({ port }: TestGateway, pieces: readonly Buffer[], tls?: TlsFiles): Promise<string> {
  return new Promise((resolve) => {
    const plain = connect({ port, host: '127.0.0.1', noDelay: true });
    const socket =
      tls === undefined
        ? plain
        : connectTls({ socket: plain, ca: tls.ca, ALPNProtocols: ['http/1.1'], host: '127.0.0.1' });
    plain.on('error', () => undefined);
    const chunks: Buffer[] = [];
    const timer = setTimeout(() => {
      chunks.push(leftOpen);
      socket.destroy();
    }, patienceMs);
    socket.on('data', (chunk) => chunks.push(chunk));
    // A reset: the bytes before it count.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(comparable(Buffer.concat(chunks).toString('latin1')));
    });
    socket.on(tls === undefined ? 'connect' : 'secureConnect', () => void send(pieces));
    const send = async (left: readonly Buffer[]): Promise<void> => {
      for (const piece of left) {
        if (socket.destroyed) return;
        await new Promise<void>((resolve) => {
          socket.write(piece, () => resolve());
          socket.once('close', () => resolve());
        });
        // Mostly keeps the pieces apart.
        await new Promise(setImmediate);
      }
    };
  });
}

/** Marks a connection that the gateway leaves open beyond its times. */
const leftOpen = Buffer.from('(left open)');
const patienceMs = 20_000;

/**
 * Removes what depends on the moment (Date, Age, standings) and on the order in which requests reached a node. Names of
 * headers are in either case: HTTP/2 has them in lower case.
 */
export function comparable(received: string): string {
  return received
    .replaceAll(/^(Date|Cache-Status): .*\r\n/gim, '$1\r\n')
    .replaceAll(/^RateLimit: .*\r\n/gim, (line) => line.replaceAll(/\d+/g, '0'))
    .replaceAll(/^(Retry-After|Age): \d+\r\n/gim, '$1: seconds\r\n');
}
