import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Coalescer } from '../../src/cache/coalesce.ts';
import type { CancelSignal } from '../../src/ledger/stop.ts';

const key = 'a';
const never = new AbortController().signal;

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

  const calls = Array.from({ length: 1000 }, () => loads.run(key, never, load));
  at(0).end.resolve('body');
  const flights = await Promise.all(calls);

  assert.equal(starts.length, 1);
  assert.ok(flights.every(({ value }) => value === 'body'));
  assert.deepEqual([flights[0]?.isLeader, flights.filter(({ isLeader }) => isLeader).length], [true, 1]);
});

test('callers of different keys load each for themselves', async () => {
  const { load, starts, at } = controlledLoad();
  const loads = new Coalescer<string>();

  const calls = [loads.run(key, never, load), loads.run('b', never, load)];
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

  const first = loads.run(key, leader.signal, load);
  const followers = [loads.run(key, leader.signal, load), loads.run(key, never, load), loads.run(key, never, load)];
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

  const calls = clients.map(({ signal }) => assert.rejects(loads.run(key, signal, load), /gone/));
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

  const abandoned = loads.run(key, first.signal, load);
  first.abort(new Error('gone'));
  await assert.rejects(abandoned, /gone/);
  const second = loads.run(key, never, load);
  at(0).end.reject(new Error('aborted'));
  await Promise.resolve();
  const third = loads.run(key, never, load);
  at(1).end.resolve('new');

  assert.deepEqual(await second, { value: 'new', isLeader: true });
  assert.deepEqual(await third, { value: 'new', isLeader: false });
  assert.equal(starts.length, 2);
});

test('a failure reaches every waiting caller and is not stored', async () => {
  const { load, starts, at } = controlledLoad();
  const loads = new Coalescer<string>();

  const calls = [1, 2, 3].map(() => assert.rejects(loads.run(key, never, load), /no node answered/));
  at(0).end.reject(new Error('no node answered'));
  await Promise.all(calls);
  const next = loads.run(key, never, load);
  at(1).end.resolve('body');

  assert.equal((await next).value, 'body');
  assert.equal(starts.length, 2);
});

test('a load that throws before its first wait fails its caller and leaves nothing behind', async () => {
  const loads = new Coalescer<string>();
  const broken = loads.run(key, never, () => {
    throw new Error('broken');
  });
  await assert.rejects(broken, /broken/);
  assert.deepEqual(await loads.run(key, never, () => Promise.resolve('body')), { value: 'body', isLeader: true });
});

test('an outcome is not kept: the next caller loads again', async () => {
  const loads = new Coalescer<number>();
  let count = 0;
  const load = (): Promise<number> => Promise.resolve((count += 1));
  assert.equal((await loads.run(key, never, load)).value, 1);
  assert.equal((await loads.run(key, never, load)).value, 2);
});

test('a caller that has hung up already waits for nothing', async () => {
  const { load } = controlledLoad();
  const loads = new Coalescer<string>();
  await assert.rejects(loads.run(key, AbortSignal.abort(new Error('gone')), load), /gone/);
  await assert.rejects(loads.run(key, AbortSignal.abort('not an Error'), load), { message: 'aborted' });
});

test('a load that has an outcome is not aborted afterwards', async () => {
  const { load, at } = controlledLoad();
  const loads = new Coalescer<string>();

  const call = loads.run(key, never, load);
  at(0).end.resolve('body');
  await call;

  assert.equal(at(0).signal.aborted, false);
});
