/** Fills a server's cache with the requests of a shape, and measures it while it answers them: by wrk, HTTP/2 by h2load. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { askWhole, clientHeaders } from './ask-all.ts';
import { endOfRequest, requestsOf, wireText, type Shape } from './client-shapes.ts';
import { loadCpu } from './contest.ts';
import { quantile } from './figures.ts';
import { measureScript, runProgram, type Load, type Measured } from './load.ts';
import type { ServerProcess } from './process-under-test.ts';
import { newFolder } from './run-folder.ts';
import { clientKey } from './shape-servers.ts';

const script = fileURLToPath(new URL('requests.lua', import.meta.url));
/** 128 requests in flight, because a client of HTTP/2 sends several on each connection. */
const http2 = { connections: 16, streams: 8 } as const;

/** Throws with the first answer that is not 200. */
export function fill({ url }: ServerProcess, shape: Shape, ca: string): Promise<void> {
  return askWhole(url, requestsOf(shape), { ca, authorization: authorizationOf(shape) });
}

/** Length and pace of a measurement. */
interface ShapeLoad extends Pick<Load, 'connections' | 'seconds'> {
  /** Requests a second over HTTP/1.1, about; default: as many as the connections carry. */
  readonly rate?: number | undefined;
}

/** Throws when an answer was none, or an error. */
export function measureShape(server: ServerProcess, shape: Shape, load: ShapeLoad): Promise<Measured> {
  return shape.isHttp2 === true ? measureHttp2(server, shape, load.seconds) : measureHttp1(server, shape, load);
}

async function measureHttp1(server: ServerProcess, shape: Shape, load: ShapeLoad): Promise<Measured> {
  const folder = newFolder('requests');
  const file = join(folder, 'requests');
  const { host } = new URL(server.url);
  const texts = requestsOf(shape).map((request) => wireText(request, host, authorizationOf(shape)) + endOfRequest);
  writeFileSync(file, texts.join(''));
  const seed = String(Math.floor(Math.random() * 1e6));
  // The mean of random pauses is half of the longest one.
  const pause = load.rate === undefined ? [] : [String(Math.round((2_000 * load.connections) / load.rate))];
  const measured = await measureScript(server, { ...load, script, args: [file, seed, ...pause] }, loadCpu);
  rmSync(folder, { recursive: true });
  return measured;
}

async function measureHttp2(server: ServerProcess, shape: Shape, seconds: number): Promise<Measured> {
  const folder = newFolder('h2load');
  const [log, list] = [join(folder, 'log'), join(folder, 'urls')];
  const { origin } = new URL(server.url);
  writeFileSync(
    list,
    requestsOf(shape)
      .map(({ path }) => `${origin}${path}\n`)
      .join(''),
  );
  const how = `-c ${loadCpu} h2load -t1 -c${http2.connections} -m${http2.streams} -D${seconds}`.split(' ');
  const files = [`--log-file=${log}`, `--input-file=${list}`];
  const headers = Object.entries(clientHeaders).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
  const before = server.cpuMicros();
  await runProgram('taskset', [...how, ...files, ...headers]);
  const used = server.cpuMicros() - before;
  const lines = readFileSync(log, 'latin1').trim().split('\n');
  rmSync(folder, { recursive: true });
  return {
    ...http2Figures(lines),
    requestsPerSecond: lines.length / seconds,
    cpuMicrosPerRequest: used / lines.length,
  };
}

/** From lines of h2load's log: the start, the status, and the microseconds until the answer. Throws for one that is not 200. */
export function http2Figures(lines: readonly string[]): Pick<Measured, 'requests' | 'p50Ms' | 'p99Ms'> {
  const answers = lines.map((line) => line.split('\t'));
  const bad = answers.filter(([, status]) => status !== '200').length;
  if (bad > 0) throw new Error(`${bad} of ${answers.length} answers were not 200`);
  const tookMs = answers.map(([, , micros]) => Number(micros) / 1_000);
  return { requests: answers.length, p50Ms: quantile(tookMs, 0.5), p99Ms: quantile(tookMs, 0.99) };
}

function authorizationOf({ hasKey, authorization }: Shape): string | undefined {
  return authorization ?? (hasKey === true ? `Bearer ${clientKey}` : undefined);
}
