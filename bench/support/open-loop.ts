/**
 * Load in an open loop: requests leave when they are due, whether or not earlier ones were answered, and the time of
 * each counts from that moment. A closed loop would ask less while the server is slow, and hide it.
 */
import { Pool } from 'undici';

export interface Stream {
  readonly kind: 'miss' | 'hit';
  /** Requests a second, `atMs` after the beginning. */
  rate(atMs: number): number;
  /** The next path, and a text that the right answer contains. */
  next(): { readonly path: string; readonly contains: string };
}

export interface Sample {
  readonly kind: Stream['kind'];
  /** When it was due, in ms after the beginning. */
  readonly atMs: number;
  readonly tookMs: number;
  /** How late it left: what the load generator, or the machine, adds to `tookMs`. */
  readonly lateMs: number;
  /** 0: no answer. */
  readonly status: number;
  /** False: an answer of 200 that is another one's. */
  readonly isRight: boolean;
}

export interface OpenLoop {
  readonly url: string;
  readonly seconds: number;
  readonly streams: readonly Stream[];
  /** Called once each, so many ms after the beginning. */
  readonly events: readonly { readonly atMs: number; do(): unknown }[];
}

/** More than are ever under way with the gateway's deadline and the rates in use. */
const connections = { miss: 4_000, hit: 64 } as const;
const bounds = { pipelining: 1, headersTimeout: 30_000 } as const;
const stepMs = 2;

/** Resolves when every request has been answered or has failed. */
export async function openLoop({ url, seconds, streams, events }: OpenLoop): Promise<readonly Sample[]> {
  // Hits have connections of their own: they are to show what the gateway does, not what a crowded client does.
  const pools = streams.map(({ kind }) => new Pool(new URL(url).origin, { connections: connections[kind], ...bounds }));
  const samples: Sample[] = [];
  const underWay = new Set<Promise<void>>();
  const startMs = performance.now();
  const due = streams.map(() => 0);
  const left = [...events].sort((a, b) => a.atMs - b.atMs);
  for (let nowMs = 0; nowMs < seconds * 1000; nowMs = performance.now() - startMs) {
    while ((left[0]?.atMs ?? Infinity) <= nowMs) await left.shift()?.do();
    for (const [index, stream] of streams.entries()) {
      for (let atMs = due[index] ?? 0; atMs <= nowMs; atMs += 1000 / stream.rate(atMs)) {
        const pool = pools[index];
        if (pool === undefined) continue;
        const asked = ask(pool, stream, { startMs, atMs, samples }).finally(() => underWay.delete(asked));
        underWay.add(asked);
        due[index] = atMs + 1000 / stream.rate(atMs);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, stepMs));
  }
  await Promise.all(underWay);
  await Promise.all(pools.map((pool) => pool.destroy()));
  return samples;
}

interface Asking {
  readonly startMs: number;
  readonly atMs: number;
  readonly samples: Sample[];
}

async function ask(pool: Pool, stream: Stream, { startMs, atMs, samples }: Asking): Promise<void> {
  const { path, contains } = stream.next();
  const lateMs = performance.now() - startMs - atMs;
  let status = 0;
  let isRight = true;
  try {
    const { statusCode, body } = await pool.request({ method: 'GET', path });
    const text = await body.text();
    status = statusCode;
    isRight = status !== 200 || text.includes(contains);
  } catch {
    status = 0;
  }
  samples.push({ kind: stream.kind, atMs, tookMs: performance.now() - startMs - atMs, lateMs, status, isRight });
}
