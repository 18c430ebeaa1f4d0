/** Asks a server for many paths once, some at a time. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';

export interface Answered {
  readonly path: string;
  /** Names and values by turns, as they came. */
  readonly head: readonly string[];
  readonly body: Buffer;
}

const atOnce = 16;
const headers = {
  accept: 'application/json',
  'user-agent': 'ledger-ts-sdk/2.1.0',
  'x-node-client': 'ledger-ts-sdk/2.1.0',
};

/** Retries of a request that a busy server sheds, and the ms between them. */
const retries = 50;
const retryMs = 200;

/** Throws with the first answer that is not 200. */
export async function askAll(
  url: string,
  paths: readonly string[],
  onAnswer: (answered: Answered) => void = () => undefined,
): Promise<void> {
  const { origin } = new URL(url);
  const pool = new Pool(origin, { connections: atOnce });
  let next = 0;
  const ask = async (path: string): Promise<Answered> => {
    for (let tries = 0; ; tries += 1) {
      const answer = await pool.request({ method: 'GET', path, headers, responseHeaders: 'raw' });
      const body = Buffer.from(await answer.body.arrayBuffer());
      const raw = answer.headers as unknown as readonly (Buffer | string)[];
      if (answer.statusCode === 200) return { path, head: raw.map(String), body };
      if (answer.statusCode !== 503 || tries === retries) {
        throw new Error(`${origin}${path} is answered ${answer.statusCode}: ${String(body)}`);
      }
      await sleep(retryMs);
    }
  };
  const askOn = async (): Promise<void> => {
    for (let path = paths[next]; path !== undefined; path = paths[next]) {
      next += 1;
      onAnswer(await ask(path));
    }
  };
  try {
    await Promise.all(Array.from({ length: atOnce }, askOn));
  } finally {
    await pool.destroy();
  }
}
