/** Commands to copy and paste while the sample fleet runs; each of them is answered 200. */
import { encodeVectors } from './recorded.ts';

/** State of a fleet of a pruned and an archival node. */
export interface FleetState {
  readonly head: bigint;
  /** The full node's oldest version. */
  readonly oldest: bigint;
  readonly archivalOldest: bigint;
}

/** A command line to try, and the claim that it shows. */
export interface CurlExample {
  readonly title: string;
  /** One line for a POSIX shell. */
  readonly command: string;
}

/** A little below head, so that a node which lags by a second holds it too. */
const behindHead = 200n;

/** The chain of the sample fleet. */
const sampleChainId = 1;

/** Four examples for the service at `baseUrl`, which ends in `/v1`. */
export function curlExamples(baseUrl: string, state: FleetState): readonly CurlExample[] {
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
