// What the front does with requests that come while the workers agree on what clients are shown.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { pino } from 'pino';
import { startServing } from '../../src/gateway/serving.ts';
import type { Siblings } from '../../src/gateway/siblings.ts';
import type { Gate } from '../../src/proxy/server-parts.ts';
import { Agreed } from '../../src/workers/agreed.ts';
import { Agreement } from '../../src/workers/agreement.ts';
import { Channel } from '../../src/workers/channel.ts';
import type { PrimaryHandlers, WorkerHandlers } from '../../src/workers/protocol.ts';
import { until } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { testConfig } from '../support/gateway.ts';
import { answersIn, exchangeRaw } from '../support/raw-http.ts';

/** Open until it is shut. */
class TestGate implements Gate {
  isShut = false;
  readonly waiting = new Set<() => void>();

  isOpen(): boolean {
    return !this.isShut;
  }

  pass(): Promise<void> {
    return new Promise((resolve) => this.waiting.add(resolve));
  }

  /** Lets those in who wait. */
  admit(): void {
    for (const resolve of this.waiting) resolve();
    this.waiting.clear();
  }

  open(): void {
    this.isShut = false;
    this.admit();
  }
}

/** The only worker there is: it agrees with itself. */
function agreedAlone(t: TestContext): Agreed {
  const agreement = new Agreement();
  const atPrimary: Partial<PrimaryHandlers> = {
    raise: (raised) => agreement.raise(raised),
    startOver: (told) => agreement.startOver(1, told),
    takeTurn: () => agreement.takeTurn(1),
    endTurn: () => agreement.endTurn(1),
  };
  const atWorker: object = {};
  const toWorker: Channel<WorkerHandlers> = new Channel(
    (message) => queueMicrotask(() => toPrimary.take(message)),
    atPrimary,
  );
  const toPrimary: Channel<PrimaryHandlers> = new Channel(
    (message) => queueMicrotask(() => toWorker.take(message)),
    atWorker,
  );
  const agreed = new Agreed(toPrimary, 1);
  Object.assign(atWorker, agreed.handlers);
  agreement.join(1, toWorker);
  t.after(() => {
    agreed.close();
    agreement.close();
  });
  return agreed;
}

async function startWorker(t: TestContext) {
  const agreed = agreedAlone(t);
  const gate = new TestGate();
  const siblings: Siblings = {
    shown: agreed,
    gate,
    desk: { take: () => assert.fail('there are no limits'), settle: () => undefined },
    lastKeys: undefined,
    distrusted: { names: [], marked: { salt: '', table: undefined } },
    tellKeys: () => undefined,
    attach: (fleet) => agreed.attach(fleet),
    tellKnown: () => agreed.tellKnown(),
    startOver: () => agreed.startOver(),
    isOnDuty: () => true,
    tellFound: () => undefined,
    tellTaken: () => Promise.resolve(),
    tellDistrusted: () => undefined,
    tellDropped: () => undefined,
  };
  const node = await fakeNode(t, { head: 900n });
  const config = testConfig({ full: [node], config: { listen: { fastPath: true } } });
  const serving = await startServing(config, { log: pino({ level: 'silent' }), siblings });
  t.after(() => {
    gate.open();
    return serving.close();
  });
  const { port, registry } = serving;
  const sum = async (name: string): Promise<number> => {
    const { values } = (await registry.getSingleMetric(name)?.get()) ?? assert.fail(name);
    return values.reduce((before, { value }) => before + value, 0);
  };
  return {
    node,
    gate,
    serving,
    /** How many requests the front has taken, and how many connections it has left. */
    counts: async () => [
      await sum('ledgergate_fast_path_requests_total'),
      await sum('ledgergate_fast_path_handovers_total'),
    ],
    /** Resolves when what was sent before has been read: what is no request does not wait. */
    settle: () => exchangeRaw(port, 'nothing\r\n\r\n'),
    /** A connection on which one read was answered. */
    async connect(): Promise<{ socket: Socket; statuses: () => readonly number[] }> {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      t.after(() => socket.destroy());
      let said = '';
      socket.on('data', (chunk) => (said += chunk.toString('latin1')));
      socket.on('end', () => socket.end());
      const statuses = (): readonly number[] => answersIn(said).map(({ status }) => status);
      socket.write(get(600));
      await until(() => statuses().length === 1);
      return { socket, statuses };
    },
  };
}

const get = (version: number, header = ''): string =>
  `GET /v1/accounts/0x1/module/coin?ledger_version=${version} HTTP/1.1\r\nHost: a\r\n${header}\r\n`;

test('what comes meanwhile waits, is answered in its order, and the connection stays with the front', async (t) => {
  const worker = await startWorker(t);
  const { socket, statuses } = await worker.connect();

  worker.gate.isShut = true;
  socket.write(get(600) + get(601));
  await worker.settle();
  socket.write(get(1_200));
  await worker.settle();
  const meanwhile = statuses();
  worker.gate.open();
  await until(() => statuses().length === 4);
  socket.write(get(600, 'Connection: close\r\n'));
  await once(socket, 'close');

  assert.deepEqual(meanwhile, [200]);
  assert.deepEqual(statuses(), [200, 200, 200, 404, 200]);
  // Those who settle are the others.
  assert.deepEqual(await worker.counts(), [5, 2]);
});

test('who has waited as long as anybody does is answered while it is still shut', async (t) => {
  const worker = await startWorker(t);
  const { socket, statuses } = await worker.connect();

  worker.gate.isShut = true;
  socket.write(get(600) + get(600));
  await until(() => worker.gate.waiting.size === 1);
  worker.gate.admit();
  await until(() => statuses().length === 3);
  socket.write(get(600));
  await until(() => worker.gate.waiting.size === 1);

  assert.deepEqual(statuses(), [200, 200, 200]);
  assert.deepEqual(await worker.counts(), [3, 0]);
});

test('what is not for the front waits as well, and is the server’s then', async (t) => {
  const worker = await startWorker(t);
  const { socket, statuses } = await worker.connect();

  worker.gate.isShut = true;
  socket.write(get(600) + 'GET /v1/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  await until(() => worker.gate.waiting.size === 1);
  worker.gate.open();
  await once(socket, 'close');

  assert.deepEqual(statuses(), [200, 200, 404]);
  assert.deepEqual(await worker.counts(), [2, 1]);
});

for (const [how, leave] of [
  ['ends its side', (socket: Socket) => socket.end()],
  ['is gone', (socket: Socket) => socket.resetAndDestroy()],
] as const) {
  test(`of a client that ${how} while it waits, nothing is asked any more`, async (t) => {
    const worker = await startWorker(t);
    const { socket, statuses } = await worker.connect();

    worker.gate.isShut = true;
    socket.write(get(602));
    await until(() => worker.gate.waiting.size === 1);
    leave(socket);
    await once(socket, 'close');
    await worker.settle();
    worker.gate.open();
    const other = await worker.connect();

    assert.deepEqual([statuses(), other.statuses()], [[200], [200]]);
    assert.deepEqual([worker.node.reads, await worker.counts()], [1, [2, 1]]);
  });
}

test('a worker that closes answers who still waits', async (t) => {
  const worker = await startWorker(t);
  const { socket, statuses } = await worker.connect();

  worker.gate.isShut = true;
  socket.write(get(600));
  await until(() => worker.gate.waiting.size === 1);
  const closed = worker.serving.close();
  worker.gate.open();
  await Promise.all([once(socket, 'close'), closed]);

  assert.deepEqual(statuses(), [200, 200]);
});
