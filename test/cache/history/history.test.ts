/** The names in Redis that a process may use, over a real redis-server: replicas on one history, on two, and on none. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test, type TestContext } from 'node:test';
import { connectRedis } from '../../../src/cache/redis/redis-client.ts';
import { History } from '../../../src/cache/history/history.ts';
import { HistoryRegistry } from '../../../src/cache/redis/history-registry.ts';
import { segmentAt, type Checkpoint, type CheckpointReport } from '../../../src/cache/history/terms.ts';
import { RedisLink } from '../../../src/cache/redis/redis-link.ts';
import { until } from '../../support/eventually.ts';
import { noRedis, redisServer, type RedisServer } from '../../support/redis-server.ts';

/** The nodes of one replica: how far they are, and where their history leaves the one of all others. */
interface Nodes {
  head: bigint;
  fork?: bigint;
  isMixed?: boolean;
  /** They report no accumulator root. */
  isWithoutRoots?: boolean;
  /** They hold nothing below. */
  oldest?: bigint;
  /** They answer when this has resolved. */
  answering?: () => Promise<void>;
}

function rootOf({ fork }: Nodes, version: bigint): string {
  return `${fork !== undefined && version > fork ? `f${fork}` : 'a0'}${version.toString(16)}`.padEnd(64, '0');
}

function lookAt(nodes: Nodes, known: Checkpoint | undefined, wantsNext: boolean): CheckpointReport {
  if (nodes.isWithoutRoots === true) return { agreement: 'unknown', next: undefined };
  const next = wantsNext ? { version: nodes.head, root: rootOf(nodes, nodes.head) } : undefined;
  if (known === undefined) return { agreement: 'unknown', next };
  if (known.version > nodes.head) return { agreement: 'unknown', next: undefined };
  if (known.version < (nodes.oldest ?? 0n)) return { agreement: 'pruned', next: undefined };
  if (nodes.isMixed === true) return { agreement: 'mixed', next: undefined };
  return rootOf(nodes, known.version) === known.root
    ? { agreement: 'same', next }
    : { agreement: 'other', next: undefined };
}

interface Replica {
  readonly history: History;
  readonly nodes: Nodes;
  readonly replaced: bigint[];
  /** How often others turned out to be on another history. */
  readonly foreign: { times: number };
  startOver(): void;
  /** Begins an outage now, or ends it. */
  setOutage(isOut: boolean): void;
}

interface ReplicaOptions {
  readonly beatMs?: number;
  readonly patienceMs?: number;
  readonly trustedMs?: number;
}

/** A replica that compares its history only when the test calls `check`. */
async function replicaOf(t: TestContext, server: RedisServer, nodes: Nodes, options: ReplicaOptions = {}) {
  const { beatMs = 60_000, patienceMs = 3_600_000, trustedMs = 3_600_000 } = options;
  const client = connectRedis({ kind: 'single', url: server.url }, () => undefined);
  const events = { onFailure: () => undefined, onTrouble: () => undefined };
  const link = new RedisLink(() => client, { timeoutMs: 1_000, trialKey: 'lg:trial', ...events });
  const replaced: bigint[] = [];
  const foreign = { times: 0 };
  let generation = 0;
  let outageFromMs: number | undefined;
  const history = new History({
    registry: new HistoryRegistry(link, { prefix: 'lg', beatMs }),
    readRoots: async (known, wantsNext) => {
      await nodes.answering?.();
      return lookAt(nodes, known, wantsNext);
    },
    ledger: () => '4.aaaaaaaa',
    generation: () => generation,
    outageFromMs: () => outageFromMs,
    onReplaced: (version) => {
      replaced.push(version);
      generation += 1;
    },
    onForeign: () => {
      foreign.times += 1;
    },
    intervalMs: 3_600_000,
    patienceMs,
    trustedMs,
  });
  t.after(() => {
    history.close();
    link.close();
  });
  await once(client, 'ready');
  const startOver = (): void => {
    generation += 1;
  };
  const setOutage = (isOut: boolean): void => {
    outageFromMs = isOut ? performance.now() : undefined;
  };
  await history.check();
  return { history, nodes, replaced, foreign, startOver, setOutage } satisfies Replica;
}

