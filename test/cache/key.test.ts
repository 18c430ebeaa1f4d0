/** Keys and the versions that they are of. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cacheKey, keyOn, keyText, readText, versionOf, type KeyParts } from '../../src/cache/key.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';

const parts: Omit<KeyParts, 'version'> = { chainId: 4, operation: 'resource', subject: '0x1/0x1::a::B', form: 'json' };
const keyAt = (version: bigint | undefined) =>
  cacheKey({ ...parts, version: version === undefined ? undefined : LedgerVersion.of(version) });

test('a key names its read, the page of its version, and the slot on it', () => {
  const { page, slot, id } = keyAt(3n * 4096n + 5n);
  assert.deepEqual([page, slot], ['4|resource|0x1/0x1::a::B|json|3', 5]);
  assert.equal(keyText({ page, slot, id }), '4|resource|0x1/0x1::a::B|json|3@5');
  assert.deepEqual(keyOn(page, slot), { page, slot, id });
  assert.equal(page, `${readText(parts)}3`);
  assert.equal(id.length, 32);
});

test('a key contains its version, over the whole range', () => {
  for (const version of [0n, 1n, 4095n, 4096n, 4097n, 2n ** 53n + 1n, 2n ** 64n - 1n]) {
    assert.equal(versionOf(keyAt(version)), version);
  }
  assert.equal(versionOf(keyAt(undefined)), undefined);
});

test('a subject of 400 characters is kept as it is, a longer one as its digest', () => {
  const [kept, cut] = [400, 401].map((length) => readText({ ...parts, subject: 'x'.repeat(length) }));
  assert.equal(kept, `4|resource|${'x'.repeat(400)}|json|`);
  assert.match(cut ?? '', /^4\|resource\|sha256:[\w-]{43}\|json\|$/);
  assert.notEqual(cut, readText({ ...parts, subject: `${'x'.repeat(400)}y` }));
});
