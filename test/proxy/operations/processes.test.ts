/** The operations of several processes as those of one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Journal } from '../../../src/metrics/journal.ts';
import type { AdminAnswer } from '../../../src/proxy/operations/admin-request.ts';
import { joinProcesses, type ProcessCalls } from '../../../src/proxy/operations/processes.ts';
import { nodeStatus, processStatus } from '../../support/process-status.ts';

const answer = (body: AdminAnswer['body']): AdminAnswer => ({ status: 200, body });
const nothing = (): void => undefined;
const families = () => Promise.resolve([]);
const unknown = () => Promise.resolve({ status: 404, body: {} });
const silent = (): Promise<never> => Promise.reject(new Error('no answer within 800 ms'));

let lastId = 0;

/** A process that answers everything, and notes the calls that change something in `calls`. */
function processOf(name: string, calls: string[], own: Partial<ProcessCalls> = {}) {
  const operations: ProcessCalls = {
    readiness: () => Promise.resolve(processStatus()),
    report: () => Promise.resolve({ status: processStatus() }),
    families,
    purge: () => {
      calls.push(`${name} purge`);
      return Promise.resolve(answer({ purged: 'everything', complete: true, memory: 1 }));
    },
    purgeHere: () => {
      calls.push(`${name} purgeHere`);
      return Promise.resolve(answer({ memory: 2 }));
    },
    setDrained: () => Promise.resolve(answer({ upstream: 'a', isDrained: true, inFlight: 3 })),
    explain: () => Promise.resolve(answer({ route: name })),
    usage: () => Promise.resolve(answer({ source: 'memory', complete: true, rows: [] })),
    keys: () => Promise.resolve(answer({ keys: [], problems: [] })),
    ...own,
  };
  return { id: (lastId += 1), isServing: true, operations };
}

function joined(processes: readonly ReturnType<typeof processOf>[], drained = new Set<string>()) {
  const journal = new Journal({ debug: nothing, info: nothing, warn: nothing, error: nothing });
  const source = joinProcesses({ wanted: 3, processes: () => processes, families, journal, drained });
  return { source, journal, drained };
}

const purge = { request: { everything: true }, from: '10.0.0.1' };
const drain = { upstream: 'a', isDrained: true, from: '10.0.0.1' };

test('a process that gives no answer, starts, or exited meanwhile is not counted', async () => {
  const leaving = processOf('leaving', [], {
    readiness: () => {
      leaving.isServing = false;
      return Promise.resolve(processStatus());
    },
  });
  const starting = { ...processOf('starting', []), isServing: false };
  const { source } = joined([processOf('a', []), processOf('b', [], { readiness: silent }), leaving, starting]);

  const { workers, isReady } = await source.readiness();

  assert.deepEqual([workers, isReady], [{ wanted: 3, answering: 1, ready: 1 }, true]);
});

test('the nodes are those that were last reported', async () => {
  const nodes = [nodeStatus({ name: 'new' })];
  const { source } = joined([processOf('a', [], { readiness: () => Promise.resolve(processStatus({ nodes })) })]);

  assert.deepEqual(source.nodes(), []);
  await source.readiness();
  assert.deepEqual(
    source.nodes().map(({ name }) => name),
    ['new'],
  );
});

test('without an answer there is no status, and with one the events of the primary are among its own', async () => {
  const { source, journal } = joined([processOf('a', [])]);
  journal.note('worker lost', { worker: 7 });

  const { status } = await source.report();
  const none = await joined([processOf('a', [], { report: silent })]).source.report();

  assert.deepEqual(
    status?.events.map(({ kind }) => kind),
    ['worker lost'],
  );
  assert.deepEqual(none, { status: undefined, workers: { wanted: 3, answering: 0 } });
});

test('one process purges for all, the others ahead of it and after it', async () => {
  const calls: string[] = [];
  const { source } = joined([processOf('a', calls), processOf('b', calls)]);

  const { body } = await source.purge(purge);

  assert.deepEqual(calls, ['b purgeHere', 'a purge', 'b purgeHere', 'a purgeHere']);
  assert.deepEqual(body, { purged: 'everything', complete: true, memory: 1 + 2 + 2 + 2 });
});

test('a purge that a process does not confirm is incomplete, and a malformed one reaches none', async () => {
  const calls: string[] = [];
  const { source } = joined([processOf('a', calls), processOf('b', calls, { purgeHere: silent })]);

  assert.equal((await source.purge(purge)).body['complete'], false);
  calls.length = 0;
  assert.equal((await source.purge({ ...purge, request: {} })).status, 400);
  assert.deepEqual(calls, []);
});

test('a node is drained in all processes, and for later ones unless the first refuses', async () => {
  const two = joined([processOf('a', []), processOf('b', [])]);
  assert.equal((await two.source.setDrained(drain)).body['inFlight'], 6);
  assert.deepEqual([...two.drained], ['a']);

  const one = joined([processOf('a', [], { setDrained: unknown })]);
  assert.equal((await one.source.setDrained(drain)).status, 404);
  assert.deepEqual([...one.drained], []);
});

test('usage that one process does not report is incomplete; Redis has that of all', async () => {
  const { source } = joined([processOf('a', []), processOf('b', [], { usage: silent })]);
  assert.equal((await source.usage({})).body['complete'], false);

  const ofRedis = answer({ source: 'redis', complete: true, rows: [] });
  const shared = joined([processOf('a', [], { usage: () => Promise.resolve(ofRedis) }), processOf('b', [])]);
  assert.equal(await shared.source.usage({}), ofRedis);
});

test('without a serving process every request is answered 503', async () => {
  const { source } = joined([]);
  const answers = [source.purge(purge), source.setDrained(drain), source.explain({}), source.usage({})];

  assert.deepEqual(
    (await Promise.all(answers)).map(({ status }) => status),
    [503, 503, 503, 503],
  );
});
