import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { clientAddress, clientOf, countedNetwork, Networks } from '../../../src/access/keys/client-address.ts';
import { change, editKeys, removal } from '../../../src/access/keys/edit-keys.ts';
import { FunctionRights } from '../../../src/access/keys/function-rights.ts';
import {
  createKey,
  hashKey,
  type KeyRecord,
  longestKey,
  parseBearer,
  Principals,
} from '../../../src/access/keys/principals.ts';
import { replaceFile } from '../../../src/access/keys/replace-file.ts';
import { fc } from '../../support/fast-check.ts';
import { planConfig } from '../../support/keys.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const every = planConfig().operations;
const plans = {
  free: planConfig(),
  pages: planConfig({ operations: ['read', 'view'], origins: ['https://a', 'https://b'] }),
};
const recordOf = (key: string, more: Partial<KeyRecord> = {}): KeyRecord => ({
  name: 'wallet',
  tenant: 'acme',
  plan: 'free',
  sha256: hashKey(key),
  ...more,
});

/** Finds the principal of a key among `records`; `undefined`: none. */
function finderOf(records: readonly KeyRecord[]) {
  const rules = { header: 'x-api-key', plans, anonymous: undefined, trustedProxies: [] };
  const principals = new Principals(rules, { file: true, redis: false });
  principals.setKeys('file', records);
  const find = (key: string, nowMs = 0) => {
    const found = principals.find({ 'x-api-key': key }, undefined, nowMs);
    return typeof found === 'string' ? undefined : found;
  };
  return Object.assign(find, { principals });
}

test('a new key says what it is, is never the same twice, and is found by its text alone', () => {
  const keys = Array.from({ length: 50 }, () => createKey().key);
  const find = finderOf(keys.map((key, index) => recordOf(key, { name: `k${index}` })));

  assert.equal(new Set(keys).size, 50);
  for (const [index, key] of keys.entries()) {
    assert.match(key, /^lgk_[\w-]{43}$/);
    assert.equal(find(key)?.name, `k${index}`);
    assert.equal(find(`${key} `), undefined);
    assert.equal(find(key.slice(0, -1)), undefined);
    assert.equal(find(hashKey(key)), undefined, 'the hash is no key');
  }
});

test('keys and tokens are read from `Authorization` by one form', () => {
  const forms = ['Bearer k', 'bearer  k ', 'BEARER a,b', 'Bearer', 'Bearer ', 'Bearer k l', 'Basic k', 'Bearerk', ''];

  assert.deepEqual(forms.map(parseBearer), ['k', 'k', 'a,b', '', '', '', undefined, undefined, undefined]);
});

