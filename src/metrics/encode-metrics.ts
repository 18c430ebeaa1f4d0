/** Metrics of encode_submission: encoded here or by a node, and the standing proof. */
import type { Registry } from 'prom-client';
import { Counter } from './counter.ts';
import { combinations } from './family.ts';
import { Gauge } from './gauge.ts';

/** Reasons for which a node encodes: those of the encoder (`encode/outcome.ts`), and those found before it runs. */
export const forwardReasons = [
  'script payload',
  'encrypted payload',
  'unknown payload',
  'duplicate key',
  'nested too deep',
  'too many values',
  'too many steps',
  'doubtful text',
  'unreadable abi',
  'struct argument',
  'generic argument',
  'signed integer',
  'unsupported parameter',
  'type argument',
  'doubtful value',
  'refused locally',
  'encoder fault',
  'bcs accept',
  'encoded body',
  'large body',
  'module unavailable',
  'distrusted function',
  'chain unknown',
] as const;
/** Label `reason` of a forwarded request. */
export type ForwardReasonName = (typeof forwardReasons)[number];

/** Counts events of signing messages. */
export type EncodeMetrics = ReturnType<typeof createEncodeMetrics>;

const labels = { outcome: ['local', 'forwarded', 'refused'], reason: ['', 'no node', ...forwardReasons] } as const;

/** Registers the families of signing messages; `readDistrusted` is called at each scrape. */
export function createEncodeMetrics(registry: Registry, readDistrusted: () => number) {
  const requests = new Counter(registry, {
    name: 'ledgergate_encode_requests_total',
    help: 'Requests for a signing message: local (encoded here), forwarded (an upstream encoded, and why), refused (here, since no upstream could be asked).',
    labels,
    known: () => [
      { outcome: 'local', reason: '' },
      { outcome: 'refused', reason: 'no node' },
      ...combinations({ outcome: ['forwarded'], reason: forwardReasons }),
    ],
  });
  const checked = new Counter(registry, {
    name: 'ledgergate_encode_checks_total',
    help: 'Local encodings compared with an upstream in the background, by result; mismatch must stay 0.',
    labels: { result: ['equal', 'mismatch', 'inconclusive', 'skipped'] },
  }).by('result');
  new Gauge(registry, {
    name: 'ledgergate_encode_distrusted_functions',
    help: 'Functions left to upstreams because one of them once encoded them differently; an account with more than 100 counts once, and 1000 at most are counted.',
    join: 'max',
    read: readDistrusted,
  });
  const local = requests.of({ outcome: 'local', reason: '' });
  return {
    local: () => local.inc(),
    forwarded: (reason: ForwardReasonName) => requests.inc({ outcome: 'forwarded', reason }),
    /** Answered with an error, because no node was reachable. */
    refused: () => requests.inc({ outcome: 'refused', reason: 'no node' }),
    checked,
  };
}
