// Pages are cut at the bytes that nodes sent, and the ring holds one history without gaps.
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import type { LedgerVersion } from '../../../../src/ledger/index.ts';
import { eventFrame } from '../../../../src/proxy/reads/push.ts';
import { cutPage, factsOf } from '../../../../src/proxy/reads/follower/page.ts';
import { Tail } from '../../../../src/proxy/reads/follower/tail.ts';
import { fc } from '../../../support/fast-check.ts';
import { ledgerInfo } from '../../../support/ledger-info.ts';
import { answerOf, hashOf, pageOf, transactionOf, v } from '../../../support/pages.ts';

const time = { ms: 0 };
mock.method(performance, 'now', () => time.ms);

/** A tail at its beginning. */
function emptyTail(maxBytes = 1_000_000) {
  const fleet = { generation: 1, head: ledgerInfo({ version: 1_000n }) };
  const tiers = { purges: 0 };
  time.ms = 0;
  const tail = new Tail(fleet, tiers, () => maxBytes);
  const news: string[] = [];
  tail.listeners.add({
    onPage: ({ first, hashes }) => news.push(`page ${first}+${hashes.length}`),
    onRollback: (version) => news.push(`rollback ${version}`),
    onDistrusted: () => news.push('distrusted'),
  });
  return { tail, fleet, tiers, news };
}

const byVersion = (version: number) => ({ operation: 'by_version', subject: '', version: v(version) }) as const;
const byHash = (version: bigint, history?: string) =>
  ({ operation: 'transaction', subject: hashOf(version, history), version: undefined }) as const;
const list = (first: bigint) =>
  ({ operation: 'transactions', subject: '', version: undefined, extent: { kind: 'list', first, limit: 9 } }) as const;
const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\t', '\r'), maxLength: 3 });

test('each item is cut at its own bytes, whatever stands around and in it', async () => {
  const member = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue({ stringUnit: 'binary' }));
  const item = fc.record({ member, indent: fc.constantFrom(undefined, 2, '\t'), before: space, after: space });
  await fc.assert(
    fc.asyncProperty(
      fc.array(item, { minLength: 1, maxLength: 12 }),
      fc.bigInt(0n, 2n ** 63n),
      async (items, first) => {
        const texts = items.map(({ member: { version, hash: own, ...rest }, indent }, index) => {
          const facts = { version: String(first + BigInt(index)), hash: hashOf(BigInt(index)) };
          return JSON.stringify({ ...rest, version_of: version, own, ...facts }, undefined, indent);
        });
        const body = `[${texts.map((text, index) => `${items[index]?.before}${text}${items[index]?.after}`).join()}]`;

        const page = await cutPage(answerOf(body), first as LedgerVersion, undefined);

        assert.ok(page);
        const cut = texts.map((_, index) =>
          page.body.toString('utf8', page.ranges[2 * index], page.ranges[2 * index + 1]),
        );
        assert.deepEqual(cut, texts);
        assert.deepEqual(
          page.hashes,
          texts.map((_, index) => hashOf(BigInt(index))),
        );
      },
    ),
  );
});

test('a page that was cut off anywhere is refused', async () => {
  const body = `[${transactionOf(7n, { note: 'a"\\]}' })},${transactionOf(8n)}]`;

  for (let end = 0; end < body.length; end += 1) {
    assert.equal(await cutPage(answerOf(body.slice(0, end)), v(7), undefined), undefined, body.slice(0, end));
  }
  assert.ok(await cutPage(answerOf(body), v(7), undefined));
});

const one = `[${transactionOf(7n)}]`;
const refused: Readonly<Record<string, Parameters<typeof cutPage>[0]>> = {
  'of other versions': answerOf(`[${transactionOf(8n)}]`),
  'with a gap': answerOf(`[${transactionOf(7n)},${transactionOf(9n)}]`),
  'with a version as a number': answerOf(`[{"version":7,"hash":"${hashOf(7n)}"}]`),
  'without a hash': answerOf('[{"version":"7"}]'),
  'with a hash of another form': answerOf(`[{"version":"7","hash":"${hashOf(7n).toUpperCase()}"}]`),
  'without items': answerOf('[]'),
  'of other items': answerOf(`["7",${transactionOf(7n)}]`),
  'of lists': answerOf(`[["version","7"]]`),
  'that is an object': answerOf(transactionOf(7n)),
  'with an error': answerOf(one, { status: 404 }),
  'without ledger headers': answerOf(one, { info: undefined }),
  'in a coding': answerOf(one, { coding: 'gzip' }),
  'of an open length': answerOf(one, { isFramed: false }),
  'in BCS': answerOf(one, { headers: { 'content-type': 'application/x-bcs' } }),
};

