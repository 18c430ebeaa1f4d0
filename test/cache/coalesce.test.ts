import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Coalescer } from '../../src/cache/coalesce.ts';
import { GatewayError } from '../../src/ledger/errors.ts';
import { type CancelSignal, CancelToken } from '../../src/ledger/stop.ts';

const key = 'a';
const never = new AbortController().signal;

/** Joins, or begins, a load; resolves to its value and whether this caller leads. */
function run<T>(
  loads: Coalescer<T>,
  signal: CancelSignal,
  load: (signal: CancelSignal) => Promise<T>,
  of = key,
  client = 'a client',
) {
  return loads.run(of, { signal, client }, load, (value, isLeader) => ({ value, isLeader }));
}

/** A load that the test ends, and the record of how often it was started. */
function controlledLoad() {
  const starts: { readonly signal: CancelSignal; readonly end: PromiseWithResolvers<string> }[] = [];
  const load = (signal: CancelSignal): Promise<string> => {
    const end = Promise.withResolvers<string>();
    starts.push({ signal, end });
    return end.promise;
  };
  const at = (index: number) => {
    const start = starts[index];
    assert.ok(start !== undefined, `load ${index} was not started`);
    return start;
  };
  return { load, starts, at };
}

test('many callers of one key share one load, and one of them is its leader', async () => {
  const { load, starts, at } = controlledLoad();
  const loads = new Coalescer<string>();

  const calls = Array.from({ length: 1000 }, () => run(loads, never, load));
  at(0).end.resolve('body');
  const flights = await Promise.all(calls);

  assert.equal(starts.length, 1);
  assert.ok(flights.every(({ value }) => value === 'body'));
  assert.deepEqual([flights[0]?.isLeader, flights.filter(({ isLeader }) => isLeader).length], [true, 1]);
});

test('callers of different keys load each for themselves', async () => {
  const { load, starts, at } = controlledLoad();
  const loads = new Coalescer<string>();

  const calls = [run(loads, never, load), run(loads, never, load, 'b')];
  at(1).end.resolve('second');
  at(0).end.resolve('first');

  assert.deepEqual(
    (await Promise.all(calls)).map(({ value }) => value),
    ['first', 'second'],
  );
  assert.equal(starts.length, 2);
});

test('a leader that hangs up does not fail its followers, and the one that has waited longest leads', async () => {
  const { load, starts, at } = controlledLoad();
  const loads = new Coalescer<string>();
  const leader = new AbortController();

  const first = run(loads, leader.signal, load);
  const followers = [run(loads, leader.signal, load), run(loads, never, load), run(loads, never, load)];
  leader.abort(new Error('the client hung up'));
  await assert.rejects(first, /the client hung up/);
  await assert.rejects(followers[0] ?? Promise.resolve(), /the client hung up/);
  const isAborted = at(0).signal.aborted;
  at(0).end.resolve('body');

  assert.equal(isAborted, false);
  assert.deepEqual(await Promise.all(followers.slice(1)), [
    { value: 'body', isLeader: true },
    { value: 'body', isLeader: false },
  ]);
  assert.equal(starts.length, 1);
});

test('a load without callers is aborted, and its failure is reported to no caller', async () => {
  const { load, at } = controlledLoad();
  const loads = new Coalescer<string>();
  const clients = [new AbortController(), new AbortController()];

  const calls = clients.map(({ signal }) => assert.rejects(run(loads, signal, load), /gone/));
  clients[0]?.abort(new Error('gone'));
  await calls[0];
  assert.equal(at(0).signal.aborted, false);
  clients[1]?.abort(new Error('gone'));
  await calls[1];

  assert.equal(at(0).signal.aborted, true);
  at(0).end.reject(new Error('unheard'));
});

test('a caller after the abort starts anew and is not disturbed by the end of the old load', async () => {
  const { load, starts, at } = controlledLoad();
  const loads = new Coalescer<string>();
  const first = new AbortController();

  const abandoned = run(loads, first.signal, load);
  first.abort(new Error('gone'));
  await assert.rejects(abandoned, /gone/);
  const second = run(loads, never, load);
  at(0).end.reject(new Error('aborted'));
  await Promise.resolve();
  const third = run(loads, never, load);
  at(1).end.resolve('new');

  assert.deepEqual(await second, { value: 'new', isLeader: true });
  assert.deepEqual(await third, { value: 'new', isLeader: false });
  assert.equal(starts.length, 2);
});

test('a failure reaches every waiting caller and is not stored', async () => {
  const { load, starts, at } = controlledLoad();
  const loads = new Coalescer<string>();

  const calls = [1, 2, 3].map(() => assert.rejects(run(loads, never, load), /no node answered/));
  at(0).end.reject(new Error('no node answered'));
  await Promise.all(calls);
  const next = run(loads, never, load);
  at(1).end.resolve('body');

  assert.equal((await next).value, 'body');
  assert.equal(starts.length, 2);
});

