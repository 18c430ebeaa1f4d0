/** Every panel of the dashboard, from top to bottom. `$on`: the replicas that are chosen. */
import type { Panel, Row } from './panel.ts';
import { fleetRow, nodesRow } from './rows-fleet.ts';
import { encodeRow, limitsRow, processRow, redisRow } from './rows-inside.ts';

const good = { text: 'good', color: 'green' } as const;
const bad = { text: 'bad', color: 'red' } as const;

const stat = (panel: Panel): Panel => ({ kind: 'stat', width: 3, ...panel });

const requestRate = 'sum(rate(ledgergate_http_requests_total{$on}[$__rate_interval]))';
const failedShare = `(sum(rate(ledgergate_http_requests_total{$on,status=~"5.."}[$__rate_interval])) or vector(0)) / ${requestRate}`;
const countOf = (outcomes: string): string =>
  `sum(rate(ledgergate_http_request_duration_seconds_count{$on,outcome=~"${outcomes}"}[$__rate_interval]))`;
const quantile = (q: number, by: string, bucket: string): string =>
  `histogram_quantile(${q}, sum by (${['le', by].filter(Boolean).join(', ')}) (rate(${bucket}[$__rate_interval])))`;

const glanceRow: Row = {
  title: 'At a glance',
  panels: [
    stat({
      title: 'Requests',
      description: 'Requests of clients a second, all replicas that are chosen.',
      unit: 'reqps',
      series: { [requestRate]: 'requests' },
    }),
    stat({
      title: 'Failed',
      description: 'Share of requests answered 5xx. 0.1 % is what the alerts allow over a month.',
      unit: 'percentunit',
      series: {
        [failedShare]: 'failed',
      },
      warn: 0.001,
      bad: 0.0144,
    }),
    stat({
      title: 'Hit share',
      description: 'Of reads that may be kept: the share that no node was asked for.',
      unit: 'percentunit',
      series: { [`${countOf('memory|redis|collapsed')} / ${countOf('memory|redis|collapsed|miss')}`]: 'hits' },
    }),
    stat({
      title: 'Calls of nodes saved',
      description: 'Requests a second that nodes did not get because the gateway answered in their place.',
      unit: 'reqps',
      series: { 'sum(rate(ledgergate_saved_upstream_requests_total{$on}[$__rate_interval]))': 'saved' },
    }),
    stat({
      title: 'p99 of hits',
      description: 'Time of answers out of memory at the 99th percentile.',
      unit: 's',
      series: {
        [quantile(0.99, '', 'ledgergate_http_request_duration_seconds_bucket{$on,outcome="memory"}')]: 'p99',
      },
      warn: 0.01,
      bad: 0.05,
    }),
    stat({
      title: 'Nodes usable',
      description: 'Share of nodes that can be asked, as the gateways see them.',
      unit: 'percentunit',
      series: { 'avg(ledgergate_upstream_usable{$on})': 'usable' },
      low: true,
      warn: 1,
      bad: 0.5,
    }),
    stat({
      title: 'Outage',
      description: 'Whether a gateway has no node left that answers.',
      unit: 'none',
      series: { 'max(ledgergate_outage{$on})': 'outage' },
      bad: 1,
      words: { '0': { ...good, text: 'no' }, '1': { ...bad, text: 'YES' } },
    }),
    stat({
      title: 'Alerts',
      description: 'Alerts of Ledgergate that fire now, in this Prometheus.',
      unit: 'none',
      series: { 'count(ALERTS{alertname=~"Ledgergate.*",alertstate="firing"}) or vector(0)': 'firing' },
      bad: 1,
    }),
  ],
};

const trafficRow: Row = {
  title: 'Traffic and errors',
  panels: [
    {
      title: 'Requests by route',
      description: 'Requests of clients a second, by route template.',
      unit: 'reqps',
      kind: 'stacked',
      series: { 'sum by (route) (rate(ledgergate_http_requests_total{$on}[$__rate_interval]))': '{{route}}' },
    },
    {
      title: 'Requests by status',
      description: 'What clients were told.',
      unit: 'reqps',
      series: { 'sum by (status) (rate(ledgergate_http_requests_total{$on}[$__rate_interval]))': '{{status}}' },
    },
    {
      title: 'Share of requests that failed',
      description: 'Answered 5xx. The lines: what 99.9 % allows, and the pace at which somebody is paged.',
      unit: 'percentunit',
      series: {
        [failedShare]: 'failed',
      },
      warn: 0.001,
      bad: 0.0144,
    },
    {
      title: 'Connections and requests under way',
      description: 'Open connections of clients, and requests that are not answered yet.',
      unit: 'short',
      series: {
        'sum(ledgergate_http_connections{$on})': 'connections',
        'sum(ledgergate_http_in_flight_requests{$on})': 'requests under way',
      },
    },
    {
      title: 'Refused to keep the others answered',
      description: 'Requests shed while the event loop is late, and connections beyond the bound. 0 is usual.',
      unit: 'ops',
      series: {
        'sum(rate(ledgergate_shed_requests_total{$on}[$__rate_interval]))': 'requests shed',
        'sum(rate(ledgergate_http_connections_refused_total{$on}[$__rate_interval]))': 'connections refused',
        'sum(rate(ledgergate_http_connections_displaced_total{$on}[$__rate_interval]))': 'idle connections closed',
      },
    },
    {
      title: 'What never became a request',
      description: 'Heads that are no HTTP or take too long, and TLS handshakes that fail.',
      unit: 'ops',
      series: {
        'sum(rate(ledgergate_http_broken_requests_total{$on}[$__rate_interval]))': 'broken requests',
        'sum(rate(ledgergate_tls_handshake_failures_total{$on}[$__rate_interval]))': 'TLS handshakes',
      },
    },
  ],
};

