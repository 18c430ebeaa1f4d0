/** Metrics of encode_submission: encoded here or by a node, and the standing proof. */
import type { Registry } from 'prom-client';
import { combinations, Counter, Gauge } from '../../metrics/index.ts';

/** Counts events of signing messages. */
export type EncodeMetrics = ReturnType<typeof createEncodeMetrics>;

/** Registers the families of signing messages, with the reasons why a node encodes; `readDistrusted` is called at each scrape. */
export function createEncodeMetrics(
  registry: Registry,
  forwardReasons: readonly string[],
  readDistrusted: () => number,
) {
  const labels = { outcome: ['local', 'forwarded', 'refused'], reason: ['', 'no node', ...forwardReasons] } as const;
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
    forwarded: (reason: string) => requests.inc({ outcome: 'forwarded', reason }),
    /** Answered with an error, because no node was reachable. */
    refused: () => requests.inc({ outcome: 'refused', reason: 'no node' }),
    checked,
  };
}
