/** Operators' changes of what a gateway logs. */
import assert from 'node:assert/strict';
import { until } from './eventually.ts';
import { fetchReply } from './gateway.ts';

interface Shown {
  readonly level: string;
  readonly access: { readonly share: number; readonly slow: string; readonly failed: boolean };
  readonly by: string;
}

/** `GET /admin/log`, or with a change `PUT`. */
export async function askLog(
  operationsUrl: string,
  change?: unknown,
): Promise<{ readonly status: number; readonly body: Shown }> {
  const { status, text } = await fetchReply(`${operationsUrl}/admin/log`, {
    method: change === undefined ? 'GET' : 'PUT',
    headers: { 'content-type': 'application/json' },
    body: change === undefined ? null : JSON.stringify(change),
  });
  return { status, body: JSON.parse(text) as Shown };
}

/** A gateway, its lines of requests so far, and a way to have its config read again. */
interface Logging {
  readonly operationsUrl: string;
  readonly ask: () => Promise<unknown>;
  readonly answered: () => number;
  readonly reload: () => Promise<void> | void;
}

/** What an operator changes is in force at each of `processes`, until the config is read again. */
export async function changesLog({ operationsUrl, ask, answered, reload }: Logging, processes: number): Promise<void> {
  const usual = { level: 'info', access: { share: 0, slow: '2000ms', failed: true }, by: 'config' };
  assert.deepEqual((await askLog(operationsUrl)).body, usual);
  await ask();
  assert.equal(answered(), 0);

  const changed = await askLog(operationsUrl, { access: { share: 1 } });
  assert.deepEqual(changed.body, { ...usual, access: { ...usual.access, share: 1 }, by: 'operator' });
  // Workers receive it a moment later.
  await until(async () => {
    await ask();
    return answered() >= 2 * processes;
  });
  assert.equal((await askLog(operationsUrl, { level: 'error' })).body.level, 'error');
  await reload();
  await until(async () => (await askLog(operationsUrl)).body.by === 'config');
  assert.deepEqual((await askLog(operationsUrl)).body, usual);
}
