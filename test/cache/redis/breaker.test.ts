import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Breaker } from '../../../src/cache/redis/breaker.ts';
import { connectRedis } from '../../../src/cache/redis/redis-client.ts';
import { RedisLink, type LinkOptions, type TroubleChange } from '../../../src/cache/redis/redis-link.ts';
import { until } from '../../support/redis-replica.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';

/** A breaker with the times of its trials, which succeed while `isWell`. */
function observed(t: TestContext) {
  const state = { isWell: false, trials: [] as number[], changes: [] as string[] };
  const breaker = new Breaker({
    trial: async () => {
      state.trials.push(Math.round(performance.now()));
      return state.isWell;
    },
    onChange: (isOpen, reason) => state.changes.push(`${isOpen ? 'open' : 'closed'}: ${reason}`),
  });
  t.after(() => breaker.end());
  return { breaker, state };
}

test('a circuit opens once, tries at growing pauses, and closes after a good trial', async (t) => {
  const { breaker, state } = observed(t);
  const startMs = performance.now();
  breaker.open('first');
  breaker.open('second');
  assert.deepEqual([breaker.reason, state.changes], ['first', ['open: first']]);
  await until('two trials', () => state.trials.length === 2);
  assert.ok((state.trials[0] ?? 0) >= startMs + 95 && (state.trials[1] ?? 0) >= startMs + 290, state.trials.join());
  state.isWell = true;
  await until('it is closed', () => !breaker.isOpen);
  assert.deepEqual([breaker.reason, state.changes], [undefined, ['open: first', 'closed: first']]);
});

test('an ended breaker sends no trial and reports no change', async (t) => {
  const { breaker, state } = observed(t);
  breaker.open('first');
  breaker.end();
  breaker.open('second');
  // A breaker that is not ended has tried by then.
  const other = observed(t);
  other.breaker.open('other');
  await until('the other one has tried', () => other.state.trials.length === 2);
  assert.deepEqual([state.trials, state.changes], [[], ['open: first']]);
});

/** A link to a real server, and its reports. */
async function linked(t: TestContext, changes: Partial<LinkOptions> = {}) {
  const server = await redisServer(t);
  const told: TroubleChange[] = [];
  const link = new RedisLink((onError) => connectRedis({ kind: 'single', url: server.url }, onError), {
    timeoutMs: 50,
    trialKey: 'trial',
    onFailure: () => {},
    onTrouble: (change) => told.push(change),
    ...changes,
  });
  t.after(() => link.close());
  await until('the link is up', () => link.trouble('circuit open') === undefined);
  return { server, link, told };
}

test('a server that hangs is reported once, gets no commands, and is used again', { skip: noRedis }, async (t) => {
  const { server, link, told } = await linked(t);
  assert.deepEqual(await link.read('key', (client) => client.get('key')), { value: null });
  server.pause();
  const reads = Array.from({ length: 100 }, () => link.read('key', (client) => client.get('key')));
  assert.deepEqual(
    new Set((await Promise.all(reads)).map((outcome) => JSON.stringify(outcome))),
    new Set(['{"failure":"timeout"}']),
  );
  let sent = 0;
  const outcome = await link.read('key', async () => (sent += 1));
  assert.deepEqual([outcome, sent], [{ failure: 'closed' }, 0]);
  assert.equal(link.trouble('circuit open'), 'no answer within 50 ms');
  server.resume();
  await until('it is used again', () => link.trouble('circuit open') === undefined);
  assert.deepEqual(
    told.map(({ isOn, trouble }) => `${trouble} ${isOn}`),
    ['circuit open true', 'circuit open false'],
  );
  assert.deepEqual(await link.read('key', (client) => client.get('key')), { value: null });
});

test('a caller short of time opens no circuit to a server that answers in the bound', { skip: noRedis }, async (t) => {
  const { server, link, told } = await linked(t, { timeoutMs: 2_000 });
  const get = (untilMs = Infinity) => link.read('key', (client) => client.get('key'), { untilMs });
  server.pause();
  assert.deepEqual(await get(performance.now() + 10), { failure: 'timeout' });
  server.resume();
  assert.deepEqual(await get(), { value: null });
  assert.deepEqual([link.trouble('circuit open'), told], [undefined, []]);
});

test('a caller short of time opens the circuit to a server beyond the bound', { skip: noRedis }, async (t) => {
  const { server, link, told } = await linked(t);
  server.pause();
  const outcome = await link.read('key', (client) => client.get('key'), { untilMs: performance.now() + 10 });
  assert.deepEqual([outcome, told], [{ failure: 'timeout' }, []]);
  await until('it is told', () => told.length === 1);
  assert.equal(link.trouble('circuit open'), 'no answer within 50 ms');
  server.resume();
});

test('a server that is away opens the circuit without a single command', { skip: noRedis }, async (t) => {
  const { server, link, told } = await linked(t);
  await link.started;
  await server.kill();
  await until('it is told', () => told.length === 1);
  assert.match(link.trouble('circuit open') ?? '', /^connection (?:refused|cut)$|^the connection is lost$/);
  await server.start();
  await until('it is used again', () => link.trouble('circuit open') === undefined);
});

test('a command of the client that throws at once is a failure like any other', { skip: noRedis }, async (t) => {
  const { link } = await linked(t);
  const outcome = await link.read('key', () => {
    throw new TypeError('no such slot');
  });
  assert.deepEqual(outcome, { failure: 'connection' });
});

test('the bound of a read counts from its start, not from each command', { skip: noRedis }, async (t) => {
  const { server, link } = await linked(t, { timeoutMs: 10_000 });
  server.pause();
  const start = performance.now();
  const outcome = await link.read('key', (client) => client.get('key'), { untilMs: start + 60 });
  assert.deepEqual(outcome, { failure: 'timeout' });
  assert.ok(performance.now() - start < 1_000);
  server.resume();
});
