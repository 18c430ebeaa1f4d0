/** Admin requests: one worker answers for all; a purge reaches every worker before the response. */
import {
  type AdminAnswer,
  type AdminFunctions,
  mergeUsage,
  orFault,
  parsePurgeRequest,
  type PurgeRequest,
} from '../proxy/operations/index.ts';
import type { WorkerPool } from './worker-pool.ts';
import type { WorkerProcess } from './worker-process.ts';

/** Bounds a purge, which scans Redis in steps. */
const purgeMs = 310_000;
const explainMs = 5_000;
const drainMs = 5_000;
const startMs = 30_000;
/** Redis may hold weeks of usage of many keys. */
const usageMs = 30_000;
const noWorker: AdminAnswer = { status: 503, body: { message: 'no worker serves now: try again' } };
const noAnswer: AdminAnswer = { status: 503, body: { message: 'a worker did not answer: try again' } };

/** The admin functions of the gateway. `pool` is read at each request. `drained`: names of drained nodes, for workers that start later. */
export function adminOf(pool: Pick<WorkerPool, 'workers' | 'serving'>, drained: Set<string>): AdminFunctions {
  const serving = () => pool.serving;
  return {
    // Parsed here: a message cannot carry every nesting of a body.
    purge: (request, from) => orFault(async () => purgeAll(serving, parsePurgeRequest(request), from)),
    async setDrained(request) {
      const { upstream, isDrained } = request;
      const wasDrained = drained.has(upstream);
      mark(drained, upstream, isDrained);
      const answers = pool.workers.map(async ({ channel, isServing }) => {
        // A starting worker applies it before its first request.
        const applied = channel.call('setDrained', request, isServing ? drainMs : startMs).catch(() => noAnswer);
        return isServing ? applied : undefined;
      });
      const answered = (await Promise.all(answers)).filter((answer) => answer !== undefined);
      const [first = noWorker] = answered;
      if (first.status !== 200) mark(drained, upstream, wasDrained);
      const inFlight = answered.reduce((sum, { body }) => sum + Number(body['inFlight'] ?? 0), 0);
      const failed = answered.find(({ status }) => status !== 200);
      return failed ?? { ...first, body: { ...first.body, inFlight } };
    },
    async explain(request) {
      const [chosen] = serving();
      if (chosen === undefined) return noWorker;
      return chosen.channel.call('explain', request, explainMs).catch(() => noAnswer);
    },
    async usage(request) {
      const [chosen, ...others] = serving();
      if (chosen === undefined) return noWorker;
      const ask = ({ channel }: WorkerProcess) => channel.call('usage', request, usageMs).catch(() => noAnswer);
      const answer = await ask(chosen);
      // Redis has the usage of all workers.
      if (answer.status !== 200 || answer.body['source'] !== 'memory') return answer;
      return { ...answer, body: mergeUsage(answer.body, await Promise.all(others.map(ask))) };
    },
  };
}

function mark(names: Set<string>, name: string, isIn: boolean): void {
  if (isIn) names.add(name);
  else names.delete(name);
}

async function purgeAll(
  serving: () => readonly WorkerProcess[],
  request: PurgeRequest,
  from: string,
): Promise<AdminAnswer> {
  const [chosen] = serving();
  if (chosen === undefined) return noWorker;
  const purgeOthers = () =>
    Promise.all(serving().flatMap((worker) => (worker === chosen ? [] : [purgeHere(worker, request)])));
  // The others first: no worker may write a held answer back to Redis.
  const before = await purgeOthers();
  const answer = await chosen.channel.call('purge', { request, from }, purgeMs).catch(() => noAnswer);
  // And again, with workers that started meanwhile: they may have read answers that Redis still had, and the chosen one
  // theirs from the store.
  const after = [...(await purgeOthers()), await purgeHere(chosen, request)];
  return answer.status === 200 ? { ...answer, body: withOthers(answer.body, [...before, ...after]) } : answer;
}

/** The number of reads that the worker dropped; `undefined` without an answer. */
async function purgeHere({ channel }: WorkerProcess, request: PurgeRequest): Promise<number | undefined> {
  const answer = await channel.call('purgeHere', request, purgeMs).catch(() => undefined);
  const memory = answer?.body['memory'];
  return typeof memory === 'number' ? memory : undefined;
}

function withOthers(body: AdminAnswer['body'], dropped: readonly (number | undefined)[]): AdminAnswer['body'] {
  const memory = dropped.reduce<number>((sum, reads) => sum + (reads ?? 0), Number(body['memory']));
  return { ...body, complete: body['complete'] === true && !dropped.includes(undefined), memory };
}
