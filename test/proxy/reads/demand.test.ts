/** Demands of clients on the age and the version of "latest". */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { parseDemand } from '../../../src/proxy/reads/demand.ts';

const limits = { minClientStalenessMs: 50, maxClientStalenessMs: 120_000 };
const unlimited = { ...limits, minClientStalenessMs: 0 };

const bounds: readonly (readonly [text: string, expectedMs: number])[] = [
  ['0', 0],
  ['0000', 0],
  ['0s', 0],
  ['1ms', 1],
  [' 200ms ', 200],
  ['2s', 2_000],
  ['1m', 60_000],
  ['3m', 120_000],
  ['999999999m', 120_000],
];

for (const [text, expectedMs] of bounds) {
  test(`Ledgergate-Max-Staleness ${JSON.stringify(text)} is a bound of ${expectedMs} ms`, () => {
    const demand = parseDemand({ 'ledgergate-max-staleness': text }, unlimited, 200, undefined);
    assert.deepEqual(demand, { maxStalenessMs: expectedMs, min: undefined, floor: undefined });
  });
}

test("the bound of a client stays within the config's limits, and the usual bound holds without one", () => {
  const boundsMs = ['0', '49ms', '51ms', '119s', '121s'].map(
    (text) => parseDemand({ 'ledgergate-max-staleness': text }, limits, 200, undefined).maxStalenessMs,
  );
  assert.deepEqual(boundsMs, [50, 50, 51, 119_000, 120_000]);
  assert.equal(parseDemand({}, limits, 1, undefined).maxStalenessMs, 1);
});

for (const text of ['', ' ', '5', 'ms', '-1s', '1.5s', '1 s', '2S', '1h', '2s;', 'x2s', '1000000000s', '0, 0']) {
  test(`Ledgergate-Max-Staleness ${JSON.stringify(text)} is refused with 400, and named`, () => {
    assert.throws(() => parseDemand({ 'ledgergate-max-staleness': text }, limits, 200, undefined), {
      status: 400,
      message: `Ledgergate-Max-Staleness is no duration such as 200ms or 2s: ${JSON.stringify(text)}`,
    });
  });
}

test('the least version is the newer of that of the client and of its connection', () => {
  const least = [undefined, '0', '899', '900', '901', '18446744073709551615'].map((text) => {
    const headers = text === undefined ? {} : { 'ledgergate-min-version': text };
    return [undefined, LedgerVersion.of(900n)].map((seen) => parseDemand(headers, limits, 200, seen).min);
  });
  assert.deepEqual(least, [
    [undefined, 900n],
    [0n, 900n],
    [899n, 900n],
    [900n, 900n],
    [901n, 901n],
    [2n ** 64n - 1n, 2n ** 64n - 1n],
  ]);
});

for (const text of ['', '-1', '0x10', '18446744073709551616', '5, 6']) {
  test(`Ledgergate-Min-Version ${JSON.stringify(text)} is refused with 400, and named`, () => {
    assert.throws(() => parseDemand({ 'ledgergate-min-version': text }, limits, 200, LedgerVersion.of(5n)), {
      status: 400,
      message: `Ledgergate-Min-Version is not a u64: ${JSON.stringify(text)}`,
    });
  });
}
