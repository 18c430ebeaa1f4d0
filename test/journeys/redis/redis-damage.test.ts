/** Foreign or damaged entries under our names in Redis: a miss, counted, replaced, and never an answer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Redis } from 'ioredis';
import { fakeNode } from '../../support/fake-node.ts';
import { readProbe, replica, sourceOf, until, untilUp, written } from '../../support/redis-replica.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';

/** Names of what one read left in Redis: its page, the page's field, and its answer. */
interface Names {
  readonly page: string;
  readonly field: string;
  readonly answer: string;
}

interface Damage {
  readonly what: string;
  readonly make: (client: Redis, names: Names) => Promise<unknown>;
}

/** Changes the stored answer. */
function answer(what: string, change: (record: Buffer) => Buffer): Damage {
  return {
    what: `an answer that ${what}`,
    make: async (client, { answer: name }) => client.set(name, change((await client.getBuffer(name))!)),
  };
}

/** Changes the reference that the read finds. */
function reference(what: string, change: (text: string) => string): Damage {
  return {
    what: `a reference that ${what}`,
    make: async (client, { page, field }) => client.hset(page, field, change((await client.hget(page, field))!)),
  };
}

function flipped(record: Buffer, at: number): Buffer {
  const copy = Buffer.from(record);
  copy[at]! ^= 1;
  return copy;
}

const damages: readonly Damage[] = [
  answer('has another byte at its end', (record) => flipped(record, record.length - 1)),
  answer('has another byte in its head', (record) => flipped(record, 5)),
  answer('is cut off', (record) => record.subarray(0, -10)),
  answer('is empty', () => Buffer.alloc(0)),
  answer('is of another program', () => Buffer.from('{"status":200,"body":"hello"}')),
  answer('is of an older format', (record) => Buffer.from(record).fill(0, 2, 3)),
  reference('is cut off', (text) => text.slice(0, -1)),
  reference('is of another program', () => 'hello'),
  {
    what: 'the reference of another version in its place',
    make: async (client, { page, field }) => client.hset(page, field, (await client.hget(page, '777'))!),
  },
  {
    what: 'the answer of another version in its place',
    make: async (client, { page, answer: name }) => {
      const [digest = ''] = (await client.hget(page, '777'))!.split('.');
      return client.copy(name.replace(/=.*$/, `=${digest}`), name, 'REPLACE');
    },
  },
  {
    what: 'a page of another type',
    make: (client, { page }) => client.multi().del(page).lpush(page, 'a').exec(),
  },
  {
    what: 'an answer of another type',
    make: (client, { answer: name }) => client.multi().del(name).hset(name, 'a', 'b').exec(),
  },
];

for (const { what, make } of damages) {
  test(`${what} is a miss, is counted, and is replaced`, { skip: noRedis }, async (t) => {
    const server = await redisServer(t);
    const node = await fakeNode(t);
    const nodes = [node];
    const writer = await replica(t, server.url, { nodes });
    await readProbe(writer, 777);
    await readProbe(writer, 7);
    await written(writer, 2);
    await server.run(async (client) => make(client, await namesOf(client, '7')));

    const reader = await replica(t, server.url, { nodes });
    await untilUp(reader);
    assert.equal(sourceOf(await readProbe(reader, 7)), 'node');
    assert.equal(await reader.metric('ledgergate_redis_lookups_total{outcome="damaged"}'), 1);
    assert.equal((await reader.readiness()).redis.state, 'up');
    await until('no write waits', async () => (await reader.metric('ledgergate_redis_pending_writes')) === 0);

    const next = await replica(t, server.url, { nodes });
    await untilUp(next);
    assert.equal(sourceOf(await readProbe(next, 7)), 'redis');
    assert.equal(node.requestsTo('resource'), 3);
  });
}

async function namesOf(client: Redis, field: string): Promise<Names> {
  const [page = ''] = await client.keys('lg:*|resource|*');
  const [digest = ''] = (await client.hget(page, field))!.split('.');
  const [answer = ''] = await client.keys(`lg:*:=${digest}`);
  return { page, field, answer };
}

test('an answer that Redis evicted is absent, not damaged, and is written again', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const nodes = [await fakeNode(t)];
  const writer = await replica(t, server.url, { nodes });
  await readProbe(writer, 7);
  await written(writer, 1);
  await server.run(async (client) => client.del((await namesOf(client, '7')).answer));
  const reader = await replica(t, server.url, { nodes });
  await untilUp(reader);
  assert.equal(sourceOf(await readProbe(reader, 7)), 'node');
  assert.equal(sourceOf(await readProbe(reader, 8)), 'node');
  assert.equal(await reader.metric('ledgergate_redis_lookups_total{outcome="damaged"}'), 0);
  assert.equal(await reader.metric('ledgergate_redis_lookups_total{outcome="absent"}'), 2);
  await written(reader, 2);
  const next = await replica(t, server.url, { nodes });
  await untilUp(next);
  assert.equal(sourceOf(await readProbe(next, 7)), 'redis');
});
