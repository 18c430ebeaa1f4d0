/** The words of the field: addresses, types, versions, names. */
import assert from 'node:assert/strict';
import { findAbiType } from '../../src/encode/abi-type.ts';
import { Steps } from '../../src/encode/outcome.ts';
import { TransactionHash } from '../../src/ledger/transaction-hash.ts';
import { Address, FunctionId, TypeTag } from '../../src/ledger/type-tag.ts';
import { GatewayError } from '../../src/ledger/errors.ts';
import { findU64, LedgerVersion } from '../../src/ledger/version.ts';
import { fc } from '../support/fast-check.ts';
import { changed, soup } from './soup.ts';
import { attempt, fuzzTarget } from './target.ts';

export const isRefusal = (error: unknown): boolean => error instanceof GatewayError && error.status === 400;

const hex = soup('0', 'x', '0x', '0X', '1', 'a', 'F', 'g', '00000000', ' ', '-');
const coin = '0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin, vector<u8>>';
const tagWords = [...'0x1 0x :: : < > , u8 vector< vector signer a B _ $ T0 & |'.split(' '), ' ', '\t'];
const tags = fc.oneof(soup(...tagWords), changed(fc.constant(coin), ...tagWords));
const versions = soup('0', '1', '9', '+', '-', ' ', '0000', '18446744073709551615', '.', 'e', '_', '\n');

export const wordTargets = [
  fuzzTarget('address', hex, (text) => {
    const address = Address.find(text);
    assert.equal(
      attempt(() => Address.parse(text), isRefusal),
      address,
    );
    if (address === undefined) return;
    assert.equal(Address.find(address), address);
    assert.equal(Address.bytes(address).length, 32);
    assert.equal(BigInt(address), BigInt(`0x${text.replace(/^0x/, '')}`));
  }),
  fuzzTarget('transaction hash', fc.oneof(hex, fc.stringMatching(/^(0x)?[0-9a-fA-F]{63,65}$/)), (text) => {
    const hash = attempt(() => TransactionHash.parse(text), isRefusal);
    if (hash === undefined) return;
    assert.match(hash, /^0x[0-9a-f]{64}$/);
    assert.equal(TransactionHash.parse(hash), hash);
  }),
  fuzzTarget('type tag', tags, (text) => {
    const tag = TypeTag.find(text);
    const struct = attempt(() => TypeTag.parseStruct(text), isRefusal);
    assert.equal(struct !== undefined, tag?.kind === 'struct');
    if (tag === undefined) return;
    const canonical = TypeTag.format(tag);
    assert.deepEqual(TypeTag.find(canonical), tag);
    assert.equal(canonical.replace(/\s|0x0*/g, ''), canonical.replace(/\s|0x/g, ''));
  }),
  fuzzTarget('type in an ABI', tags, (text) => {
    findAbiType(text, new Steps());
  }),
  fuzzTarget('version', versions, (text) => {
    const value = findU64(text);
    assert.equal(
      attempt(() => LedgerVersion.parse(text), isRefusal),
      value,
    );
    const plain = /^\+?([0-9]+)$/.exec(text)?.[1];
    const expected =
      plain === undefined || text.endsWith('\n') || BigInt(plain) >= 2n ** 64n ? undefined : BigInt(plain);
    assert.equal(value, expected);
  }),
  fuzzTarget('function id', soup('0x1', '1', '::', ':', 'a', 'B', '_', '<SELF>', '$', '0', ' '), (text) => {
    const id = FunctionId.find(text);
    if (id !== undefined) assert.deepEqual(FunctionId.find(FunctionId.format(id)), id);
  }),
];