const hitsRow: Row = {
  title: 'Hits and saved calls',
  panels: [
    {
      title: 'Where answers come from',
      description:
        'memory, redis; collapsed: from the read of another client; miss: a node was asked; passed: never kept; local: made here; refused, failed: errors.',
      unit: 'reqps',
      kind: 'stacked',
      series: {
        'sum by (outcome) (rate(ledgergate_http_request_duration_seconds_count{$on}[$__rate_interval]))': '{{outcome}}',
      },
    },
    {
      title: 'Hit share',
      description: 'Of reads that may be kept: the share that no node was asked for, and its parts.',
      unit: 'percentunit',
      max: 1,
      series: {
        [`${countOf('memory|redis|collapsed')} / ${countOf('memory|redis|collapsed|miss')}`]: 'all',
        [`${countOf('memory')} / ${countOf('memory|redis|collapsed|miss')}`]: 'memory',
        [`${countOf('redis')} / ${countOf('memory|redis|collapsed|miss')}`]: 'redis',
      },
    },
    {
      title: 'Calls of nodes saved',
      description: 'Requests a second that nodes did not get, by what answered in their place.',
      unit: 'reqps',
      kind: 'stacked',
      series: { 'sum by (how) (rate(ledgergate_saved_upstream_requests_total{$on}[$__rate_interval]))': '{{how}}' },
    },
    {
      title: 'Bytes of nodes saved',
      description: 'Bytes a second that did not have to be read from nodes.',
      unit: 'Bps',
      kind: 'stacked',
      series: { 'sum by (how) (rate(ledgergate_saved_upstream_bytes_total{$on}[$__rate_interval]))': '{{how}}' },
    },
    {
      title: 'Memory of the cache',
      description: 'Bytes held and the bound. Full is usual; what counts is whether hits stay.',
      unit: 'bytes',
      series: {
        'sum(ledgergate_cache_bytes{$on})': 'held',
        'sum(ledgergate_cache_max_bytes{$on})': 'bound',
      },
    },
    {
      title: 'Stored, evicted, not kept',
      description: 'What becomes of answers of nodes, and entries that left memory to make room.',
      unit: 'ops',
      series: {
        'sum by (decision) (rate(ledgergate_cache_store_decisions_total{$on}[$__rate_interval])) > 0': '{{decision}}',
        'sum(rate(ledgergate_cache_evictions_total{$on}[$__rate_interval]))': 'evicted',
      },
    },
  ],
};

const latencyRow: Row = {
  title: 'Latency',
  panels: [
    {
      title: 'p50 by where answers come from',
      description: 'Median from a request to the last byte of its answer handed to the socket. Without long polls.',
      unit: 's',
      series: {
        [quantile(0.5, 'outcome', 'ledgergate_http_request_duration_seconds_bucket{$on,route!="wait_by_hash"}')]:
          '{{outcome}}',
      },
    },
    {
      title: 'p99 by where answers come from',
      description: 'The same at the 99th percentile.',
      unit: 's',
      series: {
        [quantile(0.99, 'outcome', 'ledgergate_http_request_duration_seconds_bucket{$on,route!="wait_by_hash"}')]:
          '{{outcome}}',
      },
    },
    {
      title: 'p95 by route',
      description: 'At the 95th percentile, by route template. wait_by_hash is a long poll.',
      unit: 's',
      series: {
        [quantile(0.95, 'route', 'ledgergate_http_request_duration_seconds_bucket{$on}')]: '{{route}}',
      },
    },
  ],
};

const consistencyRow: Row = {
  title: 'How old the latest state is',
  panels: [
    {
      title: 'Age of the state that reads of the latest are given',
      description: 'At most latest.maxStaleness (200 ms), unless clients ask for older ones.',
      unit: 's',
      series: {
        [quantile(0.5, '', 'ledgergate_served_staleness_seconds_bucket{$on}')]: 'p50',
        [quantile(0.95, '', 'ledgergate_served_staleness_seconds_bucket{$on}')]: 'p95',
        [quantile(0.99, '', 'ledgergate_served_staleness_seconds_bucket{$on}')]: 'p99',
      },
      bad: 1,
    },
    {
      title: 'Versions behind the head',
      description: 'The head that is believed now, less the version that a read of the latest was given.',
      unit: 'short',
      series: {
        [quantile(0.5, '', 'ledgergate_served_version_lag_versions_bucket{$on}')]: 'p50',
        [quantile(0.99, '', 'ledgergate_served_version_lag_versions_bucket{$on}')]: 'p99',
      },
    },
    {
      title: 'Not yet where another replica has been',
      description: 'Versions that another replica had shown and no node here got to in time. 0 is usual.',
      unit: 'ops',
      series: { 'sum(rate(ledgergate_unreached_versions_total{$on}[$__rate_interval]))': 'unreached' },
    },
  ],
};

export const rows: readonly Row[] = [
  glanceRow,
  trafficRow,
  hitsRow,
  latencyRow,
  fleetRow,
  nodesRow,
  consistencyRow,
  encodeRow,
  redisRow,
  limitsRow,
  processRow,
];
