/** Operators' requests to the operations port of a gateway. */
import assert from 'node:assert/strict';
import { fetchReply, type Reply, type TestGateway } from './gateway.ts';

/** The answer to a purge. */
export interface PurgeAnswer {
  readonly purged: string;
  readonly complete: boolean;
  readonly memory: number;
  readonly redis: number | string;
  /** Where there is one. */
  readonly store?: string;
  readonly replicas: { readonly told: number; readonly cleared: number } | string;
}

export function askPurge(
  gateway: Pick<TestGateway, 'operationsUrl'>,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> {
  const url = `${gateway.operationsUrl}/admin/purge`;
  return fetchReply(url, { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } });
}

/** Purges, and gives what was cleared. */
export async function purge(gateway: Pick<TestGateway, 'operationsUrl'>, request: object): Promise<PurgeAnswer> {
  const reply = await askPurge(gateway, JSON.stringify(request));
  assert.equal(reply.status, 200, reply.text);
  return JSON.parse(reply.text) as PurgeAnswer;
}

export async function askExplain(
  gateway: TestGateway,
  query: Readonly<Record<string, string>>,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> {
  const url = `${gateway.operationsUrl}/admin/explain?${new URLSearchParams(query).toString()}`;
  return fetchReply(url, { method: 'GET', headers });
}

/** Drains or resumes the node of this name. */
export function askDrain(gateway: TestGateway, name: string, action: 'drain' | 'resume'): Promise<Reply> {
  return fetchReply(`${gateway.operationsUrl}/admin/upstreams/${name}/${action}`, { method: 'POST' });
}
