// Transactions of pages are compared with their own answers of the same node; the first confirmed difference ends it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { JsonBody } from '../../../../src/ledger/answer-body.ts';
import { createPageProof, type PageMismatch } from '../../../../src/proxy/reads/follower/page-proof.ts';
import type { FleetRequest } from '../../../../src/upstream/dispatch/fleet-request.ts';
import { until } from '../../../support/eventually.ts';
import { countsIn } from '../../../support/metric-counts.ts';
import { answerOf, hashOf, pageOf, transactionOf } from '../../../support/pages.ts';

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
