// Many clients over lagging and restarting nodes and two gateways; what they saw is judged by test/support/history.ts.
// LEDGERGATE_HISTORY_OPERATIONS sets the number of operations; the figure of the project's claims is taken with 100000.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Agent, request as send } from 'undici';
import { Mempool } from '../../src/sample/mempool.ts';
import { Random } from '../encode/random.ts';
import { fakeNode, type FakeNode } from '../support/fake-node.ts';
import { findViolations, type Observation } from '../support/history.ts';
import { naiveProxy } from '../support/naive-proxy.ts';
import { testGateway } from '../support/gateway.ts';

const operations = Number(process.env['LEDGERGATE_HISTORY_OPERATIONS'] ?? 6_000);
const clients = 24;
const seed = 20_260_701;

/** Numbers from 0 up to 1, the same in every run. */
function randomOf(start: number): () => number {
  const random = new Random(start);
  return () => random.u32() / 2 ** 32;
}

const see = (client: string, kind: Observation['kind'], version: bigint, startMs: number, endMs: number) => ({
  client,
  kind,
  version,
  startMs,
  endMs,
});

test('the checker finds a state that goes back and a write that is not seen, and lets overlap pass', () => {
  const back = [see('a', 'read', 10n, 0, 1), see('a', 'read', 9n, 2, 3)];
  const unseen = [see('a', 'commit', 10n, 0, 1), see('a', 'read', 9n, 2, 3)];
  const overlapping = [see('a', 'read', 10n, 0, 5), see('a', 'read', 9n, 2, 3)];
  const others = [see('a', 'read', 10n, 0, 1), see('b', 'read', 9n, 2, 3)];

  assert.deepEqual(
    findViolations(back).map(({ promise }) => promise),
    ['monotonic reads'],
  );
  assert.deepEqual(
    findViolations(unseen).map(({ promise }) => promise),
    ['read your writes'],
  );
  assert.deepEqual([...findViolations(overlapping), ...findViolations(others)], []);
});

test('a round-robin balancer in front of the same nodes breaks both promises', async (t) => {
  const world = await laggingWorld(t);
  const proxy = await naiveProxy(t, world.nodes);

  // Which write is missed when is a matter of timing, so the clients go on until both have been seen.
  const broken = new Set<string>();
  for (let round = 0; round < 20 && broken.size < 2; round += 1) {
    const { history } = await live(t, world, [proxy.url], 2_000);
    for (const { promise } of findViolations(history)) broken.add(promise);
  }

  assert.deepEqual([...broken].sort(), ['monotonic reads', 'read your writes']);
});

test(`${operations} operations of ${clients} clients over two gateways violate nothing`, async (t) => {
  const world = await laggingWorld(t);
  const options = {
    full: world.nodes,
    config: { latest: { waitForVersionMs: 1_000 }, upstream: { probeIntervalMs: 50 } },
  };
  const gateways = [await testGateway(t, options), await testGateway(t, options)];

  const { history, refused } = await live(
    t,
    world,
    gateways.map(({ url }) => url),
    operations,
  );

  const reads = history.filter(({ kind }) => kind === 'read').length;
  t.diagnostic(`${reads} reads, ${history.length - reads} commits seen, ${refused} answered 503`);
  assert.deepEqual(findViolations(history), []);
  assert.ok(reads > operations * 0.8);
});

interface World {
  readonly nodes: readonly FakeNode[];
  readonly mempool: Mempool;
  /** Moves the ledger and some of the nodes, and now and then stops or starts the last node. */
  turn(): Promise<void>;
  /** Commits what is pending in the next version. */
  commit(): void;
}

async function laggingWorld(t: TestContext): Promise<World> {
  const random = randomOf(seed);
  const mempool = new Mempool({ pendingForMs: Infinity });
  const nodes = await Promise.all([0, 1, 2].map(() => fakeNode(t, { head: 1_000n, mempool, keepRequests: 1 })));
  let ledger = 1_000n;
  let isDown = false;
  return {
    nodes,
    mempool,
    async turn() {
      ledger += BigInt(Math.floor(random() * 4));
      for (const node of nodes) {
        const behind = ledger - node.clock.head;
        // Each node catches up in jumps of its own, so seldom that a client asks several times in between.
        if (random() < 0.01) node.clock.advance(random() < 0.7 ? behind : behind / 2n);
      }
      if (random() > 0.005) return;
      isDown = !isDown;
      await (isDown ? nodes[2]?.refuse() : nodes[2]?.accept());
    },
    commit() {
      ledger += 1n;
      mempool.commitAll(ledger);
    },
  };
}

/** Lets clients read, submit and look up until `total` operations are done. */
async function live(t: TestContext, world: World, urls: readonly string[], total: number) {
  const history: Observation[] = [];
  let done = 0;
  let refused = 0;

  const client = async (index: number): Promise<void> => {
    const random = randomOf(seed + index);
    const agent = new Agent({ connections: 1 });
    t.after(() => agent.close());
    let token = 0n;
    const ask = async (path: string, body?: string) => {
      const url = (urls[Math.floor(random() * urls.length)] ?? '') + path;
      const headers = { 'content-type': 'application/json', 'ledgergate-min-version': String(token) };
      const method = body === undefined ? 'GET' : 'POST';
      const startMs = performance.now();
      const response = await send(url, { dispatcher: agent, method, headers, body: body ?? null });
      return { status: response.statusCode, text: await response.body.text(), startMs, endMs: performance.now() };
    };
    const record = (
      kind: Observation['kind'],
      version: bigint,
      { startMs, endMs }: { startMs: number; endMs: number },
    ) => {
      history.push(see(`client ${index}`, kind, version, startMs, endMs));
      if (version > token) token = version;
    };
    while (done < total) {
      done += 1;
      await world.turn();
      if (random() < 0.05) {
        const submitted = await ask('/transactions', transferOf(index, done));
        if (submitted.status !== 202) continue;
        world.commit();
        const { hash } = JSON.parse(submitted.text) as { hash: string };
        const looked = await ask(`/transactions/by_hash/${hash}`);
        const version = looked.status === 200 ? /"version":"(\d+)"/.exec(looked.text)?.[1] : undefined;
        if (version !== undefined) record('commit', BigInt(version), looked);
      }
      const read = await ask('/accounts/0x1/resource/0x1::ledgergate_sample::Probe');
      const version = /"ledger_version":"(\d+)"/.exec(read.text)?.[1];
      if (version === undefined) refused += 1;
      else record('read', BigInt(version), read);
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, index) => client(index)));
  return { history, refused };
}

function transferOf(client: number, count: number): string {
  return JSON.stringify({
    sender: `0x${(client + 1).toString(16)}`,
    sequence_number: String(count),
    max_gas_amount: '2000',
    gas_unit_price: '100',
    expiration_timestamp_secs: '32425224034',
    payload: { type: 'entry_function_payload', function: '0x1::m::f', type_arguments: [], arguments: [] },
    signature: { type: 'ed25519_signature', public_key: '0x00', signature: '0x00' },
  });
}
