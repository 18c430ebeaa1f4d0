/** Answers of every content: texts there, not there or empty, bodies on both sides of each bound of memory and records. */
import { type CachedResponse, smallestCompressed } from '../../src/cache/record.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { answerOf } from './answers.ts';
import { fc } from './fast-check.ts';

const text = fc.oneof(fc.string({ maxLength: 20, unit: 'grapheme' }), fc.constantFrom('', '-'));

export const anyAnswer: fc.Arbitrary<CachedResponse> = fc
  .record({
    status: fc.integer({ min: 100, max: 999 }),
    contentType: fc.oneof(fc.constantFrom('application/json', 'application/x-bcs'), fc.string({ unit: 'grapheme' })),
    body: fc.oneof(
      fc.uint8Array({ maxLength: 800 }),
      fc.uint8Array({ minLength: 16_000, maxLength: 17_000 }),
      fc.string({ minLength: 1, maxLength: 40 }).map((part) => Buffer.from(part.repeat(smallestCompressed))),
    ),
    gasUsed: fc.option(fc.oneof(text, fc.nat().map(String)), { nil: undefined }),
    cursor: fc.option(fc.oneof(text, fc.string({ minLength: 250, maxLength: 260 })), { nil: undefined }),
    ownHeaders: fc.option(fc.constantFrom('a: ', 'b: 1', 'trace: a b\tyield: 7', `long: ${'x'.repeat(4_000)}`), {
      nil: undefined,
    }),
    committedAt: fc.option(
      fc.bigInt(0n, 2n ** 64n - 1n).map((version) => LedgerVersion.of(version)),
      { nil: undefined },
    ),
    lifetimeMs: fc.constantFrom(600_000, Infinity),
  })
  .map(({ body, ...content }) => answerOf('', { ...content, body: Buffer.from(body) }));