test('a load that throws before its first wait fails its caller and leaves nothing behind', async () => {
  const loads = new Coalescer<string>();
  const broken = run(loads, never, () => {
    throw new Error('broken');
  });
  await assert.rejects(broken, /broken/);
  assert.deepEqual(await run(loads, never, () => Promise.resolve('body')), { value: 'body', isLeader: true });
});

test('an outcome is not kept, and its load is not aborted: the next caller loads again', async () => {
  const { load, at } = controlledLoad();
  const loads = new Coalescer<string>();
  for (const [index, body] of ['first', 'second'].entries()) {
    const call = run(loads, never, load);
    at(index).end.resolve(body);
    assert.deepEqual([(await call).value, at(index).signal.aborted], [body, false]);
  }
});

test('a caller that has hung up already waits for nothing', async () => {
  const { load } = controlledLoad();
  const loads = new Coalescer<string>();
  await assert.rejects(run(loads, AbortSignal.abort(new Error('gone')), load), /gone/);
  await assert.rejects(run(loads, AbortSignal.abort('not an Error'), load), { message: 'aborted' });
});

/** The failure of a load whose client exceeded a bound of its own. */
function refusedFor(client: string): GatewayError {
  return new GatewayError('unavailable', 'full', { reason: 'nodes full', client });
}

test('after a load that its client\u2019s own bound refused, followers of other clients share one more load', async () => {
  const { load, starts, at } = controlledLoad();
  const loads = new Coalescer<string>();

  const [greedy, alike, ...others] = ['a', 'a', 'b', 'c'].map((client) => run(loads, never, load, key, client));
  at(0).end.reject(refusedFor('a'));
  await assert.rejects(Promise.all([greedy, alike]), /full/);
  assert.equal(starts.length, 2);
  at(1).end.resolve('body');

  assert.deepEqual(await Promise.all(others), [
    { value: 'body', isLeader: true },
    { value: 'body', isLeader: false },
  ]);
});

test('a follower joins three loads at most', async () => {
  const { load, starts, at } = controlledLoad();
  const loads = new Coalescer<string>();
  const failed = assert.rejects(run(loads, never, load, key, 'b'), /full/);
  for (let index = 0; index < 3; index += 1) {
    at(index).end.reject(refusedFor('a'));
    await new Promise(setImmediate);
  }
  await failed;
  assert.equal(starts.length, 3);
});

test('more keys than the table has rows share nothing, while they are in flight and after', async () => {
  const loads = new Coalescer<string>();
  const ends = new Map<string, () => void>();
  const keys = Array.from({ length: 10_000 }, (_, index) => `key ${index}`);
  const begin = (name: string): Promise<{ value: string; isLeader: boolean }> =>
    run(loads, never, () => new Promise((resolve) => ends.set(name, () => resolve(name))), name);
  const leaders = keys.map(begin);
  // In an order of no row: every third of those that are left, until none is.
  const followed = keys.map(begin);
  for (let left = keys; left.length > 0; left = left.filter((_, index) => index % 3 !== 0)) {
    for (const [index, name] of left.entries()) if (index % 3 === 0) ends.get(name)?.();
    await new Promise(setImmediate);
  }
  const outcomes = await Promise.all([...leaders, ...followed]);
  assert.deepEqual(
    outcomes,
    [true, false].flatMap((isLeader) => keys.map((value) => ({ value, isLeader }))),
  );
  ends.clear();
  for (const name of keys) void begin(name);
  assert.equal(ends.size, keys.length);
});

/** A load without an end. */
const waiting = (): Promise<string> => new Promise(() => undefined);

test('thousands of callers that leave one load at once cost no more each than hundreds', async () => {
  const count = 50_000;
  /** Ms of the thread in which the callers of so many loads leave, in the order of arrival. */
  const leaveMs = async (keys: number): Promise<number> => {
    const loads = new Coalescer<string>();
    const callers = Array.from({ length: count }, () => new CancelToken());
    const calls = callers.map((caller, index) =>
      assert.rejects(run(loads, caller, waiting, String(index % keys)), /gone/),
    );
    const gone = new Error('gone');
    const before = process.threadCpuUsage();
    for (const caller of callers) caller.abort(gone);
    const { user, system } = process.threadCpuUsage(before);
    await Promise.all(calls);
    return (user + system) / 1_000;
  };
  const [hundreds, thousands] = [await leaveMs(100), await leaveMs(1)];
  assert.ok(thousands < 5 * hundreds, `${thousands} ms, ${hundreds} ms in loads of ${count / 100} callers`);
});
