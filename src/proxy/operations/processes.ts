/** The operations of several processes as those of one: a purge reaches every process before the response. */
import { type FamilyData, Journal } from '../../metrics/index.ts';
import { type AdminAnswer, orFault } from './admin-request.ts';
import type { OperationsSource } from './operations-server.ts';
import { parsePurgeRequest, type ProcessOperations, type PurgeRequest } from './process.ts';
import { mergeReadiness, mergeStatus, type Readiness } from './status/report.ts';
import { mergeUsage } from './usage-report.ts';

/** The calls of another process, each with the longest wait for its answer in ms. */
export const callMs = {
  // Clients of the operations port wait for a second or more; a report leaves out a slower process.
  readiness: 800,
  report: 800,
  families: 800,
  // Scans Redis in steps.
  purge: 310_000,
  purgeHere: 310_000,
  setDrained: 5_000,
  explain: 5_000,
  // Redis may hold weeks of usage of many keys.
  usage: 30_000,
  // The wait for another writer of the file, a silent Redis, and the other processes.
  keys: 10_000,
} as const satisfies Partial<Record<keyof ProcessOperations, number>>;

type Calls = keyof typeof callMs;

/** The operations of a serving process, called from another one; a call without an answer in time rejects. */
export type ProcessCalls = {
  readonly [Call in Calls]: (
    ...given: Parameters<ProcessOperations[Call]>
  ) => Promise<Awaited<ReturnType<ProcessOperations[Call]>>>;
};

/** Every call by one function, which gets its name and its argument. */
export function processCalls(call: (name: Calls, argument: never) => Promise<unknown>): ProcessCalls {
  const names = Object.keys(callMs) as Calls[];
  return Object.fromEntries(names.map((name) => [name, (argument: never) => call(name, argument)])) as ProcessCalls;
}

/** A process that serves, or starts. */
interface ServingProcess {
  readonly id: number;
  readonly isServing: boolean;
  readonly operations: ProcessCalls;
}

interface ProcessesParts {
  readonly wanted: number;
  /** The workers of now, starting ones included. */
  readonly processes: () => readonly ServingProcess[];
  /** Joins the families of the processes that answered, by their ids. */
  readonly families: (reports: ReadonlyMap<number, readonly FamilyData[]>) => Promise<readonly FamilyData[]>;
  /** Events of the calling process. */
  readonly journal: Journal;
  /** Names of drained nodes, for processes that start later. */
  readonly drained: Set<string>;
}

const noWorker: AdminAnswer = { status: 503, body: { message: 'no worker serves now: try again' } };
const noAnswer: AdminAnswer = { status: 503, body: { message: 'a worker did not answer: try again' } };

