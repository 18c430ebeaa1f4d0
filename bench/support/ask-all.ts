/** Asks a server for many paths once, some at a time. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';

export interface Answered {
  readonly path: string;
  /** Names and values by turns, as they came. */
  readonly head: readonly string[];
  readonly body: Buffer;
}

/** A request with its body. */
export interface WholeRequest {
  readonly method: 'GET' | 'POST';
  /** With its query. */
  readonly path: string;
  /** JSON. */
  readonly body?: string;
}

/** Credentials of the client, and the trusted root of a server with TLS. */
export interface Access {
  /** Value of the Authorization header. */
  readonly authorization?: string | undefined;
  /** PEM text. */
  readonly ca?: string | undefined;
}

const atOnce = 16;
/** Of every request, here and in load.lua. */
export const clientHeaders = {
  accept: 'application/json',
  'user-agent': 'ledger-ts-sdk/2.1.0',
  'x-node-client': 'ledger-ts-sdk/2.1.0',
};

/** Retries of a request that a busy server sheds, and the ms between them. */
const retries = 50;
const retryMs = 200;

/** GETs the paths. Throws with the first answer that is not 200. */
export function askAll(
  url: string,
  paths: readonly string[],
  onAnswer: (answered: Answered) => void = () => undefined,
): Promise<void> {
  const requests = paths.map((path) => ({ method: 'GET', path }) as const);
  return askWhole(url, requests, {}, onAnswer);
}

/** Throws with the first answer that is not 200. */
export async function askWhole(
  url: string,
  requests: readonly WholeRequest[],
  { authorization, ca }: Access,
  onAnswer: (answered: Answered) => void = () => undefined,
): Promise<void> {
  const { origin } = new URL(url);
  const pool = new Pool(origin, { connections: atOnce, ...(ca === undefined ? {} : { connect: { ca } }) });
  let next = 0;
  const ask = async ({ method, path, body }: WholeRequest): Promise<Answered> => {
    const headers = {
      ...clientHeaders,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(authorization === undefined ? {} : { authorization }),
    };
    for (let tries = 0; ; tries += 1) {
      const answer = await pool.request({ method, path, headers, body: body ?? null, responseHeaders: 'raw' });
      const bytes = Buffer.from(await answer.body.arrayBuffer());
      const raw = answer.headers as unknown as readonly (Buffer | string)[];
      if (answer.statusCode === 200) return { path, head: raw.map(String), body: bytes };
      if (answer.statusCode !== 503 || tries === retries) {
        throw new Error(`${origin}${path} is answered ${answer.statusCode}: ${String(bytes)}`);
      }
      await sleep(retryMs);
    }
  };
  const askOn = async (): Promise<void> => {
    for (let request = requests[next]; request !== undefined; request = requests[next]) {
      next += 1;
      onAnswer(await ask(request));
    }
  };
  try {
    await Promise.all(Array.from({ length: atOnce }, askOn));
  } finally {
    await pool.destroy();
  }
}