test('the hash is the one that any other tool makes', () => {
  // From FIPS 180-2, appendix B.1.
  assert.equal(hashKey('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
});

test('a key is taken until the moment it expires', () => {
  const find = finderOf([recordOf('k', { expiresAtMs: 1_000 })]);
  assert.equal(find('k', 999)?.tenant, 'acme');
  assert.equal(find('k', 1_000), undefined);
});

test('a text that is too long for a key is none, even when its hash is known', () => {
  const long = 'k'.repeat(longestKey + 1);
  const longest = 'k'.repeat(longestKey);
  const find = finderOf([recordOf(long), recordOf(longest)]);
  assert.equal(find(long), undefined);
  assert.equal(find(longest)?.name, 'wallet');
});

function rights(more: Partial<KeyRecord>) {
  const principal = finderOf([recordOf('k', more)])('k');
  return [[...(principal?.operations ?? [])], principal?.origins && [...principal.origins]];
}

test("a key's rights are those of its plan and its own record", () => {
  assert.deepEqual(rights({}), [every, undefined]);
  assert.deepEqual(rights({ operations: ['submit', 'read'] }), [['submit', 'read'], undefined]);
  assert.deepEqual(rights({ origins: ['https://c'] }), [every, ['https://c']]);
  assert.deepEqual(rights({ plan: 'pages' }), [
    ['read', 'view'],
    ['https://a', 'https://b'],
  ]);
  assert.deepEqual(rights({ plan: 'pages', operations: ['submit', 'read'], origins: ['https://b', 'https://c'] }), [
    ['read'],
    ['https://b'],
  ]);
});

test('a key of an unknown plan is none; the first of two records of one key counts', () => {
  const find = finderOf([recordOf('a', { plan: 'gone' }), recordOf('b', { name: 'x' }), recordOf('b', { name: 'y' })]);
  assert.equal(find('a'), undefined);
  assert.equal(find('b')?.name, 'x');
  assert.equal(find.principals.size, 1);
});

test("a client's address is the one that trusted proxies report, with a key or without one", () => {
  const rules = { header: 'x-api-key', plans, anonymous: 'free', trustedProxies: ['10.0.0.0/8'] };
  const principals = new Principals(rules, { file: false, redis: false });
  const addressOf = (remoteAddress: string | undefined, forwarded?: string): string =>
    principals.addressOf({ 'x-api-key': 'k', 'x-forwarded-for': forwarded }, { remoteAddress });

  assert.equal(addressOf('10.0.0.1', '198.51.100.1'), '198.51.100.1');
  assert.equal(principals.addressOf({}, undefined), '');
  // Without a key, limits count for it.
  const found = principals.find({ 'x-forwarded-for': '2001:db8::7' }, { remoteAddress: '10.0.0.1' }, 0);
  assert.equal(typeof found === 'object' && found.account, 'free:address:2001:db8:0:0::/64');
});

test('one key of Redis is replaced as all of them are: the file precedes it, and its plan must be known', () => {
  const rules = { header: 'x-api-key', plans, anonymous: undefined, trustedProxies: [] };
  const principals = new Principals(rules, { file: true, redis: true });
  const keys = ['one', 'two', 'three', 'four'];
  principals.setKeys('file', [recordOf('one', { name: 'of-the-file' })], new Set([hashKey('two')]));
  principals.setKeys('redis', []);
  const known = { generation: 0, entry: undefined };
  const namesOf = () =>
    keys.map((key) => {
      const found = principals.find({ 'x-api-key': key }, undefined, 0, key === 'four' ? known : undefined);
      return typeof found === 'string' ? found : found.name;
    });

  for (const key of keys) principals.setKey('redis', hashKey(key), recordOf(key, { name: key }));
  assert.deepEqual([namesOf(), principals.size], [['of-the-file', 'bad key', 'three', 'four'], 3]);

  principals.setKey('redis', hashKey('three'), recordOf('three', { plan: 'gone' }));
  // One that a connection repeats.
  principals.setKey('redis', hashKey('four'), undefined);
  principals.setKey('redis', hashKey('one'), undefined);
  assert.deepEqual([namesOf(), principals.size], [['of-the-file', 'bad key', 'bad key', 'bad key'], 1]);

  principals.setRules({ ...rules, plans: { ...plans, gone: planConfig() } });
  assert.deepEqual(namesOf(), ['of-the-file', 'bad key', 'wallet', 'bad key']);
});

const rightsOf = (allow?: readonly string[], deny?: readonly string[]) => FunctionRights.of({ allow, deny });

/** The functions that the rights admit. */
function admitted(rights: FunctionRights | undefined): readonly string[] {
  const functions = ['0x1::coin::balance', '0x1::coin::supply', '0x1::object::owner', '0xa::coin::balance'];
  return functions.filter((id) => rights?.admits(id) === true);
}

test('lists have functions, modules and addresses; deny precedes allow', () => {
  assert.deepEqual(admitted(rightsOf(['0x1::coin::balance'])), ['0x1::coin::balance']);
  assert.deepEqual(admitted(rightsOf(['0x1::coin::*'])), ['0x1::coin::balance', '0x1::coin::supply']);
  assert.deepEqual(admitted(rightsOf(['0x1::*'])), ['0x1::coin::balance', '0x1::coin::supply', '0x1::object::owner']);
  assert.deepEqual(admitted(rightsOf(undefined, ['0x1::*'])), ['0xa::coin::balance']);
  assert.deepEqual(admitted(rightsOf(['0x1::*'], ['0x1::coin::*'])), ['0x1::object::owner']);
  assert.deepEqual(admitted(rightsOf(['0x1::coin::balance'], ['0x1::*'])), []);
  assert.deepEqual(admitted(rightsOf(['0x1::coin::*', '0xa::*'], ['0x1::coin::balance', '0x1::object::owner'])), [
    '0x1::coin::supply',
    '0xa::coin::balance',
  ]);
});

test('addresses of lists are compared in one spelling, names to the letter', () => {
  const long = `0x${'0'.repeat(63)}A`;
  assert.deepEqual(admitted(rightsOf([`${long}::*`, '0x01::coin::supply', '0X1::coin::balance'.toLowerCase()])), [
    '0x1::coin::balance',
    '0x1::coin::supply',
    '0xa::coin::balance',
  ]);
  assert.deepEqual(admitted(rightsOf(['0x1::Coin::balance', '0x1::coin::Balance', '0x1::coi::*', '0x11::*'])), []);
});

test('a function that is not certain is refused by any list, and without a list there are no rights to check', () => {
  assert.equal(rightsOf(undefined, ['0x2::*'])?.admits(undefined), false);
  assert.equal(rightsOf(['0x1::*'])?.admits(undefined), false);
  assert.equal(rightsOf(), undefined);
  assert.equal(FunctionRights.of(undefined), undefined);
});

const entry = (name: string, origins: string): string =>
  `  - { name: ${name}, plan: free, sha256: ${'a'.repeat(64)}, origins: ${origins} }\n`;

test('an entry that an alias refers to is a conflict with words for operators, not a fault', async () => {
  const text = `keys:\n${entry('one', '&pages ["https://a.example"]')}${entry('two', '*pages')}`;
  const fault = { name: 'KeysFault', reason: 'conflict', message: /^an alias \(\*\) elsewhere in the keys file/ };
  await assert.rejects(editKeys(text, removal('one', 'keys.yaml')), fault);
  await assert.rejects(editKeys(text, change('one', { origins: null }, 'keys.yaml')), fault);
  const left = await editKeys(text, removal('two', 'keys.yaml'));
  assert.match(left.text, /name: one/);
  assert.doesNotMatch(left.text, /name: two/);
});

test('what a writer without the lock saves during a change is not lost', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'keys.yaml');
  writeFileSync(file, 'before');
  const replaced = replaceFile(file, (text) => {
    writeFileSync(file, 'saved by an editor');
    return Promise.resolve(`${text}, changed`);
  });
  await assert.rejects(replaced, {
    reason: 'unavailable',
    message: /another program has changed it meanwhile: try again$/,
  });
  assert.equal(readFileSync(file, 'utf8'), 'saved by an editor');
  assert.deepEqual(readdirSync(folder), ['keys.yaml']);
});