async function idOf({ history }: Replica): Promise<string | undefined> {
  await history.check();
  return history.term?.id;
}

test('replicas on one history use one name', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const b = await replicaOf(t, server, { head: 120n });
  assert.match((await idOf(a)) ?? '', /^[0-9a-z]{8}$/);
  assert.equal(await idOf(b), await idOf(a));
});

test('the checkpoint of a name moves on with its members', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  a.nodes.head = 200n;
  await a.history.check();
  assert.equal(a.history.term?.checkpoint.version, 200n);
  const b = await replicaOf(t, server, { head: 300n });
  assert.equal(b.history.term?.checkpoint.version, 200n);
});

test('a replica on another history uses another name, and both go on', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const b = await replicaOf(t, server, { head: 100n, fork: 50n });
  const names = [await idOf(a), await idOf(b)];
  assert.equal(new Set(names).size, 2);
  assert.ok(!names.includes(undefined));
  assert.deepEqual([await idOf(a), await idOf(b)], names);
  assert.deepEqual([a.replaced, b.replaced], [[], []]);
});

test('nodes that contradict a confirmed root have replaced the ledger', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const before = await idOf(a);
  a.nodes.fork = 90n;
  await a.history.check();
  assert.deepEqual(a.replaced, [100n]);
  assert.equal(a.history.term, undefined);
  assert.notEqual(await idOf(a), before);
  assert.deepEqual(a.replaced, [100n]);
});

test('nodes are compared also without Redis', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  await server.kill();
  a.nodes.fork = 90n;
  await a.history.check();
  assert.deepEqual(a.replaced, [100n]);
});

test(
  'a member whose nodes fork leaves the name to others, and reports no replaced ledger',
  {
    skip: noRedis,
  },
  async (t) => {
    const server = await redisServer(t);
    const a = await replicaOf(t, server, { head: 100n });
    const b = await replicaOf(t, server, { head: 100n });
    const common = await idOf(b);
    // Above the last common checkpoint the nodes of b go another way.
    b.nodes.fork = 100n;
    [a.nodes.head, b.nodes.head] = [200n, 200n];
    await a.history.check();
    assert.notEqual(await idOf(b), common);
    assert.deepEqual([b.replaced, b.foreign.times], [[], 1]);
    assert.deepEqual([await idOf(a), a.foreign.times], [common, 0]);
  },
);

test('a name is used for a while after nodes confirmed it, and no longer', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n }, { trustedMs: 200 });
  const before = await idOf(a);
  assert.ok(before !== undefined);
  await server.kill();
  await until(() => a.history.term === undefined);
  // One server of a cluster may hold the terms, and be away alone.
  assert.equal(await idOf(a), before);
  // Nodes without a root confirm nothing.
  a.nodes.head = 50n;
  await until(() => a.history.term === undefined);
  assert.equal(await idOf(a), undefined);
});

test(
  'a confirmed name is used for the whole of an outage, and then not before nodes confirm it again',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t);
    const a = await replicaOf(t, server, { head: 100n }, { trustedMs: 200 });
    const before = await idOf(a);
    assert.ok(before !== undefined);
    const confirmed = performance.now();
    a.setOutage(true);
    // Nodes that do not answer report no root.
    a.nodes.head = 50n;
    await until(() => performance.now() - confirmed > 400);
    assert.equal(await idOf(a), before);

    a.setOutage(false);
    assert.equal(a.history.term, undefined);
    a.nodes.head = 100n;
    assert.equal(await idOf(a), before);
  },
);

