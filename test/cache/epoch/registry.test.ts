/** The epochs that a process may use in a tier: replicas on one history, on two, and on none. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { epochAt, type Checkpoint, type Epoch } from '../../../src/cache/epoch/epoch.ts';
import {
  EpochRegistry,
  type CheckpointReport,
  type EpochFields,
  type TierEpoch,
} from '../../../src/cache/epoch/registry.ts';
import { epochsIn } from '../../../src/cache/redis/shared-cache.ts';
import { until } from '../../support/eventually.ts';
import { linkTo } from '../../support/redis-link.ts';
import { redisTest } from '../../support/redis-server.ts';

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

/** Times of a registry that compares only when the test calls `check`. */
const times = { intervalMs: 3_600_000, beatMs: 60_000, trustedMs: 3_600_000, patienceMs: 3_600_000 };

/** A process on nodes of its own, and the events that it has reported. */
class Replica {
  readonly nodes: Nodes;
  readonly registry: EpochRegistry;
  readonly #tier: TierEpoch;
  readonly replaced: bigint[] = [];
  /** How often others turned out to be on another history. */
  foreign = 0;
  generation = 0;
  ledger: string | undefined = '4.aaaaaaaa';
  outageFromMs: number | undefined;

  constructor(fields: EpochFields, nodes: Nodes, changes: Partial<typeof times> = {}) {
    this.nodes = nodes;
    const ledger = {
      readRoots: async (known: Checkpoint | undefined, wantsNext: boolean) => {
        await nodes.answering?.();
        return lookAt(nodes, known, wantsNext);
      },
      ledger: () => this.ledger,
      generation: () => this.generation,
      outageFromMs: () => this.outageFromMs,
      onReplaced: (version: bigint) => {
        this.replaced.push(version);
        this.generation += 1;
      },
      onForeign: () => {
        this.foreign += 1;
      },
    };
    this.registry = new EpochRegistry(ledger, { ...times, ...changes });
    this.#tier = this.registry.join(fields);
  }

  /** The epoch in use. */
  get epoch(): Epoch | undefined {
    return this.#tier.current?.epoch;
  }

  check(): Promise<void> {
    return this.registry.check();
  }

  /** The id of the epoch in use after a check. */
  async id(): Promise<string | undefined> {
    await this.check();
    return this.epoch?.id;
  }

  rollBack(): void {
    this.generation += 1;
    this.registry.rolledBack();
  }
}

/** Fields of epochs that processes share, as they share Redis or a store. */
class SharedFields implements EpochFields {
  readonly fields = new Map<string, string>();
  readonly #beats = new Map<string, number>();
  isAway = false;

  async read() {
    return this.isAway ? undefined : Object.fromEntries(this.fields);
  }

  async put(_ledger: string, field: string, value: string) {
    if (!this.isAway) this.fields.set(field, value);
    return !this.isAway;
  }

  async delete(_ledger: string, fields: readonly string[]) {
    for (const field of fields) this.fields.delete(field);
  }

  async beat(_ledger: string, id: string, beatMs: number) {
    this.#beats.set(id, performance.now() + beatMs);
  }