for (const [what, answer] of Object.entries(refused)) {
  test(`an answer ${what} is no page`, async () => {
    assert.equal(await cutPage(answer, v(7), undefined), undefined);
  });
}

test('a page may end with the last version that there is', async () => {
  const { tail, news } = emptyTail();
  const last = 2n ** 64n - 1n;
  const page = await cutPage(answerOf(`[${transactionOf(last - 1n)},${transactionOf(last)}]`), v(last - 1n), undefined);
  tail.take(page ?? assert.fail('it is no page'));
  assert.deepEqual([tail.hashOf(last), news], [hashOf(last), [`page ${last - 1n}+2`]]);
});

test('overlapping pages become one history, and are found by version and by hash', async () => {
  const { tail, news } = emptyTail();

  tail.take(await pageOf(10, 14));
  tail.take(await pageOf(13, 16));
  tail.take(await pageOf(12, 15));

  assert.equal(tail.next, 16n);
  assert.deepEqual(news, ['page 10+4', 'page 13+3']);
  for (let version = 10; version < 16; version += 1) {
    const expected = transactionOf(BigInt(version));
    assert.equal(tail.find(byVersion(version))?.body.toString(), expected);
    assert.equal(tail.find(byHash(BigInt(version)))?.body.toString(), expected);
    assert.equal(tail.hashOf(v(version)), hashOf(BigInt(version)));
  }
  assert.equal(tail.find(byVersion(9)), undefined);
  assert.equal(tail.find(byVersion(16)), undefined);
  assert.equal(tail.find(byHash(16n)), undefined);
});

test('a page behind a gap begins anew', async () => {
  const { tail } = emptyTail();
  tail.take(await pageOf(10, 14));

  tail.take(await pageOf(15, 17));

  assert.equal(tail.next, 17n);
  assert.equal(tail.find(byHash(12n)), undefined);
  assert.equal(tail.frames(v(12), v(16)), undefined);
  assert.equal(tail.frames(v(15), v(17))?.events, 2);
});

test('a page that contradicts a known hash is refused, and is no sign of life', async () => {
  const { tail, news } = emptyTail();
  tail.take(await pageOf(10, 14));
  time.ms = 3_000;

  tail.take(await pageOf(13, 16, { history: 'other' }));

  assert.deepEqual([tail.next, tail.isCurrent, news.length], [14n, false, 1]);
});

test('it is current for 2 s after each page, also after one without news', async () => {
  const { tail } = emptyTail();
  const page = await pageOf(10, 14);

  const isCurrentAt = (ms: number): boolean => {
    time.ms = ms;
    return tail.isCurrent;
  };
  assert.equal(isCurrentAt(0), false);
  tail.take(page);
  assert.deepEqual([isCurrentAt(1_999), isCurrentAt(2_000)], [true, false]);
  tail.take(page);
  assert.deepEqual([isCurrentAt(3_999), isCurrentAt(4_000)], [true, false]);
});

test('the oldest page leaves when all take more than their share; hashes stay longer', async () => {
  const page = await pageOf(10, 20);
  const bytes = page.body.length + 10 * 200;
  const { tail } = emptyTail(2 * bytes);

  tail.take(page);
  tail.take(await pageOf(20, 30));
  assert.equal(tail.find(byHash(10n))?.version, 10n);
  tail.take(await pageOf(30, 40));

  assert.equal(tail.find(byHash(10n)), undefined);
  assert.equal(tail.frames(v(19), v(40)), undefined);
  assert.equal(tail.frames(v(20), v(40))?.events, 20);
  assert.equal(tail.hashOf(v(10)), hashOf(10n));
});

test('hashes of at least 2,000 versions are known, and of a bounded number', async () => {
  const { tail } = emptyTail(1);

  for (let first = 0; first < 6_000; first += 500) tail.take(await pageOf(first, first + 500));

  assert.equal(tail.hashOf(v(4_000)), hashOf(4_000n));
  assert.equal(tail.hashOf(v(5_999)), hashOf(5_999n));
  assert.equal(tail.hashOf(v(6_000)), undefined);
  assert.equal(tail.hashOf(v(1_000)), undefined);
});

test('a rollback drops what comes behind it, and the next page joins there', async () => {
  const { tail, news } = emptyTail();
  tail.take(await pageOf(10, 14));
  tail.take(await pageOf(14, 18));

  time.ms = 7;
  tail.rollBack(v(16));

  assert.deepEqual([tail.next, tail.sinceMs], [16n, 7]);
  assert.deepEqual(
    [tail.find(byVersion(15))?.version, tail.find(byVersion(16)), tail.find(byHash(16n))],
    [15n, undefined, undefined],
  );
  assert.equal(tail.frames(v(10), v(17)), undefined);
  tail.take(await pageOf(16, 19, { history: 'other' }));
  assert.deepEqual(news, ['page 10+4', 'page 14+4', 'rollback 16', 'page 16+3']);
  assert.equal(tail.find(byHash(16n, 'other'))?.version, 16n);
  assert.equal(tail.find(byHash(16n)), undefined);
  assert.equal(tail.frames(v(10), v(19))?.events, 9);
  tail.rollBack(v(3));
  assert.deepEqual([tail.next, tail.hashOf(v(10)), tail.find(byVersion(10))], [3n, undefined, undefined]);
});

