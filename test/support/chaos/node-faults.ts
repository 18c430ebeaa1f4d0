/** Faults of a node: each begins here and ends with `ChaosNode.heal`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { errorBody } from '../error-body.ts';
import type { SampleFault, FaultLimits } from '../sample-faults.ts';
import type { Random } from '../random.ts';
import type { Mangle } from '../fault-proxy.ts';
import { versionsPerSecond } from './ledger.ts';
import type { ChaosNode } from './node.ts';

export interface NodeFault {
  readonly name: string;
  /** Every request is still answered rightly, well within an attempt's bound. */
  readonly leavesAble?: true;
  /** Only while the other nodes are well: most nodes decide about chain and head. */
  readonly isExclusive?: true;
  /** A gateway asks nothing of the node before a probe has found it well again. */
  readonly shuns?: true;
  begin(node: ChaosNode, random: Random): void | Promise<void>;
}

export const nodeFaults: readonly NodeFault[] = [
  { name: 'hangs', begin: ({ node }) => node.faults.add({ kind: 'hang' }) },
  { name: 'hangs, but reports its ledger', begin: ({ node }) => node.faults.add({ kind: 'hang' }, { when: isRead }) },
  { name: 'falls silent with its connections', begin: ({ proxy }) => void (proxy.isStalled = true) },
  {
    name: 'is somewhat slow',
    leavesAble: true,
    begin: ({ node }, random) => node.faults.add({ kind: 'latency', ms: 30 + random.below(220) }),
  },
  {
    name: 'is very slow',
    begin: ({ node }, random) => node.faults.add({ kind: 'latency', ms: 700 + random.below(3_000) }),
  },
  {
    name: 'dribbles its bodies',
    begin: ({ node }) => node.faults.add({ kind: 'slow body', chunkBytes: 20, everyMs: 60 }),
  },
  onSome('resets connections', { kind: 'reset' }),
  { name: 'refuses connections', begin: ({ proxy }) => proxy.refuse() },
  onSome('answers 500', { kind: 'answer', status: 500, body: errorBody('internal_error', 'a fault of this run') }),
  onSome('answers 502 with a page', { kind: 'answer', status: 502, body: '<h1>Bad', contentType: 'text/html' }),
  onSome('answers 503', { kind: 'unavailable' }),
  onSome('sheds load', { kind: 'answer', status: 503, body: errorBody('overloaded', 'a fault of this run') }),
  onSome('answers 429', { kind: 'answer', status: 429, body: 'slow down', contentType: 'text/plain' }),
  onSome('answers 200 with a page', { kind: 'html' }),
  onSome('cuts bodies off', { kind: 'truncated body' }),
  onSome('answers 200 with half a JSON', { kind: 'answer', status: 200, body: '{"type":"0x1::a::B","data":{}' }),
  onSome('leaves the ledger headers out', { kind: 'no ledger headers' }),
  { ...onSome('reports another chain', { kind: 'wrong chain id', chainId: 99 }), isExclusive: true, shuns: true },
  {
    name: 'lags',
    begin({ node }, random) {
      node.clock.lag = BigInt(versionsPerSecond * (1 + random.below(5)));
    },
  },
  {
    name: 'prunes faster',
    leavesAble: true,
    begin({ node }, random) {
      if (node.clock.window !== undefined) node.clock.window = BigInt(4_000 + random.below(8_000));
    },
  },
  {
    name: 'comes back with an older head',
    async begin({ node, proxy }, random) {
      await proxy.refuse();
      node.clock.lag = BigInt(versionsPerSecond * (2 + random.below(6)));
      await sleep(200 + random.below(800));
      await proxy.accept();
    },
  },
  { ...mangled('reports a head far ahead', { 'ledger-version': (value) => `${value}00` }), isExclusive: true },
  mangled('reports a head beyond all numbers', { 'ledger-version': () => '9'.repeat(40) }),
  mangled('reports an oldest version above its head', { 'ledger-oldest-version': (value) => `9${value}999999` }),
  mangled('reports invalid numbers', { epoch: () => '-1', 'block-height': () => 'NaN' }),
  mangled('sends every header twice', { 'ledger-version': (value) => `${value}\r\nX-Node-Ledger-Version: 7` }),
  {
    name: 'announces more than it sends',
    begin: (node, random) => {
      node.proxy.mangle = sometimes(random, (head) =>
        head.replace(/^(content-length: )(\d+)/im, (_, name: string, length: string) => name + (Number(length) + 10)),
      );
    },
  },
];

function isRead({ route }: Parameters<NonNullable<FaultLimits['when']>>[0]): boolean {
  return route !== 'ledgerInfo' && route !== 'healthy';
}

/** For a share of the requests, at least a fifth of them. */
function onSome(name: string, fault: SampleFault): NodeFault {
  return {
    name,
    begin({ node }, random) {
      const share = 20 + random.below(81);
      node.faults.add(fault, { when: () => random.below(100) < share });
    },
  };
}

/** `headers` by their names without `X-Node-`. */
function mangled(name: string, headers: Readonly<Record<string, (value: string) => string>>): NodeFault {
  return {
    name,
    begin({ proxy }, random) {
      proxy.mangle = sometimes(random, (head) =>
        head.replace(/^(x-node-)([\w-]+): (\d+)$/gim, (line, prefix: string, header: string, value: string) => {
          const change = headers[header.toLowerCase()];
          return change === undefined ? line : `${prefix}${header}: ${change(value)}`;
        }),
      );
    },
  };
}

function sometimes(random: Random, mangle: Mangle): Mangle {
  const share = 30 + random.below(71);
  return (head) => (random.below(100) < share ? mangle(head) : head);
}