const ours = new Networks(['10.0.0.0/8', 'fd00::/8', '192.0.2.7']);

const walks: readonly (readonly [connection: string | undefined, forwarded: string | undefined, client: string])[] = [
  ['203.0.113.9', undefined, '203.0.113.9'],
  // Not our proxy: its word is worth nothing.
  ['203.0.113.9', '198.51.100.1', '203.0.113.9'],
  ['10.1.2.3', '198.51.100.1', '198.51.100.1'],
  ['::ffff:10.1.2.3', '198.51.100.1', '198.51.100.1'],
  ['192.0.2.7', '198.51.100.1', '198.51.100.1'],
  ['192.0.2.8', '198.51.100.1', '192.0.2.8'],
  ['fd00::1', '2001:db8::1', '2001:db8::1'],
  // The client's own entries precede the trusted proxy's.
  ['10.1.2.3', '1.1.1.1, 198.51.100.1', '198.51.100.1'],
  ['10.1.2.3', '1.1.1.1,10.0.0.9, 198.51.100.1 ,10.0.0.8', '198.51.100.1'],
  // A client within our networks.
  ['10.1.2.3', '10.9.9.91', '10.9.9.91'],
  ['10.1.2.3', '10.9.9.9, 10.0.0.8', '10.9.9.9'],
  // An entry that is no address ends the walk.
  ['10.1.2.3', 'unknown', '10.1.2.3'],
  ['10.1.2.3', '', '10.1.2.3'],
  ['10.1.2.3', ',', '10.1.2.3'],
  ['10.1.2.3', ',10.0.0.8', '10.0.0.8'],
  ['10.1.2.3', '1.1.1.1, , 10.0.0.8', '10.0.0.8'],
  ['10.1.2.3', '198.51.100.1, 10.0.0.256', '10.1.2.3'],
  ['10.1.2.3', '198.51.100.1; 10.0.0.8', '10.1.2.3'],
  // Forms that proxies write.
  ['10.1.2.3', '198.51.100.1:4711', '198.51.100.1'],
  ['10.1.2.3', '[2001:DB8:0::1]:4711', '2001:db8::1'],
  ['10.1.2.3', '[2001:db8::1]', '2001:db8::1'],
  ['10.1.2.3', '::FFFF:198.51.100.1', '198.51.100.1'],
  ['10.1.2.3', 'x[2001:db8::1]', '10.1.2.3'],
  ['10.1.2.3', '[2001:db8::1]x', '10.1.2.3'],
  ['10.1.2.3', 'x198.51.100.1:80', '10.1.2.3'],
  ['10.1.2.3', '198.51.100.1:80x', '10.1.2.3'],
  [undefined, '198.51.100.1', ''],
];

