import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientAddress, clientOf, countedNetwork, Networks } from '../../../src/access/keys/client-address.ts';
import { fc } from '../../support/fast-check.ts';

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
