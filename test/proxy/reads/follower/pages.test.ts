// Pages come of believed nodes, end at the believed head, and name why there is none.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { JsonBody } from '../../../../src/ledger/answer-body.ts';
import { GatewayError } from '../../../../src/ledger/errors.ts';
import { createPageProof, type PageMismatch } from '../../../../src/proxy/reads/follower/page-proof.ts';
import { pageReader } from '../../../../src/proxy/reads/follower/page-reader.ts';
import {
  LargeAnswerError,
  UnreachedError,
  type FleetRequest,
} from '../../../../src/upstream/dispatch/fleet-request.ts';
import { until } from '../../../support/eventually.ts';
import { ledgerInfo } from '../../../support/ledger-info.ts';
import { countsIn } from '../../../support/metric-counts.ts';
import { answerOf, hashOf, listOf, v, pageOf, transactionOf } from '../../../support/pages.ts';
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

// Transactions of pages are compared with their own answers of the same node; the first confirmed difference ends it.

interface Said {
  readonly status?: number;
  readonly body?: string;
  readonly contentType?: string;
  readonly ownHeaders?: string;
}

type Answers = (path: string, version: number) => Said | 'no node' | Promise<Said>;

/** A proof of a page of three transactions from 10 on, with a node that answers so. */
async function proofOf(answers: Answers, share = 1) {
  const asked: string[] = [];
  const mismatches: PageMismatch[] = [];
  const one = { name: 'one' };
  const answer = ({ status = 200, body = '', contentType = 'application/json', ownHeaders }: Said) => {
    const headers = { 'content-type': contentType };
    return answerOf(body, { status, headers, upstream: one, ownHeaders, json: new JsonBody(Buffer.from(body)) });
  };
  const fleet = {
    upstreams: [one, { name: 'two' }],
    ownHeadersOf: ({ ownHeaders }: { readonly ownHeaders: string | undefined }) => ownHeaders,
    sender: {
      waiting: 0,
      another: async ({ wire, need }: FleetRequest, notOf: readonly { readonly name: string }[]) => {
        assert.deepEqual(
          notOf.map(({ name }) => name),
          ['two'],
        );
        asked.push(wire.path);
        const said = await answers(wire.path, Number((need as { version: bigint }).version));
        return said === 'no node' ? said : answer(said);
      },
    },
  };
  const registry = new Registry();
  const tail = { isDistrusted: false, distrust: () => void (tail.isDistrusted = true) };
  const report = (mismatch: PageMismatch): void => void mismatches.push(mismatch);
  const proof = createPageProof(fleet as never, tail, { share }, registry, report);
  const page = await pageOf(10, 13);
  const counts = () => countsIn(registry, 'ledgergate_follower_checks_total');
  const checked = (result: string, count: number) => until(async () => ((await counts())[result] ?? 0) >= count);
  return { proof, tail, page, fleet, asked, mismatches, counts, checked };
}

/** As pages have it, whatever the path. */
const honest: Answers = (path, version) => ({
  body: path.includes('start=') ? `[${transactionOf(version)}]` : transactionOf(version),
});
/** Another body for one path; the rest is honest. */
const but =
  (part: string, said: Said | 'no node'): Answers =>
  (path, version) =>
    path.includes(part) ? said : honest(path, version);

test('each new transaction is asked for by version and by hash, of the node of its page', async () => {
  const { proof, page, asked, mismatches, checked, counts } = await proofOf(honest);
  proof.consider(page, 2, false);
  await checked('equal', 2);
  const paths = [11, 12].flatMap((version) => [
    `/transactions/by_version/${version}`,
    `/transactions/by_hash/${hashOf(version)}`,
  ]);
  assert.deepEqual([asked.toSorted(), mismatches, await counts()], [paths.toSorted(), [], { equal: 2 }]);
});

test('the last transaction of the first page is always compared, others by their share', async () => {
  const { proof, page, asked, checked } = await proofOf(honest, 1e-12);
  proof.consider(page, 3, true);
  await checked('equal', 1);
  proof.consider(page, 3, false);
  assert.equal(asked.length, 2);
});

test('a share of 0 turns it off', async () => {
  const { proof, page, asked } = await proofOf(honest, 0);
  proof.consider(page, 3, true);
  assert.deepEqual(asked, []);
});

const differences: readonly (readonly [string, Answers, PageMismatch['route']])[] = [
  ['a byte', but('by_version', { body: `${transactionOf(12)} ` }), 'by_version'],
  ['the type', but('by_hash', { body: transactionOf(12), contentType: 'application/json; charset=utf-8' }), 'by_hash'],
  ['a header of its own', but('by_version', { body: transactionOf(12), ownHeaders: 'x-a: b' }), 'by_version'],
];

for (const [what, answers, route] of differences)
  test(`${what} that differs, and stays, is reported once`, async () => {
    const { proof, page, asked, mismatches, checked } = await proofOf(answers);
    proof.consider(page, 1, false);
    await checked('mismatch', 1);
    assert.deepEqual(mismatches, [{ upstream: 'one', version: 12n, route }]);
    assert.ok(asked.includes('/transactions?start=12&limit=1'));
    const { length } = asked;
    proof.consider(page, 3, true);
    assert.equal(asked.length, length);
  });

test('a difference that the next page shows as well is that of an upgraded module', async () => {
  const upgraded = transactionOf(12).replace('{', '{"now":1,');
  const answers: Answers = (path) => ({ body: path.includes('start=') ? `[${upgraded}]` : upgraded });
  const { proof, page, mismatches, checked } = await proofOf(answers);
  proof.consider(page, 1, false);
  await checked('inconclusive', 1);
  assert.deepEqual(mismatches, []);
});

const inconclusive: readonly (readonly [string, Answers])[] = [
  ['no node', but('by_', 'no node')],
  ['an error', but('by_hash', { status: 404, body: '{}' })],
  ['a pending transaction', but('by_hash', { body: '{"type":"pending_transaction"}' })],
  ['a difference without a second page', (path) => ({ body: path.includes('start=') ? '[]' : '{}' })],
  ['a failure', () => Promise.reject(new Error('cut off'))],
];

for (const [what, answers] of inconclusive)
  test(`${what} proves nothing`, async () => {
    const { proof, page, mismatches, counts, checked } = await proofOf(answers);
    proof.consider(page, 1, false);
    await checked('inconclusive', 1);
    assert.deepEqual([mismatches, await counts()], [[], { inconclusive: 1 }]);
  });

test('four are in flight at most, and none while clients wait for a node', async () => {
  const { promise: held, resolve: release } = Promise.withResolvers<undefined>();
  const { proof, page, fleet, counts, checked } = await proofOf((path, version) =>
    held.then(() => honest(path, version) as Said),
  );
  proof.consider(page, 3, false);
  proof.consider(page, 3, false);
  assert.deepEqual(await counts(), { skipped: 2 });
  release(undefined);
  await checked('equal', 4);
  fleet.sender.waiting = 1;
  proof.consider(page, 3, false);
  assert.deepEqual(await counts(), { skipped: 5, equal: 4 });
});

test('a difference at another process ends the checks here', async () => {
  const { proof, tail, page, asked } = await proofOf(honest);
  tail.distrust();
  proof.consider(page, 3, true);
  assert.deepEqual(asked, []);
});
