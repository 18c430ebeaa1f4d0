import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sha3_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { signingPrefixes } from '../../src/encode/transaction.ts';

test('the prefixes of the domain APTOS are the published ones (protocol 5.7)', () => {
  const { plain, withData } = signingPrefixes('APTOS');
  assert.equal(bytesToHex(plain), 'b5e97db07fa0bd0e5598aa3643a9bc6f6693bddc1a9fec9e674a461eaa00b193');
  assert.equal(bytesToHex(withData), '5efa3c4f02f83a0f4b2d69fc95c607cc02825cc4e7be536ef0992df050d9e67c');
});

test('the prefixes of any domain are what @noble/hashes makes of it', () => {
  for (const domain of ['APTOS', 'NODE', '', 'a domain: 漢字', 'x'.repeat(300)]) {
    const { plain, withData } = signingPrefixes(domain);
    assert.deepEqual(new Uint8Array(plain), sha3_256(utf8ToBytes(`${domain}::RawTransaction`)));
    assert.deepEqual(new Uint8Array(withData), sha3_256(utf8ToBytes(`${domain}::RawTransactionWithData`)));
  }
});