test('in another generation nothing is given or taken until the history was compared', async () => {
  const { tail, fleet, tiers, news } = emptyTail();
  tail.take(await pageOf(10, 14));

  fleet.generation += 1;
  tiers.purges += 1;
  tail.take(await pageOf(14, 15));

  assert.deepEqual([tail.isChecking, tail.isCurrent, tail.next], [true, false, 14n]);
  assert.deepEqual([tail.find(byVersion(12)), tail.frames(v(10), v(12))], [undefined, undefined]);
  assert.equal(tail.hashOf(v(12)), hashOf(12n));
  tail.rollBack(v(12));
  assert.deepEqual([tail.isChecking, tail.next, tail.find(byVersion(11))], [false, 12n, undefined]);
  tail.take(await pageOf(11, 14, { history: 'other' }));
  assert.equal(tail.next, 12n, 'its overlap is of another history');
  tail.take(await pageOf(12, 14, { history: 'other' }));
  assert.deepEqual(news, ['page 10+4', 'rollback 12', 'page 12+2']);
});

test('in doubt nothing is given or taken either, and what proves right is given again', async () => {
  const { tail } = emptyTail();
  tail.take(await pageOf(10, 14));

  tail.doubt();
  tail.take(await pageOf(14, 15));

  assert.deepEqual([tail.next, tail.isChecking, tail.find(byVersion(12))], [14n, true, undefined]);
  tail.rollBack(v(14));
  assert.deepEqual([tail.isChecking, tail.find(byVersion(12))?.version], [false, 12n]);
});

test('a purge drops what was read before it', async () => {
  const { tail, tiers } = emptyTail();
  tail.take(await pageOf(10, 14));

  tiers.purges += 1;

  assert.deepEqual([tail.find(byVersion(12)), tail.frames(v(12), v(13)), tail.next], [undefined, undefined, 14n]);
  tail.take(await pageOf(13, 16));
  assert.equal(tail.frames(v(14), v(16))?.events, 2);
});

test('once a page is distrusted, it stays empty', async () => {
  const { tail, news } = emptyTail();
  tail.take(await pageOf(10, 14));

  tail.distrust();
  tail.distrust();
  tail.take(await pageOf(14, 15));

  assert.deepEqual(
    [tail.isDistrusted, tail.isCurrent, tail.next, tail.find(byVersion(12))],
    [true, false, undefined, undefined],
  );
  assert.deepEqual(news, ['page 10+4', 'distrusted']);
});

test('a minute after the last page it is empty', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { tail } = emptyTail();
  const page = await pageOf(10, 14);
  tail.take(page);

  t.mock.timers.tick(59_000);
  tail.take(page);
  t.mock.timers.tick(59_000);
  assert.equal(tail.next, 14n);
  t.mock.timers.tick(1_000);

  assert.deepEqual([tail.next, tail.hashOf(v(12)), tail.find(byVersion(12))], [undefined, undefined, undefined]);
});

test('reads of recent transactions are counted, others are not', () => {
  const { tail, fleet } = emptyTail();
  fleet.head = ledgerInfo({ version: 50_000n });

  for (const read of [byHash(1n), byVersion(40_001), byVersion(40_000), list(49_000n), list(7n)]) tail.find(read);

  assert.deepEqual([tail.takeFinds(), tail.takeFinds()], [3, 0]);

  for (const version of [40_001, 40_000]) {
    tail.find(byHash(1n));
    tail.recordCommitted(v(version));
  }
  assert.equal(tail.takeFinds(), 1);
});

test('nothing above the believed head is found, and nothing that is too large to be read at once', async () => {
  const { tail, fleet } = emptyTail();
  tail.take(await pageOf(10, 14));
  tail.take(await pageOf(14, 16, { note: 'x'.repeat(70_000) }));

  fleet.head = ledgerInfo({ version: 11n });
  assert.deepEqual([tail.find(byVersion(11))?.version, tail.find(byHash(12n))], [11n, undefined]);
  fleet.head = ledgerInfo({ version: 20n });
  assert.deepEqual([tail.find(byHash(12n))?.version, tail.find(byHash(15n))], [12n, undefined]);
  assert.equal(tail.frames(v(13), v(16))?.events, 3);
});