for (const [connection, forwarded, client] of walks) {
  test(`${connection} with "${forwarded}" is ${client}`, () => {
    assert.equal(clientAddress(connection, forwarded, ours), client);
  });
}

test('the address that a trusted proxy adds counts, whatever the client wrote before it', () => {
  const entry = fc.oneof(fc.ipV4(), fc.ipV6(), fc.constant('10.0.0.1'), fc.string());
  fc.assert(
    fc.property(
      fc.array(entry),
      fc.ipV4(),
      fc.array(fc.constantFrom('10.0.0.1', 'fd00::5')),
      (forged, real, proxies) => {
        fc.pre(!ours.holds(real));
        const [connection = '10.7.7.7', ...others] = proxies;
        const forwarded = [...forged, real, ...others.toReversed()].join(', ');
        assert.equal(clientAddress(connection, forwarded, ours), real);
      },
    ),
  );
});

test('the header of an untrusted peer is ignored', () => {
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.string()), fc.string(), (connection, forwarded) => {
      const trusted = new Networks(['10.0.0.0/8']);
      fc.pre(!connection.startsWith('10.'));
      assert.equal(clientAddress(connection, forwarded, trusted), clientAddress(connection, undefined, trusted));
      assert.equal(
        clientAddress(connection, forwarded, new Networks([])),
        clientAddress(connection, undefined, trusted),
      );
    }),
  );
});

test('a very long list is not walked to its end', () => {
  const forwarded = Array.from({ length: 10_000 }, (_, index) => `10.0.${index >> 8}.${index & 255}`)
    .toReversed()
    .join(',');
  assert.equal(clientAddress('10.1.2.3', `198.51.100.1,${forwarded}`, ours), '10.0.0.31');
});

