import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { SteadyLog, type Lines } from '../../src/gateway/steady-log.ts';

function watched(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const lines: string[] = [];
  let nowMs = 0;
  const tell =
    (level: string) =>
    ({ upstream, times }: { readonly upstream?: string; readonly times?: number }, message: string): void =>
      void lines.push([level, upstream, message, times].filter((part) => part !== undefined).join(' '));
  const log: Lines = { debug: tell('debug'), info: tell('info'), warn: tell('warn'), error: tell('error') };
  const pass = (ms: number): void => {
    nowMs += ms;
    t.mock.timers.tick(ms);
  };
  return { lines, pass, steady: new SteadyLog(log, () => nowMs) };
}

test('a change now and then is told at once, each time', (t) => {
  const { lines, pass, steady } = watched(t);
  for (let hour = 0; hour < 30; hour += 1) {
    steady.warn({ upstream: 'a' }, 'upstream is down');
    pass(3_600_000);
  }
  assert.equal(lines.length, 30);
});

test('what changes all the time is told a few times, then once in ten seconds, and the last word is always told', (t) => {
  const { lines, pass, steady } = watched(t);
  for (let index = 0; index < 500; index += 1) {
    steady.warn({ upstream: 'a' }, 'upstream is down');
    pass(1);
    steady.info({ upstream: 'a' }, 'upstream is usable');
  }
  steady.info({ upstream: 'b' }, 'upstream is usable');
  assert.equal(lines.length, 11, 'another node has lines of its own');

  pass(10_000);
  assert.deepEqual(lines.slice(11), ['info a upstream is usable 990']);
  pass(3_600_000);
  assert.equal(lines.length, 12, 'nothing is told that is not so');
});

test('lines for people who look for details are all told', (t) => {
  const { lines, steady } = watched(t);
  for (let index = 0; index < 50; index += 1) steady.debug({}, 'attempt failed');
  assert.equal(lines.length, 50);
});

test('what operators have done is told each time, and of nodes that disagree each pair has lines of its own', (t) => {
  const { lines, pass, steady } = watched(t);
  for (let index = 0; index < 50; index += 1) steady.info({ purge: `account 1 0x${index}` }, 'purged');
  assert.equal(lines.length, 50);

  const differ = 'two upstreams answer a pinned read differently: it is dropped';
  for (let index = 0; index < 1_000; index += 1) steady.error({ upstream: 'a', other: 'b' }, differ);
  steady.error({ upstream: 'a', other: 'c' }, differ);
  assert.equal(lines.length, 50 + 100 + 1);
  pass(10_000);
  assert.deepEqual(lines.slice(151), [`error a ${differ} 900`]);
});
