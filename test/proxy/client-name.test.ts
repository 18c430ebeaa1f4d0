import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientOf } from '../../src/proxy/client-name.ts';

const names = (addresses: readonly string[]): number => new Set(addresses.map((each) => clientOf(each))).size;

test('an IPv4 address is a client of its own, of IPv6 addresses a /64 is one, however they are spelt', () => {
  assert.equal(names(['192.0.2.1', '192.0.2.2', '::ffff:192.0.2.3']), 3);
  assert.equal(clientOf('::ffff:192.0.2.1'), clientOf('192.0.2.1'));
  assert.equal(names(['2001:db8:1:2::1', '2001:db8:1:2:ffff::', '2001:db8:1:2:3:4:5:6']), 1);
  assert.equal(names(['2001:db8::1', '2001:db8::2', '2001:db8::a:b:c:d', '2001:db8:0:0:1::']), 1);
  assert.equal(names(['2001:db8:0:5::1', '2001:db8::5:6:7:8:9', '2001:db8:0:5:6:7:8:9']), 1);
  assert.equal(names(['::1', '::2']), 1);
  assert.equal(names(['2001:db8::1', '2001:db9::1', '2001:db8:1::1', '2001:db8:1:1::1', '2001:db8:0:1::1']), 5);
  assert.equal(names(['fe80::1%eth0', 'fe80::2%eth1']), 1);
  assert.equal(clientOf(undefined), '');
});