const networks: readonly (readonly [network: string, within: readonly string[], outside: readonly string[]])[] = [
  ['192.0.2.0/24', ['192.0.2.0', '192.0.2.255'], ['192.0.3.0', '192.0.1.255', '2001:db8::1']],
  ['192.0.2.77/24', ['192.0.2.1'], ['192.0.3.1']],
  ['192.0.2.7', ['192.0.2.7'], ['192.0.2.6', '192.0.2.8']],
  ['0.0.0.0/0', ['0.0.0.0', '255.255.255.255'], ['::', '2001:db8::1']],
  ['2001:DB8::/32', ['2001:db8::', '2001:db8:ffff::1'], ['2001:db9::', '192.0.2.1']],
  ['2001:DB8::5', ['2001:db8::5'], ['2001:db8::4']],
  // Clients of IPv4 are none of IPv6, as sockets of both families report them (RFC 4291 2.5.5.2).
  ['::/0', ['::', '2001:db8::1'], ['192.0.2.1']],
  ['::ffff:192.0.2.0/120', ['192.0.2.0', '192.0.2.255'], ['192.0.3.0', '::']],
  ['::ffff:c000:0207', ['192.0.2.7'], ['192.0.2.8']],
  ['::ffff:0:0/96', ['192.0.2.7'], ['2001:db8::1']],
  ['::ffff:0:0/95', ['::fffe:0:1'], ['192.0.2.7']],
];

for (const [network, within, outside] of networks) {
  test(`addresses within ${network}, and outside`, () => {
    const list = new Networks([network]);
    assert.deepEqual(
      [...within, ...outside, ''].filter((address) => list.holds(address)),
      within,
    );
  });
}

/** Runs of zeros are left out of most spellings. */
const group = fc.oneof(fc.constant(0), fc.nat(0xffff));
const textOf = (groups: readonly number[]): string => groups.map((group) => group.toString(16)).join(':');

test('addresses of IPv6 are counted by their /64, in whatever spelling, and IPv4 within IPv6 as IPv4', () => {
  assert.equal(countedNetwork('203.0.113.9'), '203.0.113.9');
  assert.equal(countedNetwork('::ffff:203.0.113.9'), '203.0.113.9');
  assert.equal(countedNetwork('2001:db8::1'), '2001:db8:0:0::/64');
  assert.equal(countedNetwork('2001:0db8:0:0:ffff::'), '2001:db8:0:0::/64');
  assert.equal(countedNetwork('2001:db8:0:1::'), '2001:db8:0:1::/64');
  assert.equal(countedNetwork('::1'), '0:0:0:0::/64');
  assert.equal(countedNetwork('fe80::1%eth0'), 'fe80:0:0:0::/64');
  fc.assert(
    fc.property(fc.array(group, { minLength: 8, maxLength: 8 }), fc.nat(0xffff), (groups, other) => {
      fc.pre(groups[0] !== 0);
      const sibling = [...groups.slice(0, 4), other, ...groups.slice(5)];
      assert.equal(countedNetwork(textOf(groups)), countedNetwork(textOf(sibling).toUpperCase()));
      assert.equal(countedNetwork(textOf(groups)), `${textOf(groups.slice(0, 4))}::/64`);
    }),
  );
});

test('a tenant takes no place of an address, whatever the claim of its token', () => {
  for (const address of ['192.0.2.7', '2001:db8:0:0::/64']) {
    const socket = { remoteAddress: '198.51.100.1' };
    const ofToken = clientOf(socket, { principal: { name: 'jwt', tenant: address } });
    const ofAddress = clientOf(socket, { principal: { name: undefined, tenant: address } });
    assert.deepEqual([ofToken, ofAddress], [`tenant ${address}`, address]);
    assert.deepEqual([clientOf(socket), clientOf({})], ['198.51.100.1', '']);
    assert.notEqual(ofToken, ofAddress);
    assert.notEqual(ofToken, clientOf({ remoteAddress: address.replace('/64', '') }));
    // Keys of the tenant share its place.
    assert.equal(ofToken, clientOf(socket, { principal: { name: 'wallet', tenant: address } }));
  }
});