  async hasMembers(_ledger: string, id: string) {
    return this.isAway ? undefined : (this.#beats.get(id) ?? 0) > performance.now();
  }

  /** The version of the epoch's checkpoint. */
  checkpointOf(id = ''): string | undefined {
    return this.fields.get(id)?.split(' ')[1];
  }
}

interface Scene {
  /** A replica, and the first. */
  readonly a: Replica;
  readonly shared: SharedFields;
  /** Starts a replica, which has compared its history once. */
  readonly replica: (nodes: Nodes, changes?: Partial<typeof times>) => Promise<Replica>;
}

/** Without a replica at the start. */
function bareScene(title: string, run: (scene: Omit<Scene, 'a'>) => Promise<void>): void {
  test(title, async (t) => {
    let bornMs = 0;
    // Epochs of one moment have no order that a test could expect.
    t.mock.method(Date, 'now', () => (bornMs += 1));
    const shared = new SharedFields();
    const replica = (nodes: Nodes, changes?: Partial<typeof times>) => replicaOf(t, shared, nodes, changes);
    await run({ shared, replica });
  });
}

function scene(title: string, run: (scene: Scene) => Promise<void>): void {
  bareScene(title, async (bare) => run({ ...bare, a: await bare.replica({ head: 100n }) }));
}

async function replicaOf(t: TestContext, fields: EpochFields, nodes: Nodes, changes?: Partial<typeof times>) {
  const replica = new Replica(fields, nodes, changes);
  t.after(() => replica.registry.close());
  await replica.check();
  return replica;
}

redisTest('replicas share epochs in a real Redis, whatever else is there', async (t, server) => {
  const registryKey = 'lg:history:4.aaaaaaaa';
  await server.run((client) => client.hset(registryKey, { aaaaaaaa: 'x', '': '', bbbbbbbb: '1 2 3' }));
  const inRedis = async (head: bigint) => replicaOf(t, epochsIn(await linkTo(t, server), 'lg'), { head });
  const [a, b] = [await inRedis(100n), await inRedis(120n)];
  const common = await a.id();
  assert.match(common ?? '', /^[0-9a-z]{8}$/);
  assert.equal(await b.id(), common);
  for (const left of [a, b]) left.registry.close();
  assert.equal(await server.run((client) => client.del(`${registryKey}:${common}`)), 1);

  const c = await inRedis(500n);
  const next = c.epoch as Epoch;
  const names = [1n, 120n, 121n].map((version) => epochAt(next, version));
  assert.deepEqual(names, [common, common, next.id]);
  assert.equal(await server.run((client) => client.hget(registryKey, `ended:${common}`)), '1');

  // Beyond sixteen epochs, the ended one is deleted first.
  const forged = Array.from({ length: 16 }, (_, born) => [`${born}`.padStart(8, 'a'), `${born} 1 ${'a'.repeat(64)}`]);
  await server.run((client) => client.hset(registryKey, Object.fromEntries(forged)));
  c.rollBack();
  await until(async () => (await c.id()) !== undefined);
  assert.equal(await server.run((client) => client.hexists(registryKey, `ended:${common}`)), 0);
  await server.run((client) => client.set(registryKey, 'of another type'));
  await c.check();
  assert.deepEqual([c.replaced, c.foreign], [[], 0]);
});

scene('the checkpoint of a name moves on with its members', async ({ a, replica }) => {
  a.nodes.head = 200n;
  await a.check();
  assert.equal(a.epoch?.checkpoint.version, 200n);
  const b = await replica({ head: 300n });
  assert.equal(b.epoch?.checkpoint.version, 200n);
});

scene('a replica on another history uses another name, and both go on', async ({ a, replica }) => {
  const b = await replica({ head: 100n, fork: 50n });
  const names = [await a.id(), await b.id()];
  assert.equal(new Set(names).size, 2);
  assert.ok(!names.includes(undefined));
  assert.deepEqual([await a.id(), await b.id()], names);
  assert.deepEqual([a.replaced, b.replaced], [[], []]);
});

scene('nodes that contradict a confirmed root have replaced the ledger', async ({ a, shared, replica }) => {
  const before = await a.id();
  const withoutRedis = await replica({ head: 100n });
  a.nodes.fork = 90n;
  await a.check();
  assert.deepEqual([a.replaced, a.epoch], [[100n], undefined]);
  assert.notEqual(await a.id(), before);
  assert.deepEqual(a.replaced, [100n]);
  shared.isAway = true;
  withoutRedis.nodes.fork = 90n;
  await withoutRedis.check();
  assert.deepEqual(withoutRedis.replaced, [100n]);
});

scene('a member whose nodes fork leaves the name to others, and reports no replaced ledger', async ({ a, replica }) => {
  const b = await replica({ head: 100n });
  const common = await b.id();
  // Above the last common checkpoint the nodes of b go another way.
  b.nodes.fork = 100n;
  [a.nodes.head, b.nodes.head] = [200n, 200n];
  await a.check();
  assert.notEqual(await b.id(), common);
  assert.deepEqual([b.replaced, b.foreign], [[], 1]);
  assert.deepEqual([await a.id(), a.foreign], [common, 0]);
});

bareScene('a name is used for a while after nodes confirmed it, and no longer', async ({ shared, replica }) => {
  const a = await replica({ head: 100n }, { trustedMs: 200 });
  const before = await a.id();
  assert.ok(before !== undefined);
  shared.isAway = true;
  await until(() => a.epoch === undefined);
  // One server of a cluster may hold the epochs, and be away alone.
  assert.equal(await a.id(), before);
  // Nodes without a root confirm nothing.
  a.nodes.head = 50n;
  await until(() => a.epoch === undefined);
  assert.equal(await a.id(), undefined);
});

bareScene(
  'a confirmed name is used for the whole of an outage, and then not before nodes confirm it again',
  async ({ replica }) => {
    const a = await replica({ head: 100n }, { trustedMs: 200 });
    const before = await a.id();
    assert.ok(before !== undefined);
    const confirmed = performance.now();
    a.outageFromMs = performance.now();
    // Nodes that do not answer report no root.
    a.nodes.head = 50n;
    await until(() => performance.now() - confirmed > 400);
    assert.equal(await a.id(), before);

    a.outageFromMs = undefined;
    assert.equal(a.epoch, undefined);
    a.nodes.head = 100n;
    assert.equal(await a.id(), before);
  },
);

bareScene(
  'an outage does not revive a name that nodes had not confirmed lately, or contradicted',
  async ({ replica }) => {
    const a = await replica({ head: 100n }, { trustedMs: 200 });
    assert.ok((await a.id()) !== undefined);
    await until(() => a.epoch === undefined);
    a.outageFromMs = performance.now();
    assert.equal(a.epoch, undefined);

    const b = await replica({ head: 100n });
    b.nodes.isMixed = true;
    assert.equal(await b.id(), undefined);
    b.outageFromMs = performance.now();
    assert.equal(b.epoch, undefined);
  },
);

scene('while nodes contradict each other Redis is not used', async ({ a }) => {
  const before = await a.id();
  a.nodes.isMixed = true;
  assert.equal(await a.id(), undefined);
  a.nodes.isMixed = false;
  assert.equal(await a.id(), before);
});

scene('a generation ends the use of a name at once', async ({ a }) => {
  const before = await a.id();
  a.generation += 1;
  assert.equal(a.epoch, undefined);
  // A head that was a lie: nodes confirm the history as before.
  await until(async () => (await a.id()) === before);
});

scene('a rollback that one replica sees ends the name for all, whatever nodes confirm', async ({ a, replica }) => {
  const b = await replica({ head: 100n });
  const before = await a.id();
  a.rollBack();
  await until(async () => (await a.id()) !== undefined);
  assert.notEqual(await a.id(), before);
  assert.equal(await b.id(), await a.id());
  // Answers that b took from Redis may be some that a wrote before it saw the rollback.
  assert.equal(b.foreign, 1);
  const late = await replica({ head: 100n });
  assert.equal(await late.id(), await a.id());
});

scene('a rollback during an outage of Redis ends the name after it', async ({ a, shared }) => {
  const before = await a.id();
  shared.isAway = true;
  a.rollBack();
  shared.isAway = false;
  await until(async () => (await a.id()) !== undefined);
  assert.notEqual(await a.id(), before);
  assert.equal(shared.fields.get(`ended:${before}`), '1');
});

scene('a name that is lost with Redis is published again', async ({ a, shared, replica }) => {
  const before = await a.id();
  shared.fields.clear();
  assert.equal(await a.id(), before);
  const b = await replica({ head: 100n });
  assert.equal(await b.id(), before);
});

bareScene('replicas that start at one moment converge on one name', async ({ replica }) => {
  const replicas = await Promise.all([1, 2, 3, 4].map(() => replica({ head: 100n })));
  for (let round = 0; round < 2; round += 1) for (const one of replicas) await one.id();
  assert.equal(new Set(await Promise.all(replicas.map((replica) => replica.id()))).size, 1);
});

scene('nodes behind the checkpoint are waited for', async ({ a, replica }) => {
  const b = await replica({ head: 90n });
  assert.equal(await b.id(), undefined);
  // The others are ahead again by the time that nodes here have got there.
  a.nodes.head = 200n;
  await a.check();
  b.nodes.head = 150n;
  assert.equal(await b.id(), await a.id());
});

scene('a member whose nodes are always behind goes on with the name', async ({ a, replica }) => {
  const b = await replica({ head: 100n });
  const common = await b.id();
  for (let step = 1n; step <= 5n; step += 1n) {
    a.nodes.head = 100n + step * 100n;
    b.nodes.head = a.nodes.head - 50n;
    await a.check();
    assert.equal(await b.id(), common);
  }
  assert.ok((b.epoch?.checkpoint.version ?? 0n) >= 400n);
});

scene('nodes that never get to a checkpoint use a name of their own, until they do', async ({ a, replica }) => {
  const b = await replica({ head: 90n }, { patienceMs: 0 });
  const own = await b.id();
  assert.ok(own !== undefined);
  assert.notEqual(own, await a.id());
  b.nodes.head = 100n;
  assert.equal(await b.id(), await a.id());
});

for (const [name, head] of [
  ['is moved on again', 300n],
  ['is there again, also while the ledger is halted', 200n],
] as const) {
  scene(`a checkpoint that Redis lost ${name}`, async ({ a, shared }) => {
    const id = (await a.id()) ?? '';
    const older = shared.fields.get(id) ?? '';
    a.nodes.head = 200n;
    await a.check();
    // A write that failed, or a failover, leaves the one before.
    shared.fields.set(id, older);
    a.nodes.head = head;
    await a.check();
    assert.equal(shared.checkpointOf(id), String(head));
  });
}

scene('Redis that was away for longer than nodes keep versions is used again', async ({ a, shared }) => {
  const before = await a.id();
  shared.isAway = true;
  for (let head = 200n; head <= 500n; head += 100n) {
    [a.nodes.head, a.nodes.oldest] = [head, head - 100n];
    await a.check();
  }
  shared.isAway = false;
  await until(async () => {
    await a.check();
    return shared.checkpointOf(before) === '500';
  });
  assert.equal(a.epoch?.id, before);
});

bareScene('an epoch whose checkpoint all nodes pruned gives way to another', async ({ replica }) => {
  const a = await replica({ head: 100n }, { patienceMs: 0 });
  const before = await a.id();
  [a.nodes.head, a.nodes.oldest] = [500n, 400n];
  const after = await a.id();
  assert.ok(after !== undefined);
  assert.notEqual(after, before);
  assert.deepEqual([a.replaced, a.foreign], [[], 0]);
});

scene('a checkpoint that was waited for and pruned meanwhile is not waited for any more', async ({ a, replica }) => {
  const b = await replica({ head: 100n }, { trustedMs: 200 });
  const common = await a.id();
  a.nodes.head = 300n;
  await a.check();
  await b.check();
  // The nodes of b skip versions: they start anew from a newer state.
  a.nodes.head = 500n;
  await a.check();
  [b.nodes.head, b.nodes.oldest] = [600n, 400n];
  await until(() => b.epoch === undefined);
  await until(async () => (await b.id()) === common);
});

scene('a rollback that is seen while another member waits for its nodes ends the name', async ({ a, replica }) => {
  const b = await replica({ head: 100n });
  const before = await a.id();
  const { promise: asked, resolve: onAsked } = Promise.withResolvers<void>();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  a.nodes.head = 200n;
  a.nodes.answering = () => {
    onAsked();
    return released;
  };
  const checked = a.check();
  await asked;
  b.rollBack();
  await until(async () => (await b.id()) !== undefined);
  release();
  await checked;
  const late = await replica({ head: 200n });
  assert.notEqual(await late.id(), before);
  assert.equal(await late.id(), await b.id());
  assert.equal(await a.id(), await b.id());
});

scene('a name that a rollback ended stays so after Redis lost the record of it', async ({ a, shared, replica }) => {
  const b = await replica({ head: 100n });
  const before = await a.id();
  b.rollBack();
  await until(async () => (await b.id()) !== undefined);
  // A node of a cluster is lost, and a member of the old name was paused meanwhile.
  shared.fields.clear();
  await a.check();
  await b.check();
  assert.notEqual(await b.id(), before);
  assert.equal(await a.id(), await b.id());
  assert.equal(a.foreign, 1);
});

bareScene("nodes' confirmation counts from the time of the request", async ({ replica }) => {
  const a = await replica({ head: 100n }, { trustedMs: 200 });
  await until(() => a.epoch === undefined);
  // A process that is paused meanwhile finds an answer that is as old as the pause.
  a.nodes.answering = () => {
    const untilMs = performance.now() + 300;
    return until(() => performance.now() > untilMs);
  };
  await a.check();
  assert.equal(a.epoch, undefined);
});

scene('a comparison that began in one generation confirms nothing in the next', async ({ a }) => {
  const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  a.nodes.answering = () => {
    asked.resolve();
    return answer.promise;
  };
  const checked = a.check();
  await asked.promise;
  a.generation += 1;
  assert.equal(a.epoch, undefined);
  answer.resolve();
  await checked;
  assert.equal(a.epoch, undefined);
  assert.match((await a.id()) ?? '', /^[0-9a-z]{8}$/);
});

bareScene('nodes without roots are compared at growing pauses', async ({ replica }) => {
  const askedMs: number[] = [];
  const answering = (): Promise<void> => {
    askedMs.push(performance.now());
    return Promise.resolve();
  };
  await replica({ head: 100n, isWithoutRoots: true, answering });
  await until(() => askedMs.length >= 3);
  const [first = 0, second = 0, third = 0] = askedMs;
  assert.ok(second - first >= 1_095 && third - second >= 2_195, `${second - first} ms, ${third - second} ms`);
});

test('two tiers of one process have epochs of their own, and read a common checkpoint from nodes once', async () => {
  const a = new Replica(new SharedFields(), { head: 100n });
  const second = a.registry.join(new SharedFields());
  await a.check();
  let asked = 0;
  a.nodes.head = 200n;
  a.nodes.answering = async () => void (asked += 1);
  await a.check();
  assert.equal(asked, 1);
  const [one, other] = [a.epoch, second.current?.epoch];
  assert.deepEqual([one?.checkpoint.version, other?.checkpoint], [200n, one?.checkpoint]);
  assert.notEqual(one?.id, other?.id);

  a.rollBack();
  await until(async () => (await a.id()) !== undefined);
  assert.ok(a.epoch?.id !== one?.id && second.current?.epoch.id !== other?.id);
  a.registry.close();
});

test('a tier that never answers does not end the comparisons of another', async () => {
  const a = new Replica(new SharedFields(), { head: 100n }, { intervalMs: 20 });
  await a.check();
  const silent = Object.assign(new SharedFields(), { read: () => new Promise<never>(() => undefined) });
  const second = a.registry.join(silent);
  for (const head of [200n, 300n]) {
    a.nodes.head = head;
    await until(() => a.epoch?.checkpoint.version === head);
  }
  assert.equal(second.current, undefined);
  a.registry.close();
});

test('a check survives a rollback during its write to the tier', async () => {
  const ends: (() => void)[] = [];
  const fields = Object.assign(new SharedFields(), {
    put: async (_ledger: string, field: string) =>
      field.startsWith('ended:') ? new Promise<boolean>((resolve) => ends.push(() => resolve(true))) : true,
  });
  const a = new Replica(fields, { head: 100n });
  await a.check();
  assert.notEqual(a.epoch, undefined);
  a.rollBack();
  await until(() => ends.length === 1);
  const checked = a.check();
  // A second rollback: the new ledger has no name yet.
  a.ledger = undefined;
  a.rollBack();
  for (const end of ends) end();
  await checked;
  assert.equal(a.epoch, undefined);
  a.registry.close();
});