test('a transaction is found for a minute, and framed for ten: later, nodes may write it otherwise', async () => {
  const { tail } = emptyTail();
  const [page, next] = [await pageOf(10, 14), await pageOf(13, 16)];
  const at = (ms: number) => {
    time.ms = ms;
    return [tail.find(byVersion(12))?.ageMs, tail.frames(v(12), v(13))?.events];
  };
  tail.take(page);

  assert.deepEqual(at(60_000), [60_000, 1]);
  assert.deepEqual(at(60_001), [undefined, 1]);
  tail.take(next);
  assert.deepEqual(at(599_999), [undefined, 1]);
  tail.take(next);
  assert.deepEqual(at(600_000), [undefined, 1]);
  tail.take(next);
  assert.deepEqual(at(600_000), [undefined, undefined]);
  assert.deepEqual([tail.frames(v(14), v(16))?.events, tail.hashOf(v(12))], [2, hashOf(12n)]);
});

test('frames carry the bytes of each transaction, across pages', async () => {
  const { tail } = emptyTail();
  tail.take(await pageOf(10, 12));
  tail.take(await pageOf(11, 14));

  const { frames, events } = tail.frames(v(11), v(13)) ?? assert.fail();

  const expected = [11n, 12n].map(
    (version) => `id: ${version}\nevent: transaction\ndata: ${transactionOf(version)}\n\n`,
  );
  assert.deepEqual([frames.toString(), events], [expected.join(''), 2]);
  assert.equal(eventFrame('transaction', v(11), Buffer.from(transactionOf(11n))).toString(), expected[0]);
  assert.deepEqual(tail.frames(v(14), v(14)), { frames: Buffer.alloc(0), events: 0 });
  assert.equal(tail.frames(v(13), v(15)), undefined);
});

test('line breaks between the parts of a transaction do not break its frame', async () => {
  const { tail } = emptyTail();
  const text = `{"version":"7",\r\n"hash":"${hashOf(7n)}","note":"é\\n"\n}`;
  const page = await cutPage(answerOf(`[${text}]`), v(7), undefined);
  assert.ok(page);
  tail.take(page);

  const { frames } = tail.frames(v(7), v(8)) ?? assert.fail();

  const lines = [`id: 7`, 'event: transaction', 'data: {"version":"7", ', `data: "hash":"${hashOf(7n)}","note":"é\\n"`];
  assert.equal(frames.toString(), `${[...lines, 'data: }'].join('\n')}\n\n`);
  assert.deepEqual(eventFrame('transaction', v(7), Buffer.from(text)), frames);
});

test('a filter lets transactions pass, whose facts are read once for all filters', async () => {
  const { tail } = emptyTail();
  const items = ['0x1', '0xb0b'].map((sender, index) => transactionOf(BigInt(7 + index), { sender }));
  tail.take((await cutPage(answerOf(`[${items.join()}]`), v(7), undefined)) ?? assert.fail());
  const seen = new Set<unknown>();
  const senderIs = (sender: string) => ({
    key: sender,
    matches: (facts: ReturnType<typeof factsOf>) => {
      seen.add(facts);
      return facts.sender === sender;
    },
  });

  const ofBob = tail.frames(v(7), v(9), senderIs('0xb0b'));
  const ofNone = tail.frames(v(7), v(9), senderIs('0x2'));

  assert.equal(ofBob?.frames.toString(), eventFrame('transaction', v(8), Buffer.from(items[1] ?? '')).toString());
  assert.deepEqual([ofBob?.events, ofNone], [1, { frames: Buffer.alloc(0), events: 0 }]);
  assert.equal(seen.size, 2);
});

const entry = { type: 'entry_function_payload', function: '0x0001::coin::transfer' };
const facts: readonly (readonly [string, object, ReturnType<typeof factsOf>])[] = [
  [
    'a user transaction',
    {
      sender: '0x000b0b',
      payload: entry,
      events: ['0x01::a::B<u8,0x02::c::D>', 'u64', '0x1::a::B<u8, 0x2::c::D>'].map((type) => ({ type })),
    },
    { sender: '0xb0b', function: '0x1::coin::transfer', events: ['0x1::a::B<u8, 0x2::c::D>', 'u64'] },
  ],
  [
    'a multisig',
    { sender: '0x1', payload: { type: 'multisig_payload', transaction_payload: entry } },
    { sender: '0x1', function: '0x1::coin::transfer', events: [] },
  ],
  [
    'a script',
    { sender: '0x1', payload: { code: {} }, events: [] },
    { sender: '0x1', function: undefined, events: [] },
  ],
  ['block metadata', { events: [{ data: {} }, { type: '?' }] }, { sender: undefined, function: undefined, events: [] }],
];

for (const [what, transaction, expected] of facts) {
  test(`the facts of ${what}`, () => {
    assert.deepEqual(factsOf(Buffer.from(JSON.stringify(transaction))), expected);
  });
}
