// Pages come of believed nodes, end at the believed head, and name why there is none.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError } from '../../../../src/ledger/errors.ts';
import { pageReader } from '../../../../src/proxy/reads/follower/page-reader.ts';
import {
  LargeAnswerError,
  UnreachedError,
  type FleetRequest,
} from '../../../../src/upstream/dispatch/fleet-request.ts';
import { ledgerInfo } from '../../../support/ledger-info.ts';
import { answerOf, hashOf, listOf, v } from '../../../support/pages.ts';
import { never } from '../../../support/sender.ts';

interface Node {
  readonly name: string;
  readonly history?: string;
  readonly isTrusted?: boolean;
  readonly isSuspect?: boolean;
  readonly forkedAt?: bigint;
  readonly chain?: { readonly doubted: number | undefined };
  readonly head?: number;
  readonly error?: Error;
  readonly body?: string;
  readonly status?: number;
}

const sound = {
  isTrusted: true,
  isSuspect: false,
  forkedAt: undefined,
  chain: { doubted: undefined },
  history: '',
  head: 1_000,
};

/** A reader of `nodes`, of which requests get the first one, and repeats another. */
function readerOf(nodes: readonly Node[], { head = 1_000, onAnswer = (): void => undefined } = {}) {
  const upstreams = nodes.map((node) => ({ ...sound, ...node }));
  const asked: string[] = [];
  const answer = (upstream: (typeof upstreams)[number], { wire }: FleetRequest) => {
    asked.push(`${upstream.name} ${wire.path}`);
    if (upstream.error !== undefined) throw upstream.error;
    const [, start = '', limit = ''] = /start=(\d+)&limit=(\d+)/.exec(wire.path) ?? [];
    const count = Math.min(Number(limit), upstream.head - Number(start) + 1);
    onAnswer();
    const body = upstream.body ?? listOf(Number(start), Number(start) + count, { history: upstream.history });
    const info = ledgerInfo({ version: BigInt(upstream.head) });
    return answerOf(body, { status: upstream.status ?? 200, info, upstream });
  };
  const fleet = {
    head: ledgerInfo({ version: BigInt(head) }),
    upstreams,
    ownHeadersOf: () => undefined,
    sender: {
      whole: async (request: FleetRequest) => answer(upstreams[0] as never, request),
      another: async (request: FleetRequest, notOf: readonly object[]) => {
        const other = upstreams.find((node) => !notOf.includes(node));
        return other === undefined ? 'no node' : answer(other, request);
      },
    },
  };
  const tiers = { purges: 0 };
  const readPage = pageReader(fleet as never, tiers);
  const read = async (first: number, limit = 100, known?: string) => {
    const page = await readPage(v(first), limit, known, never);
    if (typeof page === 'string') return page;
    const { first: from, hashes, ranges, upstream } = page;
    assert.equal(ranges.length, 2 * hashes.length);
    assert.equal(ranges.buffer.byteLength, ranges.byteLength);
    return `${from}+${hashes.length} of ${upstream}`;
  };
  return { read, asked, tiers };
}

test('a page has what its node has, up to the believed head', async () => {
  assert.equal(await readerOf([{ name: 'one' }]).read(950), '950+51 of one');
  assert.equal(await readerOf([{ name: 'one' }], { head: 960 }).read(950), '950+11 of one');
  assert.equal(await readerOf([{ name: 'one' }], { head: 940 }).read(950), 'not reached');
  assert.equal(await readerOf([{ name: 'one', head: 5_000 }]).read(950), '950+51 of one');
});

const other = { name: 'other' };
const disbelieved: Readonly<Record<string, Node>> = {
  'on a fork from a version of the page on': { name: 'one', forkedAt: 970n },
  suspect: { name: 'one', isSuspect: true },
  'of a doubted chain': { name: 'one', chain: { doubted: 2 } },
};

for (const [how, node] of Object.entries(disbelieved))
  test(`a page of a node that is ${how} is not taken: another node is asked`, async () => {
    const { read, asked } = readerOf([node, other]);
    assert.equal(await read(950), '950+51 of other');
    assert.deepEqual(asked, ['one /transactions?start=950&limit=100', 'other /transactions?start=950&limit=100']);
    assert.equal(await readerOf([node]).read(950), 'not believed');
    assert.equal(await readerOf([node, { ...node, name: 'two' }]).read(950), 'not believed');
  });

test('a page that cannot be cut is not taken: another node is asked', async () => {
  const unread = { name: 'one', body: '[{"version":"951"}]' };
  const { read, asked } = readerOf([unread, other]);
  assert.equal(await read(950), '950+51 of other');
  assert.equal(asked.length, 2);
  assert.equal(await readerOf([unread]).read(950), 'unreadable');
  assert.equal(await readerOf([unread, { name: 'two', status: 404, body: '{}' }]).read(950), 'unreadable');
});

test('below a fork, a page of its node is as good as any', async () => {
  assert.equal(await readerOf([{ name: 'one', forkedAt: 970n }, other]).read(960, 10), '960+10 of one');
});

test('a page that contradicts the known hash is not taken: another node is asked', async () => {
  const forked = { name: 'one', history: 'fork' };
  assert.equal(await readerOf([forked, other]).read(950, 100, hashOf(950)), '950+51 of other');
  assert.equal(await readerOf([forked]).read(950, 100, hashOf(950)), 'other history');
  assert.equal(await readerOf([forked, { ...forked, name: 'two' }]).read(950, 9, hashOf(950)), 'other history');
  assert.equal(await readerOf([forked]).read(950, 100), '950+51 of one');
});

test('after a purge, or with it a new generation, in between, there is no page', async () => {
  const purged = readerOf([{ name: 'one' }], { onAnswer: () => (purged.tiers.purges += 1) });
  assert.equal(await purged.read(950), 'not believed');
});

const failures: readonly (readonly [Partial<Node>, string])[] = [
  [{ error: new LargeAnswerError() }, 'too large'],
  [{ error: new UnreachedError(v(950)) }, 'not reached'],
  [{ error: new GatewayError('unavailable', 'no node', { reason: 'no node' }) }, 'failed'],
  [{ status: 404, body: '{}' }, 'failed'],
  [{ body: ' '.repeat(8 * 1024 * 1024 + 1) }, 'too large'],
];

test('without a page there is its reason', async () => {
  for (const [node, reason] of failures)
    assert.equal(await readerOf([{ name: 'one', ...node }, other]).read(950), reason);
});

test('a version that no trusted node has reached is not asked for', async () => {
  const ahead = { name: 'one', isTrusted: false };
  const { read, asked } = readerOf([ahead, { ...other, head: 949 }]);
  assert.equal(await read(950), 'not reached');
  assert.deepEqual(asked, []);
  assert.equal(await read(949), '949+52 of one');
});

test('a fault of the gateway itself is not hidden', async () => {
  await assert.rejects(readerOf([{ name: 'one', error: new TypeError('a bug') }]).read(950), TypeError);
});
