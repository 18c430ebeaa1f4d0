import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { eventKinds, eventText, type EventKind } from '../../src/metrics/event-kinds.ts';
import { Journal, type StatusEvent } from '../../src/metrics/journal.ts';

type Line = readonly [level: string, fields: object, message: string];

function journalOf(now = () => 0) {
  const lines: Line[] = [];
  const to = (level: string) => (fields: object, message: string) => void lines.push([level, fields, message]);
  const journal = new Journal({ debug: to('debug'), info: to('info'), warn: to('warn'), error: to('error') }, now);
  return { journal, lines };
}

test('a change is logged whole, and kept with the fields of its kind', () => {
  const { journal, lines } = journalOf(() => 7);
  const fields = { upstream: 'full-a', kind: 'connection', cause: 'Error: connect ECONNREFUSED 10.0.0.9:8080' };

  journal.record('node down', fields, 'upstream is down');

  assert.deepEqual(lines, [['warn', fields, 'upstream is down']]);
  assert.deepEqual(journal.events, [{ atMs: 7, kind: 'node down', fields: { upstream: 'full-a' } }]);
});

test('the last 200 are kept, oldest first, and long texts are cut', () => {
  const { journal } = journalOf();
  for (let turn = 0; turn < 450; turn += 1) journal.note('worker lost', { worker: turn });

  assert.deepEqual(
    journal.events.map(({ fields }) => Number(fields['worker'])),
    Array.from({ length: 200 }, (_, index) => 250 + index),
  );
  journal.note('config applied', { keys: Array.from({ length: 5_000 }, () => 'upstream.timeout') });
  journal.note('encode mismatch', { functionId: 'x'.repeat(100_000), upstream: 'a' });
  for (const { kind, fields } of journal.events.slice(-2)) assert.ok(eventText(kind, fields).length < 400);
});

test('a flapping node leaves room for other events', () => {
  const { journal, lines } = journalOf();
  journal.note('encode mismatch', { functionId: '0x1::a::b', upstream: 'full-a' });
  for (let turn = 0; turn < 1_000; turn += 1) {
    journal.record('node down', { upstream: 'full-a' }, 'upstream is down');
    journal.note('node usable', { upstream: 'full-a' });
  }
  journal.note('node down', { upstream: 'full-b' });

  assert.equal(lines.length, 10, 'log lines are bounded');
  const kinds = journal.events.map(({ kind, fields }) => `${kind} ${fields['upstream']}`);
  assert.deepEqual(
    [kinds[0], kinds.at(-2), kinds.at(-1)],
    ['encode mismatch full-a', 'node usable full-a', 'node down full-b'],
  );
  assert.equal(kinds.length, 1 + 20 + 20 + 1);
});

test('every kind has a text, with any field missing', () => {
  for (const kind of Object.keys(eventKinds) as EventKind[]) {
    assert.match(eventText(kind, {}), /\w/);
  }
});

const at = (atMs: number, upstream: string, kind: EventKind = 'node down'): StatusEvent => ({
  atMs,
  kind,
  fields: { upstream },
});

test('equal events of several workers within two seconds are one event', () => {
  const merged = Journal.merge([
    [at(1_000, 'a'), at(9_000, 'a')],
    [at(1_400, 'a'), at(1_500, 'b')],
    [at(2_900, 'a'), at(3_100, 'a', 'node usable')],
  ]);

  assert.deepEqual(merged, [
    { ...at(1_000, 'a'), workers: 3 },
    at(1_500, 'b'),
    at(3_100, 'a', 'node usable'),
    at(9_000, 'a'),
  ]);
});

test('equal events of one worker are two events', () => {
  assert.equal(Journal.merge([[at(1_000, 'a'), at(1_100, 'a')]]).length, 2);
});

const many = (name: string) => Array.from({ length: 200 }, (_, index) => at(index * 10_000, `${name}${index}`));

test('merged journals are bounded, too', () => {
  assert.equal(Journal.merge([many('a'), many('b'), many('c')]).length, 200);
});

const textOf = ([level, fields, message]: Line): string =>
  [level, Reflect.get(fields, 'upstream'), message, Reflect.get(fields, 'times')].filter(Boolean).join(' ');

/** A journal whose log has its lines as texts, with level, node and number. */
function throttled(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { journal, lines: all } = journalOf();
  const down = (upstream: string) => journal.record('node down', { upstream }, 'upstream is down');
  const usable = (upstream: string) => journal.record('node usable', { upstream }, 'upstream is usable');
  return { lines: () => all.map(textOf), pass: (ms: number) => t.mock.timers.tick(ms), journal, down, usable };
}

test('a change now and then is logged at once, each time', (t) => {
  const { lines, pass, down } = throttled(t);
  for (let hour = 0; hour < 30; hour += 1) {
    down('a');
    pass(3_600_000);
  }
  assert.equal(lines().length, 30);
});

test('a node that flaps has a few lines, then one in ten seconds, and the log ends with the present state', (t) => {
  const { lines, pass, down, usable } = throttled(t);
  for (let index = 0; index < 500; index += 1) {
    down('a');
    pass(1);
    usable('a');
  }
  usable('b');
  assert.equal(lines().length, 11, 'another node has lines of its own');

  pass(10_000);
  assert.deepEqual(lines().slice(11), ['info a upstream is usable 990']);
  down('a');
  assert.equal(lines().length, 12);
  pass(10_000);
  assert.deepEqual(lines().slice(12), ['warn a upstream is down 1']);
  pass(3_600_000);
  assert.equal(lines().length, 13, 'no line is written without an event');
});

test('debug lines are not throttled', (t) => {
  const { lines, journal } = throttled(t);
  for (let index = 0; index < 50; index += 1) journal.debug({}, 'attempt failed');
  assert.equal(lines().length, 50);
});

test('each purge is a line, and each pair of nodes that disagree has 100', (t) => {
  const { lines, pass, journal } = throttled(t);
  for (let index = 0; index < 50; index += 1) journal.record('purge', { purge: `account 1 0x${index}` }, 'purged');
  assert.equal(lines().length, 50);

  const differ = (other: string) => journal.record('disagreement', { upstream: 'a', other }, 'two upstreams differ');
  for (let index = 0; index < 1_000; index += 1) differ('b');
  differ('c');
  assert.equal(lines().length, 50 + 100 + 1);
  pass(10_000);
  assert.deepEqual(lines().slice(151), ['error a two upstreams differ 900']);
});

test('the lines of one kind stay bounded when every event is about another thing', (t) => {
  const { lines, pass, journal } = throttled(t);
  const mismatch = (index: number) => journal.record('encode mismatch', { functionId: `0x1::a::f${index}` }, 'differs');
  for (let index = 0; index < 5_000; index += 1) mismatch(index);
  assert.equal(lines().length, 1_010);
  pass(10_000);
  assert.deepEqual(lines().slice(1_010), ['error differs 3990']);
});