test(
  'an outage does not revive a name that nodes had not confirmed lately, or contradicted',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t);
    const a = await replicaOf(t, server, { head: 100n }, { trustedMs: 200 });
    assert.ok((await idOf(a)) !== undefined);
    await until(() => a.history.term === undefined);
    a.setOutage(true);
    assert.equal(a.history.term, undefined);

    const b = await replicaOf(t, server, { head: 100n });
    b.nodes.isMixed = true;
    assert.equal(await idOf(b), undefined);
    b.setOutage(true);
    assert.equal(b.history.term, undefined);
  },
);

test('while nodes contradict each other Redis is not used', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const before = await idOf(a);
  a.nodes.isMixed = true;
  assert.equal(await idOf(a), undefined);
  a.nodes.isMixed = false;
  assert.equal(await idOf(a), before);
});

test('a generation ends the use of a name at once', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const before = await idOf(a);
  a.startOver();
  assert.equal(a.history.term, undefined);
  // A head that was a lie: nodes confirm the history as before.
  await until(async () => (await idOf(a)) === before);
});

test('a rollback that one replica sees ends the name for all, whatever nodes confirm', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const b = await replicaOf(t, server, { head: 100n });
  const before = await idOf(a);
  a.startOver();
  a.history.rolledBack();
  await until(async () => (await idOf(a)) !== undefined);
  assert.notEqual(await idOf(a), before);
  assert.equal(await idOf(b), await idOf(a));
  // Answers that b took from Redis may be some that a wrote before it saw the rollback.
  assert.equal(b.foreign.times, 1);
  const late = await replicaOf(t, server, { head: 100n });
  assert.equal(await idOf(late), await idOf(a));
});

test('a rollback during an outage of Redis ends the name after it', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const before = await idOf(a);
  await server.run((client) => client.save());
  await server.kill();
  a.startOver();
  a.history.rolledBack();
  await server.start();
  await until(async () => (await idOf(a)) !== undefined, 20);
  assert.notEqual(await idOf(a), before);
  assert.equal(await server.run((client) => client.hget('lg:history:4.aaaaaaaa', `ended:${before}`)), '1');
});

test(
  'a new name continues one without members, above the compared checkpoint',
  {
    skip: noRedis,
  },
  async (t) => {
    const server = await redisServer(t);
    const a = await replicaOf(t, server, { head: 100n }, { beatMs: 1 });
    const before = await idOf(a);
    a.history.close();
    await until(() => server.run(async (client) => (await client.exists(`lg:history:4.aaaaaaaa:${before}`)) === 0));
    const b = await replicaOf(t, server, { head: 500n });
    const { term } = b.history;
    assert.ok(term);
    assert.notEqual(term.id, before);
    assert.deepEqual(
      [1n, 100n, 101n].map((version) => segmentAt(term, version)),
      [before, before, term.id],
    );
    const c = await replicaOf(t, server, { head: 500n });
    assert.equal(await idOf(c), term.id);
  },
);

test('a name that is lost with Redis is published again', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const before = await idOf(a);
  await server.run((client) => client.flushall());
  assert.equal(await idOf(a), before);
  const b = await replicaOf(t, server, { head: 100n });
  assert.equal(await idOf(b), before);
});

test('replicas that start at one moment converge on one name', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const replicas = await Promise.all([1, 2, 3, 4].map(() => replicaOf(t, server, { head: 100n })));
  for (let round = 0; round < 2; round += 1) for (const replica of replicas) await idOf(replica);
  assert.equal(new Set(await Promise.all(replicas.map(idOf))).size, 1);
});

test('nodes behind the checkpoint are waited for', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const b = await replicaOf(t, server, { head: 90n });
  assert.equal(await idOf(b), undefined);
  // The others are ahead again by the time that nodes here have got there.
  a.nodes.head = 200n;
  await a.history.check();
  b.nodes.head = 150n;
  assert.equal(await idOf(b), await idOf(a));
});

test('a member whose nodes are always behind goes on with the name', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const b = await replicaOf(t, server, { head: 100n });
  const common = await idOf(b);
  for (let step = 1n; step <= 5n; step += 1n) {
    a.nodes.head = 100n + step * 100n;
    b.nodes.head = a.nodes.head - 50n;
    await a.history.check();
    assert.equal(await idOf(b), common);
  }
  assert.ok((b.history.term?.checkpoint.version ?? 0n) >= 400n);
});