/** Joins the operations of processes: reports add up, and one process answers for all where each could. */
export function joinProcesses({ wanted, processes, families, journal, drained }: ProcessesParts): OperationsSource {
  const startedAtMs = Date.now();
  let nodes: Readiness['nodes'] = [];
  const serving = () => processes().filter(({ isServing }) => isServing);
  /** The answers in time, by process. */
  const askAll = async <Answer>(ask: (operations: ProcessCalls) => Promise<Answer>) => {
    const asked = serving();
    const answers = await Promise.allSettled(
      asked.map(async ({ id, operations }) => [id, await ask(operations)] as const),
    );
    // A process that exited meanwhile serves no more.
    const isCounted = (at: number) => asked[at]?.isServing === true;
    return new Map(answers.flatMap((one, at) => (one.status === 'fulfilled' && isCounted(at) ? [one.value] : [])));
  };
  const askOne = (ask: (operations: ProcessCalls) => Promise<AdminAnswer>): Promise<AdminAnswer> => {
    const [chosen] = serving();
    return chosen === undefined ? Promise.resolve(noWorker) : ask(chosen.operations).catch(() => noAnswer);
  };
  return {
    families: async () => families(await askAll((operations) => operations.families())),
    nodes: () => nodes,
    async readiness() {
      const reports = [...(await askAll((operations) => operations.readiness())).values()];
      const ready = reports.filter(({ isReady }) => isReady).length;
      const merged = mergeReadiness(reports);
      nodes = merged.nodes;
      return { ...merged, workers: { wanted, answering: reports.length, ready } };
    },
    async report() {
      const reports = [...(await askAll((operations) => operations.report())).values()];
      const merged = mergeStatus(reports.map(({ status }) => status));
      return {
        status: merged && { ...merged, startedAtMs, events: Journal.merge([merged.events, journal.events]) },
        workers: { wanted, answering: reports.length },
      };
    },
    // Parsed here: a message cannot carry every nesting of a body.
    purge: ({ request, from }) => orFault(async () => purgeAll(serving, parsePurgeRequest(request), from)),
    async setDrained(request) {
      const { upstream, isDrained } = request;
      const wasDrained = drained.has(upstream);
      mark(drained, upstream, isDrained);
      const answers = processes().map(async ({ operations, isServing }) => {
        // A starting process applies it before its first request.
        const applied = operations.setDrained(request).catch(() => noAnswer);
        return isServing ? applied : undefined;
      });
      const answered = (await Promise.all(answers)).filter((answer) => answer !== undefined);
      const [first = noWorker] = answered;
      if (first.status !== 200) mark(drained, upstream, wasDrained);
      const inFlight = answered.reduce((sum, { body }) => sum + Number(body['inFlight'] ?? 0), 0);
      const failed = answered.find(({ status }) => status !== 200);
      return failed ?? { ...first, body: { ...first.body, inFlight } };
    },
    explain: (request) => askOne(({ explain }) => explain(request)),
    // It has the others apply a change before it answers.
    keys: (request) => askOne(({ keys }) => keys(request)),
    async usage(request) {
      const [chosen, ...others] = serving();
      const ask = ({ operations }: ServingProcess) => operations.usage(request).catch(() => noAnswer);
      const answer = chosen === undefined ? noWorker : await ask(chosen);
      // Redis has the usage of all processes.
      if (chosen === undefined || answer.status !== 200 || answer.body['source'] !== 'memory') return answer;
      const answers = [answer, ...(await Promise.all(others.map(ask)))];
      const whole = [chosen, ...others].find((_, at) => answers[at]?.body['complete'] === true);
      // While Redis is away, each has its own.
      if (whole === undefined) return { ...answer, body: mergeUsage(answer.body, answers.slice(1)) };
      // The primary has that of all: here with the reports that the questions have caused.
      const again = await ask(whole);
      const isComplete = [...answers, again].every(({ body }) => body['complete'] === true);
      return again.status === 200 ? { ...again, body: { ...again.body, complete: isComplete } } : again;
    },
  };
}

function mark(names: Set<string>, name: string, isIn: boolean): void {
  if (isIn) names.add(name);
  else names.delete(name);
}

async function purgeAll(
  serving: () => readonly ServingProcess[],
  request: PurgeRequest,
  from: string,
): Promise<AdminAnswer> {
  const [chosen] = serving();
  if (chosen === undefined) return noWorker;
  const purgeOthers = () =>
    Promise.all(serving().flatMap((other) => (other === chosen ? [] : [purgeHere(other, request)])));
  // The others first: no process may write a held answer back to Redis.
  const before = await purgeOthers();
  const answer = await chosen.operations.purge({ request, from }).catch(() => noAnswer);
  // And again, with processes that started meanwhile: they may have read answers that Redis still had, and the chosen one
  // theirs from the store.
  const after = [...(await purgeOthers()), await purgeHere(chosen, request)];
  return answer.status === 200 ? { ...answer, body: withOthers(answer.body, [...before, ...after]) } : answer;
}

/** The number of reads that the process dropped; `undefined` without an answer. */
async function purgeHere({ operations }: ServingProcess, request: PurgeRequest): Promise<number | undefined> {
  const answer = await operations.purgeHere(request).catch(() => undefined);
  const memory = answer?.body['memory'];
  return typeof memory === 'number' ? memory : undefined;
}

function withOthers(body: AdminAnswer['body'], dropped: readonly (number | undefined)[]): AdminAnswer['body'] {
  const memory = dropped.reduce<number>((sum, reads) => sum + (reads ?? 0), Number(body['memory']));
  return { ...body, complete: body['complete'] === true && !dropped.includes(undefined), memory };
}
