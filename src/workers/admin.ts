/** Operators' requests, handed to the workers: one of them speaks for all, the others forget what they hold. */
import type { AdminAnswer } from '../proxy/admin.ts';
import type { AdminFunctions } from '../proxy/admin-routes.ts';
import type { Crew, Member } from './crew.ts';

/** Redis is looked through in steps; operators wait for it. */
const purgeMs = 310_000;
const explainMs = 5_000;
const nobody: AdminAnswer = { status: 503, body: { message: 'no worker serves now: try again' } };

/** `crew` is asked at each request: workers come and go. */
export function adminOf(crew: () => Crew): AdminFunctions {
  return {
    async purge(request, from) {
      const [speaker, ...others] = crew().serving;
      if (speaker === undefined) return nobody;
      // The others first: what they forget must not come back from Redis.
      const forgotten = await Promise.all(others.map((member) => forget(member, request)));
      const answer = await speaker.channel.call('purge', { request, from }, purgeMs);
      // And again: what they read of Redis meanwhile was purged there after they had forgotten it.
      await Promise.all(others.map((member) => forget(member, request)));
      return answer.status === 200 ? { ...answer, body: withOthers(answer.body, forgotten) } : answer;
    },
    async explain(request) {
      const [speaker] = crew().serving;
      return speaker === undefined ? nobody : speaker.channel.call('explain', request, explainMs);
    },
  };
}

/** The number of reads a worker forgot; `undefined` when it did not answer. */
async function forget({ channel }: Member, request: unknown): Promise<number | undefined> {
  const answer = await channel.call('purgeHere', request, purgeMs).catch(() => undefined);
  const memory = answer?.body['memory'];
  return typeof memory === 'number' ? memory : undefined;
}

function withOthers(body: AdminAnswer['body'], forgotten: readonly (number | undefined)[]): AdminAnswer['body'] {
  const memory = forgotten.reduce<number>((sum, reads) => sum + (reads ?? 0), Number(body['memory']));
  return { ...body, complete: body['complete'] === true && !forgotten.includes(undefined), memory };
}