test('nodes that never get to a checkpoint use a name of their own, until they do', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const b = await replicaOf(t, server, { head: 90n }, { patienceMs: 0 });
  const own = await idOf(b);
  assert.ok(own !== undefined);
  assert.notEqual(own, await idOf(a));
  b.nodes.head = 100n;
  assert.equal(await idOf(b), await idOf(a));
});

test('fields in Redis that are no term change nothing', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  await server.run((client) => client.hset('lg:history:4.aaaaaaaa', { aaaaaaaa: 'x', '': '', bbbbbbbb: '1 2 3' }));
  const a = await replicaOf(t, server, { head: 100n });
  assert.ok((await idOf(a)) !== undefined);
  await server.run((client) => client.set('lg:history:4.aaaaaaaa', 'of another type'));
  await a.history.check();
  assert.deepEqual(a.replaced, []);
});

test('the newest of many terms are kept', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  for (let fork = 1n; fork <= 20n; fork += 1n) await replicaOf(t, server, { head: 100n, fork });
  const kept = await server.run((client) => client.hlen('lg:history:4.aaaaaaaa'));
  assert.ok(kept <= 17, `${kept} terms`);
});

const registryKey = 'lg:history:4.aaaaaaaa';

test('a checkpoint that Redis lost is moved on again', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const id = await idOf(a);
  assert.ok(id !== undefined);
  const older = await server.run((client) => client.hget(registryKey, id));
  assert.ok(older);
  a.nodes.head = 200n;
  await a.history.check();
  // A write that failed, or a failover, leaves the one before.
  await server.run((client) => client.hset(registryKey, id, older));
  a.nodes.head = 300n;
  await a.history.check();
  const text = await server.run((client) => client.hget(registryKey, id));
  assert.equal(text?.split(' ')[1], '300');
});

test('a halted ledger has its checkpoint in Redis again after Redis lost it', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const id = await idOf(a);
  assert.ok(id !== undefined);
  const older = await server.run((client) => client.hget(registryKey, id));
  assert.ok(older);
  a.nodes.head = 200n;
  await a.history.check();
  await server.run((client) => client.hset(registryKey, id, older));
  await a.history.check();
  const text = await server.run((client) => client.hget(registryKey, id));
  assert.equal(text?.split(' ')[1], '200');
});

test('Redis that was away for longer than nodes keep versions is used again', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const before = await idOf(a);
  await server.kill();
  for (let head = 200n; head <= 500n; head += 100n) {
    [a.nodes.head, a.nodes.oldest] = [head, head - 100n];
    await a.history.check();
  }
  await server.start();
  await until(async () => {
    await a.history.check();
    return (await server.run((client) => client.hget(registryKey, before ?? '')))?.split(' ')[1] === '500';
  }, 20);
  assert.equal(a.history.term?.id, before);
});

test('a term whose checkpoint all nodes pruned gives way to another', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n }, { patienceMs: 0 });
  const before = await idOf(a);
  [a.nodes.head, a.nodes.oldest] = [500n, 400n];
  const after = await idOf(a);
  assert.ok(after !== undefined);
  assert.notEqual(after, before);
  assert.deepEqual([a.replaced, a.foreign.times], [[], 0]);
});

test(
  'a checkpoint that was waited for and pruned meanwhile is not waited for any more',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t);
    const a = await replicaOf(t, server, { head: 100n });
    const b = await replicaOf(t, server, { head: 100n }, { trustedMs: 200 });
    const common = await idOf(a);
    a.nodes.head = 300n;
    await a.history.check();
    await b.history.check();
    // The nodes of b skip versions: they start anew from a newer state.
    a.nodes.head = 500n;
    await a.history.check();
    [b.nodes.head, b.nodes.oldest] = [600n, 400n];
    await until(() => b.history.term === undefined);
    await until(async () => (await idOf(b)) === common);
  },
);

