/**
 * The fleet of `ledgergate sample`: a full node that prunes and an archival node, of one ledger that moves as fast as a
 * public one does. Commands to try on it are each answered 200.
 */
import { advancingClock, type AdvancingClockOptions } from './ledger-clock.ts';
import { Mempool } from './mempool.ts';
import { createSampleNode } from './sample-node.ts';
import { encodeVectors } from './recorded.ts';

/** Version 0. A fixed day, so that a restarted fleet goes on where the last one was. */
const ledgerStartMs = Date.UTC(2024, 0, 1);
/** Versions that the full node keeps: about nine minutes, so that its edge can be watched. */
const window = 100_000n;
/** About five seconds' worth: the edge moves in steps that can be seen, and that a gateway has to predict. */
const pruneStep = 1000n;

/** Starts both nodes. `port`: of the full node; the archival one gets the next. Default: free loopback ports. */
export async function startSampleFleet({
  host = '127.0.0.1',
  port = 0,
  now = Date.now,
}: { readonly host?: string; readonly port?: number; readonly now?: () => number } = {}) {
  const ledger: AdvancingClockOptions = { startMs: ledgerStartMs, pruneStep, now };
  const mempool = new Mempool({ now });
  const full = await createSampleNode({ host, port, mempool, clock: advancingClock({ ...ledger, window }) });
  const nextPort = port === 0 ? 0 : port + 1;
  const archival = await createSampleNode({ host, port: nextPort, mempool, clock: advancingClock(ledger) });
  return {
    nodes: [
      { name: 'sample-full', url: full.url, tier: 'full' as const, node: full },
      { name: 'sample-archival', url: archival.url, tier: 'archival' as const, node: archival },
    ],
    state(): FleetState {
      const { version: head, oldestVersion: oldest } = full.ledger();
      return { head, oldest, archivalOldest: archival.ledger().oldestVersion };
    },
    async close() {
      await Promise.all([full.close(), archival.close()]);
    },
  };
}

/** Versions of a fleet of a pruned and an archival node; `oldest`: the full node's. */
export type FleetState = Readonly<Record<'head' | 'oldest' | 'archivalOldest', bigint>>;

/** A little below head, so that a node which lags by a second holds it too. */
const behindHead = 200n;

const sampleChainId = 1;

/** Four lines for a POSIX shell, and the claim that each shows, for the service at `baseUrl`, which ends in `/v1`. */
export function curlExamples(baseUrl: string, state: FleetState) {
  const recent = state.head - behindHead > state.oldest ? state.head - behindHead : state.head;
  const pruned = (state.archivalOldest + state.oldest) / 2n;
  const account = `${baseUrl}/accounts/0x1/resource/0x1::account::Account`;
  const probe = `${baseUrl}/accounts/0x1/resource/0x1::ledgergate_sample::Probe`;
  const view = { function: '0x1::coin::balance', type_arguments: ['0x1::aptos_coin::AptosCoin'], arguments: ['0x1'] };
  return [
    {
      title: 'A resource at one version. Run it twice: a miss, then a hit',
      command: curl(`${account}?ledger_version=${recent}`),
    },
    {
      title: 'A version that the full node has pruned: the archival node answers',
      command: curl(`${probe}?ledger_version=${pruned}`),
    },
    {
      title: 'A view function at one version, a POST that is cached all the same',
      command: curl(`${baseUrl}/view?ledger_version=${recent}`, JSON.stringify(view)),
    },
    {
      title: 'The bytes to sign for a transfer, encoded from the ABI',
      command: curl(`${baseUrl}/transactions/encode_submission`, transferRequest()),
    },
  ];
}

function transferRequest(): string {
  const vector = encodeVectors.find(({ chainId, status }) => chainId === sampleChainId && status === 200);
  if (vector === undefined) throw new Error('no signing message was recorded for the sample chain');
  return vector.request;
}

function curl(url: string, json?: string): string {
  const body = json === undefined ? '' : ` -H 'Content-Type: application/json' -d ${shellQuote(json)}`;
  return `curl -i ${shellQuote(url)}${body}`;
}

/** Quotes any text as one argument of a POSIX shell. */
function shellQuote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
