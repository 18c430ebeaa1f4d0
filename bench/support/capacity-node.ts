/**
 * A node of limited strength, as a process: so many reads are worked on at once, each takes a while, and the others
 * wait. What is wrong with it, and how strong it is, is set while it runs: `POST /control`; `GET /control` counts.
 *
 * It holds every version up to a head that never moves, and answers like a sample node where benchmarks look.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Random } from '../../test/support/random.ts';
import { answer, ledgerAt, listen } from './node-process.ts';

export interface NodeSettings {
  /** Reads that are worked on at once. */
  readonly places: number;
  /** Mean of the time that one takes. */
  readonly serviceMs: number;
  /** How times are distributed: exponentially, or all are the same. */
  readonly times: 'exponential' | 'equal';
  /** `reads`: the ledger info is still answered. */
  readonly hangs: 'no' | 'reads' | 'all';
  /** Share of the reads that are answered 500 or 502. */
  readonly errors: number;
}

export interface NodeCounts {
  /** Reads that came. */
  readonly reads: number;
  readonly answered: number;
  /** Reads that were given up while they waited or were worked on. */
  readonly givenUp: number;
}

const head = 1_000_000_000n;
const random = new Random(Number(process.argv[2] ?? 1));
const waiting: Work[] = [];
let settings: NodeSettings = { places: 8, serviceMs: 20, times: 'exponential', hangs: 'no', errors: 0 };
let counts = { reads: 0, answered: 0, givenUp: 0 };
let busy = 0;

interface Work {
  readonly version: string;
  readonly response: ServerResponse;
}

const server = createServer((request, response) => {
  const { url = '', method } = request;
  if (url === '/control') void control(method === 'POST' ? request : undefined, response);
  else if (url === '/v1' || url === '/v1/') tellLedger(response);
  else takeRead(url, response);
});
listen(server, '/v1');

async function control(posted: IncomingMessage | undefined, response: ServerResponse): Promise<void> {
  if (posted !== undefined) {
    let text = '';
    for await (const chunk of posted) text += String(chunk);
    settings = { ...settings, ...(JSON.parse(text) as Partial<NodeSettings>) };
  }
  response.end(JSON.stringify(counts));
}

function tellLedger(response: ServerResponse): void {
  if (settings.hangs !== 'all') answer(response, 200, '{"chain_id":1}', ledgerAt(head));
}

function takeRead(url: string, response: ServerResponse): void {
  counts = { ...counts, reads: counts.reads + 1 };
  const work = { version: /ledger_version=(\d+)/.exec(url)?.[1] ?? String(head), response };
  response.once('close', () => {
    if (response.writableFinished) return;
    counts = { ...counts, givenUp: counts.givenUp + 1 };
    const at = waiting.indexOf(work);
    if (at >= 0) waiting.splice(at, 1);
  });
  if (settings.hangs !== 'no') return;
  if (busy >= settings.places) waiting.push(work);
  else begin(work);
}

/** Like real nodes, it finishes work whose client has gone. */
function begin(work: Work): void {
  busy += 1;
  const factor = settings.times === 'equal' ? 1 : -Math.log(1 - random.u32() / 2 ** 32);
  setTimeout(() => {
    busy -= 1;
    finish(work);
    while (busy < settings.places) {
      const next = waiting.shift();
      if (next === undefined) return;
      begin(next);
    }
  }, factor * settings.serviceMs);
}

function finish({ version, response }: Work): void {
  if (settings.hangs !== 'no' || response.destroyed) return;
  counts = { ...counts, answered: counts.answered + 1 };
  if (random.u32() / 2 ** 32 < settings.errors) {
    const fault = '{"message":"a fault","error_code":"internal_error","vm_error_code":null}';
    if (random.chance(2)) response.writeHead(502, { 'Content-Type': 'text/html' }).end('<h1>Bad gateway</h1>');
    else answer(response, 500, fault, ledgerAt(head));
    return;
  }
  const data = { address: '0x1', ledger_version: version };
  answer(response, 200, JSON.stringify({ type: '0x1::ledgergate_sample::Probe', data }), ledgerAt(head));
}