test('a rollback that is seen while another member waits for its nodes ends the name', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const b = await replicaOf(t, server, { head: 100n });
  const before = await idOf(a);
  const { promise: asked, resolve: onAsked } = Promise.withResolvers<void>();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  a.nodes.head = 200n;
  a.nodes.answering = () => {
    onAsked();
    return released;
  };
  const checked = a.history.check();
  await asked;
  b.startOver();
  b.history.rolledBack();
  await until(async () => (await idOf(b)) !== undefined);
  release();
  await checked;
  const late = await replicaOf(t, server, { head: 200n });
  assert.notEqual(await idOf(late), before);
  assert.equal(await idOf(late), await idOf(b));
  assert.equal(await idOf(a), await idOf(b));
});

test('a name that a rollback ended stays so after Redis lost the record of it', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const b = await replicaOf(t, server, { head: 100n });
  const before = await idOf(a);
  b.startOver();
  b.history.rolledBack();
  await until(async () => (await idOf(b)) !== undefined);
  // A node of a cluster is lost, and a member of the old name was paused meanwhile.
  await server.run((client) => client.del(registryKey));
  await a.history.check();
  await b.history.check();
  assert.notEqual(await idOf(b), before);
  assert.equal(await idOf(a), await idOf(b));
  assert.equal(a.foreign.times, 1);
});

test("nodes' confirmation counts from the time of the request", { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n }, { trustedMs: 200 });
  await until(() => a.history.term === undefined);
  // A process that is paused meanwhile finds an answer that is as old as the pause.
  a.nodes.answering = () => {
    const untilMs = performance.now() + 300;
    return until(() => performance.now() > untilMs);
  };
  await a.history.check();
  assert.equal(a.history.term, undefined);
});

test('a comparison that began in one generation confirms nothing in the next', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const a = await replicaOf(t, server, { head: 100n });
  const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  a.nodes.answering = () => {
    asked.resolve();
    return answer.promise;
  };
  const checked = a.history.check();
  await asked.promise;
  a.startOver();
  assert.equal(a.history.term, undefined);
  answer.resolve();
  await checked;
  assert.equal(a.history.term, undefined);
  assert.match((await idOf(a)) ?? '', /^[0-9a-z]{8}$/);
});

test('nodes without roots are compared at growing pauses', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const askedMs: number[] = [];
  const answering = (): Promise<void> => {
    askedMs.push(performance.now());
    return Promise.resolve();
  };
  await replicaOf(t, server, { head: 100n, isWithoutRoots: true, answering });
  await until(() => askedMs.length >= 3);
  const [first = 0, second = 0, third = 0] = askedMs;
  assert.ok(third - second > 1.5 * (second - first), `${second - first} ms, ${third - second} ms`);
});

test('a check survives a rollback during its write to Redis', async () => {
  const ends: (() => void)[] = [];
  const registry = {
    read: async () => ({ open: [], ended: new Set<string>() }),
    hasMembers: async () => false,
    publish: async () => true,
    end: () => new Promise<boolean>((resolve) => ends.push(() => resolve(true))),
    tidy: async () => undefined,
  } as Partial<HistoryRegistry> as HistoryRegistry;
  let generation = 0;
  let ledger: string | undefined = '4.aaaaaaaa';
  const history = new History({
    registry,
    readRoots: async (known, wantsNext) => lookAt({ head: 100n }, known, wantsNext),
    ledger: () => ledger,
    generation: () => generation,
    outageFromMs: () => undefined,
    onReplaced: () => undefined,
    onForeign: () => undefined,
    intervalMs: 3_600_000,
  });
  await history.check();
  assert.notEqual(history.term, undefined);
  generation += 1;
  history.rolledBack();
  assert.equal(ends.length, 1);
  const checked = history.check();
  // A second rollback: the new ledger has no name yet.
  generation += 1;
  ledger = undefined;
  history.rolledBack();
  for (const end of ends) end();
  await checked;
  assert.equal(history.term, undefined);
  history.close();
});
