/** Operators' requests, handed to the workers: one of them speaks for all, the others forget what they hold. */
import type { AdminFunctions } from '../proxy/admin-routes.ts';
import { AdminFault, parsePurgeRequest, type AdminAnswer, type PurgeRequest } from '../proxy/purge-request.ts';
import type { Crew } from './crew.ts';
import type { Member } from './forked.ts';
import { mergeUsage } from '../proxy/usage-report.ts';

/** Redis is looked through in steps; operators wait for it. */
const purgeMs = 310_000;
const explainMs = 5_000;
/** Weeks of many keys are read from Redis. */
const usageMs = 30_000;
const nobody: AdminAnswer = { status: 503, body: { message: 'no worker serves now: try again' } };
const silent: AdminAnswer = { status: 503, body: { message: 'a worker did not answer: try again' } };

/** `crew` is asked at each request: workers come and go. */
export function adminOf(crew: () => Crew): AdminFunctions {
  return {
    // Only what has the form of a request is handed on: a body may hold more than a message can.
    purge: (request, from) => {
      try {
        return purgeAll(crew, parsePurgeRequest(request), from);
      } catch (error) {
        if (!(error instanceof AdminFault)) throw error;
        return Promise.resolve({ status: error.status, body: { message: error.message } });
      }
    },
    async explain(request) {
      const [speaker] = crew().serving;
      if (speaker === undefined) return nobody;
      return speaker.channel.call('explain', request, explainMs).catch(() => silent);
    },
    async usage(request) {
      const [speaker, ...others] = crew().serving;
      if (speaker === undefined) return nobody;
      const ask = ({ channel }: Member) => channel.call('usage', request, usageMs).catch(() => silent);
      const answer = await ask(speaker);
      // What is in Redis is of all.
      if (answer.status !== 200 || answer.body['source'] !== 'memory') return answer;
      return { ...answer, body: mergeUsage(answer.body, await Promise.all(others.map(ask))) };
    },
  };
}

async function purgeAll(crew: () => Crew, request: PurgeRequest, from: string): Promise<AdminAnswer> {
  const [speaker] = crew().serving;
  if (speaker === undefined) return nobody;
  const forgetAtOthers = () =>
    Promise.all(crew().serving.flatMap((member) => (member === speaker ? [] : [forget(member, request)])));
  // The others first: what they forget must not come back from Redis.
  const before = await forgetAtOthers();
  const answer = await speaker.channel.call('purge', { request, from }, purgeMs).catch(() => silent);
  // And again, with those that have come meanwhile: what was read of Redis until now was purged there only afterwards.
  const after = await forgetAtOthers();
  return answer.status === 200 ? { ...answer, body: withOthers(answer.body, [...before, ...after]) } : answer;
}

/** The number of reads a worker forgot; `undefined` when it did not answer. */
async function forget({ channel }: Member, request: PurgeRequest): Promise<number | undefined> {
  const answer = await channel.call('purgeHere', request, purgeMs).catch(() => undefined);
  const memory = answer?.body['memory'];
  return typeof memory === 'number' ? memory : undefined;
}

function withOthers(body: AdminAnswer['body'], forgotten: readonly (number | undefined)[]): AdminAnswer['body'] {
  const memory = forgotten.reduce<number>((sum, reads) => sum + (reads ?? 0), Number(body['memory']));
  return { ...body, complete: body['complete'] === true && !forgotten.includes(undefined), memory };
}
