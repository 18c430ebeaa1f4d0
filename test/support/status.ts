/** State of a gateway from its operations port. */
import type { StatusFacts } from '../../src/proxy/operations/status/present.ts';
import { eventually } from './eventually.ts';
import { fetchReply } from './gateway.ts';

export async function statusOf({ operationsUrl }: { readonly operationsUrl: string }): Promise<StatusFacts> {
  const { text } = await fetchReply(`${operationsUrl}/status.json`, { method: 'GET' });
  return JSON.parse(text) as StatusFacts;
}

/** The first status that `isWanted` takes. */
export function statusWhen(
  gateway: Parameters<typeof statusOf>[0],
  isWanted: (facts: StatusFacts) => boolean,
): Promise<StatusFacts> {
  return eventually(() => statusOf(gateway), isWanted);
}

/** Kinds of the events, newest first, of one node or of whatever they are about. */
export function kindsOf({ events }: StatusFacts, upstream?: string): readonly string[] {
  return events.flatMap(({ kind, fields }) =>
    upstream === undefined || fields['upstream'] === upstream ? [kind] : [],
  );
}
