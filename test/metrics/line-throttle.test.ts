import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Journal, type LineLog } from '../../src/metrics/journal.ts';

function watched(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const lines: string[] = [];
  const write =
    (level: string) =>
    ({ upstream, times }: { readonly upstream?: string; readonly times?: number }, message: string): void =>
      void lines.push([level, upstream, message, times].filter((part) => part !== undefined).join(' '));
  const log: LineLog = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  const down = (upstream: string) => journal.record('node down', { upstream }, 'upstream is down');
  const usable = (upstream: string) => journal.record('node usable', { upstream }, 'upstream is usable');
  const journal = new Journal(log);
  return { lines, pass: (ms: number) => t.mock.timers.tick(ms), journal, down, usable };
}

test('a change now and then is logged at once, each time', (t) => {
  const { lines, pass, down } = watched(t);
  for (let hour = 0; hour < 30; hour += 1) {
    down('a');
    pass(3_600_000);
  }
  assert.equal(lines.length, 30);
});

test('a node that flaps has a few lines, then one in ten seconds, and the log ends with the present state', (t) => {
  const { lines, pass, down, usable } = watched(t);
  for (let index = 0; index < 500; index += 1) {
    down('a');
    pass(1);
    usable('a');
  }
  usable('b');
  assert.equal(lines.length, 11, 'another node has lines of its own');

  pass(10_000);
  assert.deepEqual(lines.slice(11), ['info a upstream is usable 990']);
  down('a');
  assert.equal(lines.length, 12);
  pass(10_000);
  assert.deepEqual(lines.slice(12), ['warn a upstream is down 1']);
  pass(3_600_000);
  assert.equal(lines.length, 13, 'no line is written without an event');
});

test('debug lines are not throttled', (t) => {
  const { lines, journal } = watched(t);
  for (let index = 0; index < 50; index += 1) journal.debug({}, 'attempt failed');
  assert.equal(lines.length, 50);
});

test('each purge is a line, and each pair of nodes that disagree has 100', (t) => {
  const { lines, pass, journal } = watched(t);
  for (let index = 0; index < 50; index += 1) journal.record('purge', { purge: `account 1 0x${index}` }, 'purged');
  assert.equal(lines.length, 50);

  const differ = (other: string) => journal.record('disagreement', { upstream: 'a', other }, 'two upstreams differ');
  for (let index = 0; index < 1_000; index += 1) differ('b');
  differ('c');
  assert.equal(lines.length, 50 + 100 + 1);
  pass(10_000);
  assert.deepEqual(lines.slice(151), ['error a two upstreams differ 900']);
});

test('the lines of one kind stay bounded when every event is about another thing', (t) => {
  const { lines, pass, journal } = watched(t);
  const mismatch = (index: number) => journal.record('encode mismatch', { functionId: `0x1::a::f${index}` }, 'differs');
  for (let index = 0; index < 5_000; index += 1) mismatch(index);
  assert.equal(lines.length, 1_010);
  pass(10_000);
  assert.deepEqual(lines.slice(1_010), ['error differs 3990']);
});
