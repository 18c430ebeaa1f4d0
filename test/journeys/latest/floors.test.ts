/** Floors of clients: a version that a client has got, or has shown, binds this client alone, wherever it reads next. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Agent, request as send } from 'undici';
import type { AccessConfig, Config } from '../../../src/config/config.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { patient, probe, testGateway } from '../../support/gateway.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { accessConfig, keysFile, planConfig, testKey } from '../../support/keys.ts';
import { submission } from '../../support/submission.ts';
import { authority } from '../../support/tls.ts';
import { metric } from '../../support/workers.ts';

const hour = 3_600_000;
const memoryHit = 'ledgergate; hit; detail=memory';

/** What a gateway knows a client by. */
interface Sign {
  readonly localAddress?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** How the gateway tells the writer and the other client apart. */
interface Way {
  readonly name: string;
  readonly writer: Sign;
  readonly other: Sign;
  readonly keys?: ReturnType<typeof testKey>[];
  readonly access?: Partial<AccessConfig>;
  /** A proxy's connection carries the requests of both. */
  readonly isPooled?: boolean;
}

function byKey(name: string, ...tenants: readonly [string, string]): Way {
  const keys = tenants.map((tenant, index) => testKey(`key-${index}`, { tenant }));
  const [writer, other] = keys.map(({ text }) => ({ headers: { authorization: `Bearer ${text}` } }));
  return { name, writer: writer!, other: other!, keys, access: {} };
}

const byForwarded: Way = {
  name: 'forwarded addresses on one connection',
  writer: { headers: { 'x-forwarded-for': '198.51.100.1' } },
  other: { headers: { 'x-forwarded-for': '198.51.100.2' } },
  access: { anonymous: 'free', trustedProxies: ['127.0.0.0/8'] },
  isPooled: true,
};
const byTenant = byKey('keys', 'acme', 'globex');
const ways: readonly Way[] = [
  byTenant,
  byKey('keys of one tenant', 'acme', 'acme'),
  { name: 'addresses', writer: {}, other: { localAddress: '127.0.0.2' } },
  byForwarded,
];

interface Asked {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** One client on one connection. */
class Connection {
  readonly #url: string;
  readonly #sign: Sign;
  readonly #agent: Agent;

  constructor(url: string, sign: Sign, agent: Agent) {
    this.#url = url;
    this.#sign = sign;
    this.#agent = agent;
  }

  async ask(path: string, { headers = {}, body }: Asked = {}) {
    const reply = await send(this.#url + path, {
      dispatcher: this.#agent,
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...this.#sign.headers, ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      body: body ?? null,
    });
    const text = await reply.body.text();
    assert.ok(reply.statusCode < 300, `${reply.statusCode} ${text}`);
    return { headers: reply.headers, text };
  }

  /** The version of the state that a read without one gets, and where its answer came from. */
  async read(headers: Asked['headers'] = {}) {
    const reply = await this.ask(probe, { headers });
    return [reply.headers['ledgergate-served-version'], reply.headers['cache-status']] as const;
  }

  async version(headers: Asked['headers'] = {}): Promise<bigint> {
    return BigInt(String((await this.read(headers))[0]));
  }

