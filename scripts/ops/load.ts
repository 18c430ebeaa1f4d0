/** Clients of a gateway, a little of everything: hits and misses, latest, history, views, signing, submissions, errors. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { submission } from '../../test/support/submission.ts';
import { signingRequests, type World } from './world.ts';

export interface Load {
  /** Answers so far, by status; 0: none. */
  readonly statuses: ReadonlyMap<number, number>;
  /** One request more. */
  ask(path: string, body?: string): Promise<number>;
  /** So many different reads at once, none of which is held. */
  burst(reads: number): Promise<void>;
}

const account = '/accounts/0x1/resource/0x1::account::Account';
const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe';
const coin = '/accounts/0x1/module/coin';
const view = JSON.stringify({
  function: '0x1::coin::balance',
  type_arguments: ['0x1::aptos_coin::AptosCoin'],
  arguments: ['0x1'],
});

const clients = 8;
/** Between two requests of one client: some 200 a second in all, so that a small machine is not what is measured. */
const pauseMs = 30;

/** Goes on until the clean-up. */
export function startLoad(world: World, after: (step: () => unknown) => void): Load {
  // Over HTTP/2 one connection would do, and all requests go to one worker.
  const agent = new Agent({ allowH2: false, connect: { ca: world.ca }, connections: 64, headersTimeout: 15_000 });
  const statuses = new Map<number, number>();
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${world.key}` };
  const ask = async (path: string, body?: string): Promise<number> => {
    let status = 0;
    try {
      const options = body === undefined ? {} : { method: 'POST' as const, body, headers };
      const answer = await request(world.gateway.url + path, { dispatcher: agent, ...options });
      status = answer.statusCode;
      await answer.body.dump();
    } catch {
      // Counted as no answer.
    }
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    return status;
  };
  const stop = new AbortController();
  const running = Array.from({ length: clients }, (_, index) =>
    client(world, ask, { first: index, stop: stop.signal }),
  );
  after(async () => {
    stop.abort();
    await agent.destroy();
    await Promise.all(running);
  });
  return {
    statuses,
    ask,
    async burst(reads) {
      const head = world.head();
      const versions = Array.from({ length: reads }, (_, index) => head - 50_000n - BigInt(index));
      await Promise.all(versions.map((version) => ask(`${probe}?ledger_version=${version}`)));
    },
  };
}

type Ask = Load['ask'];

async function client(world: World, ask: Ask, { first, stop }: { first: number; stop: AbortSignal }): Promise<void> {
  for (let turn = first * 7; !stop.aborted; turn += 1) {
    await oneOf(world, ask, turn);
    await sleep(pauseMs);
  }
}

/** The subject of the `turn`-th request. */
function oneOf(world: World, ask: Ask, turn: number): Promise<number> {
  const head = world.head();
  switch (turn % 16) {
    // At most a thousand versions old, and a hundred of them: mostly hits.
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
      return ask(`${account}?ledger_version=${head - (head % 1000n) - BigInt(turn % 100)}`);
    case 5:
    case 6:
      return ask(`${probe}?ledger_version=${head - 1000n - BigInt(Math.floor(Math.random() * 1e6))}`);
    case 7:
    case 8:
      return ask(account);
    case 9:
      return ask(`/view?ledger_version=${head - (head % 1000n)}`, view);
    case 10:
      return ask('/view', view);
    case 11:
      return ask('/transactions/encode_submission', signingRequests[turn % signingRequests.length]);
    case 12:
      return ask('/transactions', submission({ sequenceNumber: turn }));
    case 13:
      return ask(turn % 32 === 13 ? '/accounts/0x1' : coin);
    // Below the windows of the full nodes.
    case 14:
      return ask(`${probe}?ledger_version=${1_000_000 + Math.floor(Math.random() * 1e6)}`);
    default:
      return ask(turn % 32 === 15 ? '/nothing/of/the/kind' : `${account}?ledger_version=none`);
  }
}