  /** Submits a transaction; resolves with its hash. */
  async submit(sequenceNumber = 1): Promise<string> {
    const { text } = await this.ask('/transactions', { body: submission({ sequenceNumber }) });
    return (JSON.parse(text) as { hash: string }).hash;
  }
}

/** Opens connections of both clients of a way. */
function connectionsOf(t: TestContext, url: string, way: Way, options: Agent.Options = {}) {
  const agentAt = ({ localAddress }: Sign): Agent => {
    const agent = new Agent({ ...options, connections: 1, ...(localAddress !== undefined && { localAddress }) });
    t.after(() => agent.destroy());
    return agent;
  };
  const pooled = way.isPooled === true ? agentAt({}) : undefined;
  return (who: 'writer' | 'other'): Connection => new Connection(url, way[who], pooled ?? agentAt(way[who]));
}

/** A gateway whose shared state is at 900, that both clients have read. */
async function world(t: TestContext, way: Way, latest: Partial<Config['latest']> = {}, isH2 = false) {
  const node = await fakeNode(t, { head: 900n });
  const { keys = [], access } = way;
  const file = keys.length === 0 ? undefined : keysFile(t, keys).path;
  const ca = isH2 ? authority(t) : undefined;
  const gateway = await testGateway(t, {
    full: [node],
    config: {
      upstream: patient,
      latest: { maxStalenessMs: hour, ...latest },
      ...(ca !== undefined && { listen: { tls: ca.certify('gateway') } }),
    },
    ...(access !== undefined && {
      access: accessConfig({ keys: { redis: false, ...(file !== undefined && { file }) }, ...access }),
    }),
  });
  const open = connectionsOf(t, gateway.url, way, { allowH2: isH2, connect: { ca: ca?.ca } });
  const [writer, other] = [open('writer'), open('other')];
  for (const client of [writer, other]) assert.equal(await client.version(), 900n);
  let submitted = 0;
  /** The writer's next transaction is committed, and the ledger goes on by 50 versions. */
  const commit = async (): Promise<Committed> => {
    const hash = await writer.submit((submitted += 1));
    node.clock.advance(50n);
    node.mempool.commitAll(node.clock.head - 10n);
    return { hash, version: node.clock.head - 10n };
  };
  const floors = (): Promise<number> => gateway.metric('ledgergate_latest_floors');
  return { node, gateway, open, writer, other, commit, floors };
}

interface Committed {
  readonly hash: string;
  readonly version: bigint;
}

interface Raise {
  readonly by: string;
  readonly raise: (writer: Connection, committed: Committed) => Promise<unknown>;
}

/** Requests by which a client gets a version above the shared state, or shows that it knows one. */
const raises: readonly Raise[] = [
  { by: 'the look-up of its submission', raise: (writer, committed) => lookUp(writer, 'by_hash', committed) },
  { by: 'a wait for its submission', raise: (writer, committed) => lookUp(writer, 'wait_by_hash', committed) },
  {
    by: 'Ledgergate-Min-Version',
    raise: (writer, { version }) => writer.read({ 'ledgergate-min-version': String(version) }),
  },
  { by: 'a bound of 0', raise: (writer) => writer.read({ 'ledgergate-max-staleness': '0' }) },
];

async function lookUp(writer: Connection, route: string, { hash, version }: Committed): Promise<void> {
  const { text } = await writer.ask(`/transactions/${route}/${hash}`);
  assert.ok(text.includes(`"version":"${version}"`), text);
}

for (const [isH2, known] of [
  [false, ways],
  [true, [byTenant, byForwarded]],
] as const) {
  for (const way of known) {
    test(`a version binds its client alone, whichever way it came: ${way.name}, HTTP/${isH2 ? 2 : 1}`, async (t) => {
      const { node, open, writer, other, commit, floors } = await world(t, way, {}, isH2);
      assert.equal(await floors(), 0);
      for (const { by, raise } of raises) {
        const committed = await commit();
        const { head } = node.clock;
        await raise(writer, committed);
        const asked = node.log.count;

        const others = [await other.read(), await open('other').read()];
        const askedByOthers = node.log.count - asked;
        const own = [await open('writer').version(), await writer.version()];
        const askedByWriter = node.log.count;
        const later = [await open('other').read(), await other.read(), await open('writer').read()];

        const kept = ['900', memoryHit];
        assert.deepEqual([...others, askedByOthers, ...own], [kept, kept, 0, head, head], by);
        assert.deepEqual([...later, node.log.count], [kept, kept, [`${head}`, memoryHit], askedByWriter], by);
        assert.equal(await floors(), 1, by);
      }
    });
  }
}

test('a floor ends once the shared state has passed it', async (t) => {
  const { writer, other, commit, floors } = await world(t, byTenant, { maxStalenessMs: 200 });
  await lookUp(writer, 'by_hash', await commit());

  await until(async () => (await other.version()) >= 940n);

  assert.deepEqual([await floors(), await writer.read()], [0, ['950', memoryHit]]);
});

/** With `latest.floor: gateway`, after a read at the head. The look-up alone binds its connection, which reads next. */
const raisesOfAll: readonly Raise[] = [
  ...raises.slice(2),
  {
    by: 'the read of its effect',
    async raise(writer, committed) {
      await lookUp(writer, 'by_hash', committed);
      await writer.read();
    },
  },
];

for (const way of ways) {
  test(`with latest.floor gateway a version binds every client: ${way.name}`, async (t) => {
    const { node, open, writer, other, commit, floors } = await world(t, way, { floor: 'gateway' });
    for (const { by, raise } of raisesOfAll) {
      await raise(writer, await commit());

      const { head } = node.clock;
      assert.deepEqual([await other.version(), await open('other').version(), await floors()], [head, head, 0], by);
    }
  });
}

test('a reload of latest.floor takes effect, and keeps the floors of clients', async (t) => {
  const { node, gateway, open, writer, other } = await world(t, byTenant);
  const reload = async (floor: Config['latest']['floor']): Promise<void> => {
    const { latest, ...config } = gateway.reloads.config;
    await gateway.reloads.take({ ...config, latest: { ...latest, floor } });
    assert.equal(gateway.reloads.status?.result, 'applied');
  };
  const exact = { 'ledgergate-max-staleness': '0' };
  node.clock.advance(50n);
  await writer.read(exact);
  assert.equal(await other.version(), 900n);

  await reload('gateway');
  assert.deepEqual([await other.version(), await open('writer').version()], [900n, 950n]);
  node.clock.advance(50n);
  await writer.read(exact);
  assert.equal(await other.version(), 1000n);

  await reload('client');
  node.clock.advance(50n);
  await writer.read(exact);
  assert.deepEqual([await other.version(), await open('writer').version()], [1000n, 1050n]);
});

for (const kind of ['a read of the shared state', 'a bound of 0', 'its floor'] as const) {
  test(`when the node that gave a version stops, another that has reached it since gives it: ${kind}`, async (t) => {
    const [giving, other] = await Promise.all([fakeNode(t, { head: 900n }), fakeNode(t, { head: 900n })]);
    const gateway = await testGateway(t, {
      full: [giving, other],
      config: { upstream: patient, latest: { maxStalenessMs: hour } },
    });
    const open = connectionsOf(t, gateway.url, { name: '', writer: {}, other: {} });
    if (kind === 'its floor') await open('writer').version();
    giving.clock.advance(50n);
    const exact = { 'ledgergate-max-staleness': '0' };
    // A read of the node itself compares the heads first; the look is at the freshest node known.
    const before = await open(kind === 'a read of the shared state' ? 'other' : 'writer').version(exact);
    if (kind === 'a read of the shared state') await gateway.get('', exact);
    assert.equal(before, 950n);

    other.clock.advance(50n);
    await giving.refuse();
    const reply = await open('writer').ask('/accounts/0x1', kind === 'a bound of 0' ? { headers: exact } : {});

    assert.equal(reply.headers['ledgergate-served-version'], '950');
  });
}

const workers = 2;

test('a floor holds at each of two workers, by keys and by forwarded addresses', async (t) => {
  const node: FakeNode = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, {
    full: [node],
    config: {
      workers,
      upstream: { probeInterval: '1h', audit: 0 },
      latest: { maxStaleness: '1h' },
      access: {
        ...byForwarded.access,
        keys: { file: keysFile(t, byTenant.keys ?? []).path },
        plans: { free: { operations: planConfig().operations } },
      },
    },
  });
  let submitted = 0;
  for (const [turn, way] of [byTenant, byForwarded].entries()) {
    // Connections go round the workers: each worker has one of each client.
    const pools: Record<'writer' | 'other', Connection>[] = [];
    for (let worker = 0; worker < workers; worker += 1) {
      const open = connectionsOf(t, gateway.url, way);
      const pool = { writer: open('writer'), other: open('other') };
      pools.push(pool);
      if (way.isPooled === true) await pool.writer.read();
    }
    for (const who of ['writer', 'other'] as const)
      for (const pool of pools) assert.equal(await pool[who].version(), 900n);
    const [first] = pools;
    assert.ok(first);

    for (let round = 1; round <= 2; round += 1) {
      const hash = await first.writer.submit((submitted += 1));
      node.clock.advance(50n);
      node.mempool.commitAll(node.clock.head);
      await first.writer.ask(`/transactions/by_hash/${hash}`);
      const version = node.clock.head;
      // The event is on its way for a moment.
      for (const { writer } of pools) await until(async () => (await writer.version()) >= version);
      const asked = node.requestsTo('resource');
      for (const pool of pools) assert.deepEqual(await pool.other.read(), ['900', memoryHit]);
      assert.equal(node.requestsTo('resource'), asked);
    }
    assert.equal(await metric(gateway, 'ledgergate_latest_floors'), turn + 1);
  }
});
